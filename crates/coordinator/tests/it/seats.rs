//! However many jobs arrive and however they end, no seat is assigned twice [S6].

use std::collections::BTreeMap;
use std::time::Duration;

use domain::{FailureReason, JobId};
use protocol::ProductSettings;

use super::quick;
use crate::fleet::Fleet;
use crate::machine::{Grip, Machine, Offers, drain};

const STEPS: usize = 600;
const REPO_SEATS: u32 = 2;
const CLAUDE_SEATS: u32 = 1;

const MANIFESTS: [&str; 5] = [
    "# Anything\n",
    "---\ntitle: In the repository\nrepo: notes\n---\n",
    "---\ntitle: By claude\nengine: claude\n---\n",
    "---\ntitle: By either\nengines: [claude, codex]\n---\n",
    "---\ntitle: On linux\ncapabilities: [\"os:linux\"]\n---\n",
];

struct Load {
    fleet: Fleet,
    machines: Vec<Machine>,
    inboxes: Vec<coordinator::Inbox>,
    grips: Vec<(usize, Grip)>,
    manifests: BTreeMap<JobId, usize>,
}

// [S6]
#[tokio::test]
async fn no_seat_limit_is_ever_exceeded() {
    let mut load = load().await;

    for step in 0..STEPS {
        load.step().await;
        load.check(step).await;
    }

    let granted = load.fleet.log().await.iter().filter(|(_, kind)| *kind == domain::EventKind::Granted).count();
    assert!(granted > STEPS / 4, "only {granted} jobs were granted: the load proves nothing");
}

async fn load() -> Load {
    let fleet = Fleet::warm(quick()).await;
    let repo_seats = Some([("notes".parse().unwrap(), REPO_SEATS)].into());
    fleet.set_product(ProductSettings { repo_seats, ..ProductSettings::default() }).await;
    let mut machines = Vec::new();
    let mut inboxes = Vec::new();
    for n in 0..8 {
        let mut offers = Offers { seats: 1 + n % 3, ..Offers::default() };
        offers.capabilities.extend(["engine:claude".parse().unwrap(), "engine:codex".parse().unwrap()]);
        offers.engine_seats = [("claude".parse().unwrap(), CLAUDE_SEATS)].into();
        let machine = Machine::join_with(&fleet, &format!("factory-{n}"), offers).await;
        inboxes.push(machine.open_inbox(&fleet, 8).await);
        machines.push(machine);
    }
    Load { fleet, machines, inboxes, grips: Vec::new(), manifests: BTreeMap::new() }
}

impl Load {
    async fn step(&mut self) {
        let fleet = &self.fleet;
        match fleet.any(10) {
            0..=2 => {
                for _ in 0..1 + fleet.any(4) {
                    let manifest = fleet.any(MANIFESTS.len());
                    let job = fleet.submit(MANIFESTS[manifest]).await;
                    self.manifests.insert(job, manifest);
                }
            }
            3..=5 => drop(fleet.dispatch().await),
            6 => self.accept().await,
            7..=8 => self.finish().await,
            _ => {
                let span = Duration::from_secs(fleet.any(20) as u64);
                fleet.pass(span, &self.machines.iter().collect::<Vec<_>>()).await;
            }
        }
    }

    async fn accept(&mut self) {
        for (at, machine) in self.machines.iter().enumerate() {
            if self.fleet.any(3) == 0 {
                continue;
            }
            // The coordinator closes the inbox of a factory that leaves offers unanswered.
            self.inboxes[at] = machine.open_inbox(&self.fleet, 8).await;
            for message in drain(&mut self.inboxes[at]).await.0 {
                let claim = machine.claim(&self.fleet, message.job_id, message.dispatch_seq);
                if let Ok(accepted) = machine.accept(&self.fleet, &claim).await {
                    self.grips.push((at, Grip { job: message.job_id, epoch: accepted.lease_epoch }));
                }
            }
        }
    }

    async fn finish(&mut self) {
        for _ in 0..self.grips.len().min(5) {
            let (at, grip) = self.grips.swap_remove(self.fleet.any(self.grips.len()));
            let machine = &self.machines[at];
            // A lease may have been lost meanwhile; then each of these is refused.
            let _ = match self.fleet.any(4) {
                0 => machine.fail(&self.fleet, grip, FailureReason::Crash).await.map(drop),
                1 => machine.release(&self.fleet, grip).await.map(drop),
                2 => self.fleet.act(grip.job, protocol::Action::Cancel).await.map(drop),
                _ => {
                    let _ = machine.start(&self.fleet, grip).await;
                    machine.complete(&self.fleet, grip, None).await.map(drop)
                }
            };
        }
    }

    async fn check(&self, step: usize) {
        let mut in_repo = 0;
        for view in self.fleet.coordinator.factories(&self.fleet.admin).unwrap().items {
            assert!(view.seats.len() <= view.seat_limit as usize, "step {step}: {} has {:?}", view.id, view.seats);
            let of_kind =
                |wanted: usize| view.seats.iter().filter(move |seat| self.manifests[&seat.job_id.unwrap()] == wanted);
            assert!(of_kind(2).count() <= CLAUDE_SEATS as usize, "step {step}: {} runs claude twice", view.id);
            in_repo += of_kind(1).count();
        }
        assert!(in_repo <= REPO_SEATS as usize, "step {step}: {in_repo} jobs work in the repository");
    }
}

// [S6]
#[tokio::test]
async fn a_job_on_its_second_engine_takes_a_seat_of_that_engine() {
    let fleet = Fleet::warm(quick()).await;
    let mut offers = Offers { seats: 4, ..Offers::default() };
    offers.capabilities.insert("engine:codex".parse().unwrap());
    offers.engine_seats = [("codex".parse().unwrap(), 1)].into();
    Machine::join_with(&fleet, "mac", offers).await;
    for _ in 0..3 {
        fleet.submit("---\ntitle: By either\nengines: [claude, codex]\n---\n").await;
    }

    let mut placed = 0;
    for _ in 0..8 {
        placed += fleet.coordinator.dispatch_round().await;
    }

    assert_eq!(placed, 1);
}
