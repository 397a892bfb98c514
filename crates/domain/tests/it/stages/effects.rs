//! Effects of stage changes: counters, runs, checkpoints, and the avoided factory.

use domain::{
    Actor, Completion, Evidence, Expected, FailureDetails, FailureReason, Job, KeepCheckpoint, RetryDecision, Run,
    RunInsights, RunOutcome, Stage, StageEvent, StageName, TotalSpend,
};

use super::sample::{
    EXHAUSTED, NOW, RETRY, assigned, building, checkpoint, completed, errand_expired, expired, failed, holder, later,
    mac, offered, promoted, queued, quota_hit, sha, then,
};

/// Failed attempts, lost leases, consecutive expired offers.
fn counters(job: &Job) -> (u32, u32, u32) {
    (job.attempts(), job.lost_leases(), job.unaccepted())
}

fn ended(job: Job) -> Vec<Run> {
    job.commit_at(Expected::Absent, None).runs
}

fn with_checkpoint(job: Job) -> Job {
    let saved = StageEvent::Checkpointed { holder: holder(&job), checkpoint: checkpoint(job.epoch()) };
    then(job, saved)
}

// [J5]
#[test]
fn only_a_retryable_failure_counts_as_an_attempt() {
    for reason in FailureReason::ALL {
        let job = building(queued());
        let event = failed(&job, reason, RETRY);

        let job = then(job, event);

        assert_eq!(counters(&job), (u32::from(reason.is_retryable()), 0, 0), "{reason}");
    }
}

// [row 22]
#[test]
fn an_expired_lease_counts_as_lost_and_not_as_an_attempt() {
    let job = building(queued());
    let epoch = job.epoch();

    let job = then(job, StageEvent::Reaped { epoch, verdict: RETRY });

    assert_eq!(counters(&job), (0, 1, 0));
}

#[test]
fn preemption_release_quota_and_questions_count_nothing() {
    let held = building(queued());
    let epoch = held.epoch();
    let events = [
        StageEvent::Preempted { epoch },
        StageEvent::Released {
            holder: holder(&held),
            message: None,
            insights: RunInsights::default(),
            not_before: None,
        },
        quota_hit(&held),
        StageEvent::Asked {
            holder: holder(&held),
            question: "Which gate?".to_owned(),
            account: FailureDetails::default(),
        },
    ];

    for event in events {
        let job = then(held.clone(), event);

        assert_eq!(counters(&job), (0, 0, 0));
        assert_eq!(job.lease(), None);
    }
}

#[test]
fn an_exhausted_window_requeues_at_once_and_keeps_the_cost() {
    let held = building(queued());

    let job = then(held.clone(), quota_hit(&held));

    assert_eq!((job.not_before(), job.avoid()), (None, None));
    let again = building(job.clone());
    let twice = then(again.clone(), quota_hit(&again));
    assert_eq!((job.spent().cost_usd, twice.spent().cost_usd), (Some(0.25), Some(0.5)));
    let run = &ended(job)[0];
    assert_eq!((run.outcome, run.insights.cost_usd), (Some(RunOutcome::QuotaWindow), Some(0.25)));
}

#[test]
fn expired_offers_count_until_one_is_accepted() {
    let job = offered(queued());
    let job = then(job, expired(domain::DispatchSeq(1), domain::OfferEnd::Undelivered, RETRY));
    assert_eq!(counters(&job), (0, 0, 1));
    assert_eq!(job.avoid(), Some(&mac()));

    let job = assigned(job);

    assert_eq!(counters(&job), (0, 0, 0));
}

#[test]
fn an_ignored_or_declined_offer_is_not_counted() {
    let seq = domain::DispatchSeq(1);
    let ignored = then(offered(queued()), expired(seq, domain::OfferEnd::Unanswered, RETRY));
    let declined = then(offered(queued()), expired(seq, domain::OfferEnd::Declined("disk full".to_owned()), RETRY));

    assert_eq!((counters(&ignored), ignored.avoid(), ignored.message()), ((0, 0, 0), Some(&mac()), None));
    assert_eq!(
        (counters(&declined), declined.avoid(), declined.message()),
        ((0, 0, 0), Some(&mac()), Some("disk full"))
    );
}

#[test]
fn a_requeue_resets_counters_and_keeps_the_checkpoint() {
    let job = with_checkpoint(building(queued()));
    let saved = job.checkpoint().cloned();
    let event = failed(&job, FailureReason::Crash, EXHAUSTED);
    let job = then(job, event);
    assert_eq!((counters(&job), job.checkpoint()), ((1, 0, 0), saved.as_ref()));

    let kept = then(job.clone(), StageEvent::Requeued { checkpoint: KeepCheckpoint::Keep, message: None });
    let dropped = then(job, StageEvent::Requeued { checkpoint: KeepCheckpoint::Drop, message: None });

    assert_eq!((counters(&kept), kept.checkpoint(), kept.avoid()), ((0, 0, 0), saved.as_ref(), None));
    assert_eq!((counters(&dropped), dropped.checkpoint()), ((0, 0, 0), None));
    assert_eq!(kept.stage(), &Stage::Queued { dispatch: None, not_before: None });
}

#[test]
fn the_checkpoint_survives_every_lost_lease() {
    let job = with_checkpoint(building(queued()));
    let saved = job.checkpoint().cloned();
    let epoch = job.epoch();
    let events = [
        StageEvent::Reaped { epoch, verdict: RETRY },
        StageEvent::Preempted { epoch },
        failed(&job, FailureReason::Timeout, RETRY),
        StageEvent::Released {
            holder: holder(&job),
            message: None,
            insights: RunInsights::default(),
            not_before: None,
        },
    ];

    for event in events {
        let job = then(job.clone(), event);

        assert_eq!((job.stage().name(), job.checkpoint()), (StageName::Queued, saved.as_ref()));
    }
}

// [J6] [T2] [B8]
#[test]
fn spent_cost_counts_until_an_operator_starts_over() {
    let insights =
        RunInsights { tokens_in: Some(90), tokens_out: Some(10), cost_usd: Some(0.5), ..RunInsights::default() };
    let account = FailureDetails { insights: insights.clone(), ..FailureDetails::default() };
    let job = building(queued());

    let (holder_of_first, reason) = (holder(&job), FailureReason::Timeout);
    let job = then(job, StageEvent::AttemptFailed { holder: holder_of_first, reason, account, verdict: RETRY });
    let job = building(job);
    let released = StageEvent::Released { holder: holder(&job), message: None, insights, not_before: None };
    let job = then(job, released);

    let spent = |cost_usd, tokens| (Some(cost_usd), Some(tokens));
    let shown = |spent: TotalSpend| (spent.cost_usd, spent.tokens);
    assert_eq!(shown(job.spent_of_budget()), spent(1.0, 200));
    let job = then(job, StageEvent::Cancelled { message: None });
    let job = then(job, StageEvent::Requeued { checkpoint: KeepCheckpoint::Keep, message: None });
    assert_eq!(shown(job.spent_of_budget()), spent(0.0, 0));
    assert_eq!(shown(job.spent()), spent(1.0, 200), "the money is gone all the same");
}

// [J6] [T2] [row 18]
#[test]
fn interrupted_runs_of_unknown_cost_are_counted_apart() {
    let held = building(queued());
    let epoch = held.epoch();
    let unknown = |event| {
        let spent = then(held.clone(), event).spent_of_budget();
        let of_cost = (spent.runs_without_cost, spent.interrupted_without_cost);
        (of_cost, (spent.runs_without_tokens, spent.interrupted_without_tokens))
    };
    let asked =
        StageEvent::Asked { holder: holder(&held), question: "Which?".to_owned(), account: FailureDetails::default() };
    let released = StageEvent::Released {
        holder: holder(&held),
        message: None,
        insights: RunInsights::default(),
        not_before: None,
    };

    for event in [StageEvent::Reaped { epoch, verdict: RETRY }, StageEvent::Preempted { epoch }, released, asked] {
        assert_eq!(unknown(event), ((1, 1), (1, 1)));
    }
    let account = FailureDetails::default();
    let (holder, reason) = (holder(&held), FailureReason::Crash);
    assert_eq!(unknown(StageEvent::AttemptFailed { holder, reason, account, verdict: RETRY }), ((1, 0), (1, 0)));
}

// [I8]
#[test]
fn a_final_failure_frees_the_lease_in_the_same_write() {
    let reason = FailureReason::BudgetExceeded;
    let job = building(queued());
    let before = job.epoch();
    let event = failed(&job, reason, RetryDecision::Fail { reason });

    let job = then(job, event);

    assert_eq!(job.stage(), &Stage::Failed { reason });
    assert_eq!((job.lease(), job.seat(), job.run()), (None, None, None));
    assert_eq!(job.epoch(), before.next());
}

// [J6]
#[test]
fn a_run_ends_after_its_promotion() {
    let job = completed(queued());
    let run = job.run().cloned().unwrap();
    assert_eq!((run.outcome, run.ended_at), (Some(RunOutcome::Completed), None));
    assert_eq!(ended(job.clone()), vec![]);

    let event = StageEvent::ErrandDone { holder: holder(&job) };
    let job = then(job, event);

    assert_eq!((job.run(), job.promoted()), (None, Some(&sha(1))));
    assert_eq!(ended(job), vec![Run { ended_at: Some(NOW), ..run }]);
}

#[test]
fn a_run_without_a_commit_ends_when_it_completes() {
    let job = building(queued());
    let event = super::sample::completed_with(&job, None);

    let job = then(job, event);

    assert_eq!(job.run(), None);
    assert_eq!(ended(job).len(), 1);
}

#[test]
fn a_run_with_a_failed_promotion_ends_as_completed() {
    let job = completed(queued());
    let given_up = StageEvent::ErrandFailed {
        holder: holder(&job),
        message: "the branch was moved".to_owned(),
        retry_at: None,
        conflict: None,
    };

    let job = then(job, given_up);

    assert_eq!((job.run(), job.promoted(), job.message()), (None, None, Some("the branch was moved")));
    let outcomes: Vec<_> = ended(job).into_iter().map(|run| run.outcome).collect();
    assert_eq!(outcomes, vec![Some(RunOutcome::Completed)]);
}

#[test]
fn a_failed_promotion_prefers_another_factory() {
    let expired = errand_expired(completed(queued()));
    assert_eq!(expired.avoid(), Some(&mac()));

    let unaccepted = errand_expired(offered(expired));
    assert_eq!(unaccepted.avoid(), Some(&mac()));

    let job = completed(queued());
    let failed = StageEvent::ErrandFailed {
        holder: holder(&job),
        message: "offline".to_owned(),
        retry_at: Some(later()),
        conflict: None,
    };
    assert_eq!(then(job, failed).avoid(), Some(&mac()));
}

// [J6]
#[test]
fn a_failed_run_keeps_its_cost_and_evidence() {
    let job = building(queued());
    let insights = RunInsights { cost_usd: Some(0.25), turns: Some(3), ..RunInsights::default() };
    let evidence = vec![Evidence {
        command: "make check".to_owned(),
        exit: Some(2),
        output: "no".to_owned(),
        took_ms: 5,
        ..Evidence::default()
    }];
    let account = FailureDetails {
        insights: insights.clone(),
        evidence: evidence.clone(),
        message: Some("it broke".to_owned()),
        no_changes: false,
    };
    let reason = FailureReason::VerifyFailed;
    let event = StageEvent::AttemptFailed { holder: holder(&job), reason, account, verdict: RETRY };

    let run = ended(then(job, event)).remove(0);

    assert_eq!((run.insights, run.evidence), (insights, evidence));
    assert_eq!((run.outcome, run.message), (Some(RunOutcome::Failed(reason)), Some("it broke".to_owned())));
}

// [I15]
#[test]
fn a_ship_requested_during_promotion_follows_it() {
    let job = then(completed(queued()), StageEvent::ShipRequested);
    let event = StageEvent::ErrandDone { holder: holder(&job) };

    let job = then(job, event);

    let errand = job.errand().unwrap();
    assert_eq!((errand.kind, &errand.sha), (domain::ErrandKind::Ship, &sha(1)));
}

// [T5]
#[test]
fn requested_changes_keep_the_branch_and_counters() {
    let job = then(promoted(queued()), StageEvent::ChangesRequested { message: Some("smaller".to_owned()) });

    assert_eq!((job.stage().name(), counters(&job), job.promoted()), (StageName::Queued, (0, 0, 0), Some(&sha(1))));
    assert_eq!(job.message(), Some("smaller"));
}

#[test]
fn promoted_commits_are_bounded_and_newest_last() {
    let mut job = queued();
    for n in 1..=12 {
        job = building(job);
        let completion = Completion { sha: Some(sha(n)), ..Completion::default() };
        let event = StageEvent::Completed { holder: holder(&job), completion, promote_until: later() };
        job = then(job, event);
        job = then(job, StageEvent::ChangesRequested { message: None });
    }

    let expected: Vec<_> = (5..=12).map(sha).collect();
    assert_eq!(job.heads(), expected);
}

// [J7]
#[test]
fn events_have_no_gaps_and_record_the_new_stage() {
    let job = promoted(queued());

    let unit = job.commit_at(Expected::Absent, None);

    let told: Vec<_> = unit.events.iter().map(|event| (event.seq.0, event.kind, event.stage, event.epoch.0)).collect();
    use domain::EventKind as K;
    assert_eq!(
        told,
        vec![
            (1, K::Submitted, StageName::Queued, 0),
            (2, K::Dispatched, StageName::Queued, 0),
            (3, K::Granted, StageName::Assigned, 1),
            (4, K::Started, StageName::Building, 1),
            (5, K::Completed, StageName::Testing, 2),
            (6, K::Promoted, StageName::Testing, 3),
        ]
    );
    assert_eq!(unit.job.seq().0, 6);
}

#[test]
fn an_event_names_its_actor() {
    let job = queued().apply(StageEvent::Cancelled { message: None }, NOW, Actor::Person("ada".to_owned())).unwrap();

    let by = job.commit_at(Expected::Absent, None).events.pop().map(|event| event.by);

    assert_eq!(by, Some(Actor::Person("ada".to_owned())));
}

#[test]
fn saved_work_ties_a_job_to_its_repository() {
    let job = building(queued());
    let untied = job.shape_key();
    let identity: domain::RepoIdentity = "github.com/acme/notes".parse().unwrap();
    let saved = domain::Checkpoint { repository: Some(identity.clone()), ..checkpoint(job.epoch()) };

    let tied = then(job.clone(), StageEvent::Checkpointed { holder: holder(&job), checkpoint: saved });
    let stored = tied.state_json().unwrap();
    let loaded = Job::from_stored(tied.submission().clone(), &stored).unwrap();
    let fresh = tied.clone().without_checkpoint();

    assert_eq!((tied.repository(), tied.shape().identity.as_ref()), (Some(&identity), Some(&identity)));
    assert_eq!((tied.shape_key(), loaded.shape_key()), (tied.shape().key(), tied.shape().key()));
    assert_ne!(tied.shape_key(), untied);
    assert_eq!((fresh.repository(), fresh.shape_key()), (None, untied));
}
