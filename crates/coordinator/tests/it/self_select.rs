//! Self-selection: jobs are announced to one eligible factory at a time and claimed by id [D1][I13].

use std::time::Duration;

use coordinator::Inbox;
use domain::{EventKind, JobId, Mode, StageName};
use protocol::{Action, ClaimRequest, InboxEvent, ProductSettings};

use super::{lasting, quick};
use crate::fleet::{Fleet, PLAIN};
use crate::machine::{Machine, Offers, drain};

/// The jobs announced in an inbox, without waiting.
async fn announced(inbox: &mut Inbox) -> Vec<JobId> {
    let mut jobs = Vec::new();
    loop {
        let next = tokio::select! {
            biased;
            next = tokio::task::unconstrained(inbox.next()) => next,
            () = std::future::ready(()) => return jobs,
        };
        match next {
            Some(InboxEvent::Announcement(announcement)) => jobs.push(announcement.job_id),
            Some(_) => {}
            None => return jobs,
        }
    }
}

async fn claim(machine: &Machine, fleet: &Fleet, jobs: &[JobId]) -> Vec<JobId> {
    let request = ClaimRequest { jobs: Some(jobs.to_vec()), ..machine.request(fleet, 10) };
    machine.ask(fleet, &request).await.unwrap().into_iter().map(|grip| grip.job).collect()
}

/// A machine with this many seats and its open inbox.
async fn join(fleet: &Fleet, name: &str, seats: u32) -> (Machine, Inbox) {
    let machine = Machine::join_with(fleet, name, Offers { seats, ..Offers::default() }).await;
    let inbox = machine.open_inbox(fleet, 4).await;
    (machine, inbox)
}

// [D1]
#[tokio::test]
async fn a_job_is_announced_to_one_factory_after_the_other() {
    let fleet = Fleet::warm(lasting()).await;
    let (mac, mut to_mac) = join(&fleet, "mac", 1).await;
    let (pc, mut to_pc) = join(&fleet, "pc", 1).await;
    fleet.switch(Mode::SelfSelect).await;
    let job = fleet.submit(PLAIN).await;
    let (before, operations) = (fleet.job(job).await, fleet.operations());

    let mut told = Vec::new();
    // At once, after two seconds, then nothing until fifteen seconds are over.
    for _ in 0..8 {
        let sent = fleet.coordinator.dispatch_round().await;
        told.push((sent, announced(&mut to_mac).await.len(), announced(&mut to_pc).await.len()));
        fleet.pass(Duration::from_secs(2), &[&mac, &pc]).await;
    }

    let nothing = (0, 0, 0);
    let first = if told[0] == (0, 1, 0) { [(0, 1, 0), (0, 0, 1)] } else { [(0, 0, 1), (0, 1, 0)] };
    assert_eq!(told[..2], first);
    assert_eq!(told[2..], [nothing; 6]);
    fleet.pass(Duration::from_secs(1), &[&mac, &pc]).await;
    fleet.coordinator.dispatch_round().await;
    assert_eq!(announced(&mut to_mac).await.len() + announced(&mut to_pc).await.len(), 1, "it is announced again");
    assert_eq!(fleet.operations(), operations, "announcing used the store");
    assert_eq!(fleet.job(job).await, before);
    assert_eq!((drain(&mut to_mac).await.0, drain(&mut to_pc).await.0), (vec![], vec![]), "no offer");
}

// [D1] [I5]
#[tokio::test]
async fn the_first_claim_of_an_announced_job_wins() {
    let fleet = Fleet::warm(quick()).await;
    let (mac, _inbox) = join(&fleet, "mac", 4).await;
    let (pc, _other) = join(&fleet, "pc", 4).await;
    fleet.switch(Mode::SelfSelect).await;
    let (job, next) = (fleet.submit(PLAIN).await, fleet.submit(PLAIN).await);
    fleet.dispatch().await;

    // By id, whatever the order of the queue.
    let won = claim(&pc, &fleet, &[next]).await;
    let lost = claim(&mac, &fleet, &[next]).await;
    let one = [job];
    let both = tokio::join!(claim(&mac, &fleet, &one), claim(&pc, &fleet, &one));

    assert_eq!((won, lost), (vec![next], vec![]));
    assert_eq!(both.0.len() + both.1.len(), 1);
    for job in [job, next] {
        assert_eq!((fleet.stage(job).await, fleet.count(job, EventKind::Granted).await), (StageName::Assigned, 1));
    }
}

// [D1] [I6]
#[tokio::test]
async fn a_claim_by_id_checks_what_a_placement_checks() {
    let fleet = Fleet::warm(quick()).await;
    let (mac, mut inbox) = join(&fleet, "mac", 1).await;
    fleet.switch(Mode::SelfSelect).await;
    let unfit = fleet.submit("---\ncapabilities: [\"has:xcode\"]\n---\n# Build the app\n").await;
    let job = fleet.submit(PLAIN).await;
    fleet.builder.clock.advance(Duration::from_millis(1));
    let next = fleet.submit(PLAIN).await;
    fleet.dispatch().await;
    let told = announced(&mut inbox).await;

    fleet.set_product(ProductSettings { paused: Some(true), ..ProductSettings::default() }).await;
    let paused = claim(&mac, &fleet, &[job]).await;
    fleet.set_product(ProductSettings { paused: Some(false), ..ProductSettings::default() }).await;
    let ineligible = claim(&mac, &fleet, &[unfit]).await;
    let granted = claim(&mac, &fleet, &[unfit, job, next]).await;
    let full = claim(&mac, &fleet, &[next]).await;
    fleet.act(next, Action::Cancel).await.unwrap();
    let unknown = claim(&mac, &fleet, &[next, JobId::from_bytes([7; 16])]).await;

    assert_eq!(told, [job], "one seat is announced once");
    assert_eq!((paused, ineligible, granted), (vec![], vec![], vec![job]));
    assert_eq!((full, unknown), (vec![], vec![]));
    let many = ClaimRequest { jobs: Some(vec![job; 1_001]), ..mac.request(&fleet, 1) };
    assert!(mac.ask(&fleet, &many).await.unwrap_err().to_string().contains("1000 at most"));
}

// [D1]
#[tokio::test]
async fn a_free_seat_or_a_new_inbox_gets_the_next_announcement() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join_with(&fleet, "mac", Offers { seats: 1, ..Offers::default() }).await;
    fleet.switch(Mode::SelfSelect).await;
    let job = fleet.submit(PLAIN).await;
    fleet.builder.clock.advance(Duration::from_millis(1));
    let next = fleet.submit(PLAIN).await;
    fleet.dispatch().await;

    let mut inbox = mac.open_inbox(&fleet, 4).await;
    fleet.dispatch().await;
    let first = announced(&mut inbox).await;
    assert_eq!(claim(&mac, &fleet, &first).await, [job]);
    fleet.dispatch().await;
    let busy = announced(&mut inbox).await;
    let epoch = fleet.job(job).await.lease_epoch;
    mac.release(&fleet, crate::machine::Grip { job, epoch }).await.unwrap();
    fleet.dispatch().await;

    assert_eq!((first, busy), (vec![job], vec![]));
    assert_eq!(announced(&mut inbox).await.len(), 1);
    assert!(fleet.coordinator.explain(&fleet.admin, next).await.unwrap().summary.contains("self-select"));
}

// [D1] [I13]
#[tokio::test]
async fn after_a_switch_to_push_announced_jobs_are_offered() {
    let fleet = Fleet::warm(lasting()).await;
    let (mac, mut inbox) = join(&fleet, "mac", 4).await;
    fleet.switch(Mode::SelfSelect).await;
    let job = fleet.submit(PLAIN).await;
    fleet.dispatch().await;
    let told = announced(&mut inbox).await;

    fleet.switch(Mode::Push).await;
    let sent = fleet.dispatch().await;
    let late = claim(&mac, &fleet, &told).await;
    mac.run(&fleet, job).await;

    assert_eq!((told, sent, late), (vec![job], 1, vec![]));
    assert_eq!(fleet.count(job, EventKind::Granted).await, 1);
}
