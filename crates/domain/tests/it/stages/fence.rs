//! Only the holder of the current epoch writes; every write that clears a holder fences it [I1][I2].

use domain::{Actor, Epoch, Holder, Job, Refusal, RunInsights, StageEvent, StageName};

use super::sample::{
    NOW, RETRY, assigned, building, checkpoint, completed, errand_expired, errand_granted, expired, fitting, granted,
    holder, linux, mac, offered, promoted, queued, situations, then,
};

fn refusal(job: &Job, event: StageEvent) -> Refusal {
    match job.clone().apply(event, NOW, Actor::Coordinator) {
        Ok(after) => panic!("expected a refusal, the job went to {}", after.stage().name()),
        Err(refusal) => refusal,
    }
}

fn with_holder(event: StageEvent, change: impl Fn(&mut Holder)) -> Option<StageEvent> {
    let mut event = event;
    let holder = super::property::holder_mut(&mut event)?;
    change(holder);
    Some(event)
}

// [I1]
#[test]
fn a_stale_epoch_is_fenced_in_every_stage() {
    for (situation, job) in situations() {
        for (name, event) in fitting(&job) {
            for shown in [Epoch(job.epoch().0 + 1), Epoch(job.epoch().0.wrapping_sub(1))] {
                let Some(event) = with_holder(event.clone(), |holder| holder.epoch = shown) else { continue };

                let refusal = refusal(&job, event);

                assert_eq!(refusal, Refusal::StaleEpoch { shown, held: job.epoch() }, "{situation}: {name}");
            }
        }
    }
}

// [I1] [attack: factory A writes to B's job]
#[test]
fn another_factory_is_fenced_in_every_stage() {
    for (situation, job) in situations() {
        for (name, event) in fitting(&job) {
            let Some(event) = with_holder(event, |holder| holder.factory = linux()) else { continue };

            let refusal = refusal(&job, event);

            assert_eq!(refusal, Refusal::NotHolder { factory: linux() }, "{situation}: {name}");
        }
    }
}

#[test]
fn a_job_is_released_once() {
    let job = building(queued());
    let released = StageEvent::Released {
        holder: holder(&job),
        message: None,
        insights: RunInsights::default(),
        not_before: None,
    };
    let held = job.epoch();

    let job = then(job, released.clone());

    assert_eq!(refusal(&job, released), Refusal::StaleEpoch { shown: held, held: held.next() });
}

// [I1]
#[test]
fn a_new_lease_fences_the_old_holder() {
    let job = building(queued());
    let old = holder(&job);
    let job = then(job, StageEvent::Reaped { epoch: old.epoch, verdict: RETRY });
    let job = assigned(job);

    let late = StageEvent::Checkpointed { holder: old.clone(), checkpoint: checkpoint(old.epoch) };

    assert_eq!(refusal(&job, late), Refusal::StaleEpoch { shown: old.epoch, held: job.epoch() });
    assert_eq!(job.checkpoint(), None);
}

#[test]
fn the_reaper_is_fenced() {
    let job = completed(queued());
    let reaped = StageEvent::Reaped { epoch: Epoch(1), verdict: RETRY };

    assert_eq!(refusal(&job, reaped), Refusal::StaleEpoch { shown: Epoch(1), held: Epoch(2) });
}

// [I2]
#[test]
fn the_epoch_rises_only_when_the_holder_changes() {
    for (situation, job) in situations() {
        for (name, event) in fitting(&job) {
            let is_restored = matches!(event, StageEvent::Restored { .. });
            let Ok(after) = job.clone().apply(event, NOW, Actor::Coordinator) else { continue };
            if is_restored {
                continue;
            }

            let has_changed_hands = job.lease() != after.lease();

            let expected = if has_changed_hands { job.epoch().next() } else { job.epoch() };
            assert_eq!(after.epoch(), expected, "{situation}: {name}");
            assert!(after.lease().is_none_or(|lease| lease.epoch == after.epoch()), "{situation}: {name}");
        }
    }
}

#[test]
fn only_the_target_accepts_an_offer() {
    let job = offered(queued());
    let StageEvent::Granted { lease } = granted(&job) else { panic!("expected a grant") };
    let stolen = StageEvent::Granted { lease: domain::Lease { factory: linux(), ..lease } };

    assert_eq!(refusal(&job, stolen), Refusal::NotTarget { target: mac() });
}

#[test]
fn a_superseded_offer_is_refused_with_the_current_one() {
    let first = offered(queued());
    let accept = granted(&first);
    let job = then(first, expired(domain::DispatchSeq(1), domain::OfferEnd::Undelivered, RETRY));

    let withdrawn = refusal(&job, accept.clone());
    let job = offered(job);
    let replaced = refusal(&job, accept);

    let shown = domain::DispatchSeq(1);
    assert_eq!(withdrawn, Refusal::SupersededDispatch { shown, current: None });
    assert_eq!(replaced, Refusal::SupersededDispatch { shown, current: Some(domain::DispatchSeq(2)) });
}

#[test]
fn an_offer_is_accepted_once() {
    let job = offered(queued());
    let accept = granted(&job);
    let job = then(job, accept.clone());

    assert_eq!(refusal(&job, accept), Refusal::AlreadyGranted);
}

#[test]
fn a_reassigned_promotion_fences_its_first_holder() {
    let job = completed(queued());
    let first = holder(&job);
    let job = errand_granted(errand_expired(job));

    let late = StageEvent::ErrandDone { holder: first.clone() };

    assert_eq!(refusal(&job, late), Refusal::StaleEpoch { shown: first.epoch, held: job.epoch() });
}

// [J5]
#[test]
fn a_refusal_names_the_allowed_moves() {
    let refusal = refusal(&promoted(queued()), StageEvent::Approved);

    assert_eq!(
        refusal.to_string(),
        "a job in `testing` cannot be approved; from `testing` it can go to: `queued`, `review`, `shipped`, `failed`"
    );
    assert_eq!(
        refusal,
        Refusal::IllegalTransition {
            stage: StageName::Testing,
            event: "approved",
            allowed: vec![StageName::Queued, StageName::Review, StageName::Shipped, StageName::Failed]
        }
    );
}
