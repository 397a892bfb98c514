//! Workers of a real coordinator: what they hold, what they report, and what they leave behind.

mod agent_access;
mod agents;
mod artifacts;
mod budgets;
mod clones;
mod credentials;
mod declined_offers;
mod engine_failures;
mod engine_sandbox;
pub(crate) mod fleet;
mod full_disk;
mod gc;
mod isolation;
mod missing_capabilities;
mod polling;
mod preemption;
mod promotion;
mod remotes;
mod rework;
mod sandbox_settings;
mod shutdown;
mod steady_clock;
mod toolchains;
mod unsaved_files;
pub(crate) mod worker_process;

use std::fs;
use std::time::Duration;

use domain::{FailureReason, JobId, RunKey, RunOutcome, StageName};

use fleet::{Fleet, Line};
use steady_clock::Hours;
use testkit::host::{TestRemote, eventually, myself_as, pid_in, runs};
use worker_process::{Plant, settings, wait_for, with_setup};

/// A lease that outlasts everything that a test does meanwhile.
const LONG: Duration = Duration::from_secs(30);

fn pr_branch(job: JobId) -> String {
    format!("refs/heads/aq/job/{job}")
}

/// A script whose two processes record their pids and ignore SIGTERM.
fn stubborn(forge: &TestRemote) -> String {
    format!(
        "trap '' TERM; (trap '' TERM; sh -c 'echo $PPID' > '{}'; while :; do sleep 1; done) & echo $$ > '{}'; wait",
        forge.path("child").display(),
        forge.path("engine").display()
    )
}

/// Waits until that script is up, and returns the pids of its processes.
async fn stubborn_pids(forge: &TestRemote) -> [i32; 2] {
    let files = [forge.path("engine"), forge.path("child")];
    eventually("the engine being up", || files.iter().all(|file| pid_in(file).is_some())).await;
    files.map(|file| pid_in(&file).unwrap())
}

/// Leases that are cut off: so long that no stall of the machine expires one before the cut.
const CUT: Duration = Duration::from_secs(60);

/// A renewal is never older than this when the proxy breaks.
const RENEWED_WITHIN: Duration = Duration::from_secs(1);

/// Fails unless these processes end before the lease can, which was last renewed shortly before `cut_at`.
async fn end_in_time(hours: &mut Hours, cut_at: Duration, pids: [i32; 2]) {
    hours.stop();
    hours.pass_until(cut_at + CUT * 9 / 10);
    let latest = cut_at + CUT - RENEWED_WITHIN;
    let grace = Duration::from_millis(worker_process::GRACE_MS);
    let have_ended = hours.step_until(latest, grace, || !pids.iter().any(|pid| runs(*pid))).await;

    assert!(have_ended, "they run {:?} after the last renewal", hours.clock().monotonic() - cut_at);
}

// [I7]
#[tokio::test]
async fn row_14_a_station_that_cannot_renew_kills_its_engine_before_the_lease_can_expire() {
    let (forge, mut hours) = (TestRemote::new(), Hours::passing());
    let fleet = Fleet::start_by(hours.clock(), CUT, |_| {}).await;
    let line = Line::to(&fleet).await;
    let mut settings = settings("cut-off", &forge, &stubborn(&forge));
    settings.guard = Some(myself_as("guards::plays_the_guard"));
    let _plant = Plant::start_by(hours.clock(), settings, fleet.enrol("cut-off", &line).await);
    let job = fleet.submit("").await;
    fleet.until_stage(job, StageName::Building).await;
    let pids = stubborn_pids(&forge).await;

    let cut_at = hours.clock().monotonic();
    line.cut();

    end_in_time(&mut hours, cut_at, pids).await;
    assert_eq!(fleet.job(job).await.stage, StageName::Building, "nobody else may have started before");
}

// [I7] [row 14]
#[tokio::test]
async fn a_start_report_that_hangs_does_not_keep_the_engine_alive_beyond_its_lease() {
    let (forge, mut hours) = (TestRemote::new(), Hours::passing());
    let fleet = Fleet::start_by(hours.clock(), CUT, |_| {}).await;
    let line = Line::to(&fleet).await;
    let (ready, gate) = (forge.path("ready"), forge.path("gate"));
    let settings = with_setup(
        settings("unheard", &forge, &stubborn(&forge)),
        &[&format!("touch '{}'", ready.display()), &wait_for(&gate)],
    );
    let _plant = Plant::start_by(hours.clock(), settings, fleet.enrol("unheard", &line).await);
    let job = fleet.submit("").await;
    eventually("the setup", || ready.exists()).await;

    let cut_at = hours.clock().monotonic();
    line.silence();
    fs::write(&gate, "").unwrap();
    let pids = stubborn_pids(&forge).await;

    end_in_time(&mut hours, cut_at, pids).await;
    assert_eq!(fleet.job(job).await.stage, StageName::Assigned, "nobody else may have started before");
}

// [F6]
#[tokio::test]
async fn an_outage_during_the_start_report_still_ends_in_a_completed_job() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let (ready, gate) = (forge.path("ready"), forge.path("gate"));
    let settings = with_setup(
        settings("patient", &forge, "echo done > done.md"),
        &[&format!("touch '{}'", ready.display()), &wait_for(&gate)],
    );
    let plant = Plant::start(settings, fleet.enrol("patient", &line).await);
    let job = fleet.submit("").await;
    eventually("the setup", || ready.exists()).await;

    line.cut();
    fs::write(&gate, "").unwrap();
    plant.holds_back(2).await;
    line.mend();

    fleet.until(job, "a promoted branch", |view| view.promoted_sha.is_some()).await;
    let run = fleet.first_run(job).await;
    assert_eq!((run.outcome, run.started_at.is_some()), (Some(RunOutcome::Completed), true));
    assert_eq!(forge.shows(&pr_branch(job)), run.sha);
    plant.holds_back(0).await;
    eventually("the clean-up", || plant.records().is_empty()).await;
}

// [J9]
#[tokio::test]
async fn lines_printed_during_an_outage_arrive_after_it() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let gate = forge.path("gate");
    let engine = format!("{}; echo through the storm; echo done > done.md", wait_for(&gate));
    let plant = Plant::start(settings("talkative", &forge, &engine), fleet.enrol("talkative", &line).await);
    let job = fleet.submit("").await;
    fleet.until_stage(job, StageName::Building).await;

    line.cut();
    fs::write(&gate, "").unwrap();
    plant.holds_back(1).await;
    line.mend();

    fleet.until(job, "a promoted branch", |view| view.promoted_sha.is_some()).await;
    plant.stop().await;
    assert_eq!(fleet.log(job).await, "through the storm\n");
}

// [I11] [F6]
#[tokio::test]
async fn a_late_report_clears_its_own_run_and_no_other_of_the_same_job() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let client = fleet.enrol("twice", &line).await;
    let begin = settings("twice", &forge, "echo half > half.md; exec sleep 600");
    let plant = Plant::start(begin, client.clone());
    let job = fleet.submit("").await;
    fleet.until_stage(job, StageName::Building).await;
    fleet.act(job, "cancel").await;
    let kept = plant.quarantined().await;
    fleet.act(job, "requeue").await;
    fleet.until_stage(job, StageName::Building).await;

    line.cut();
    plant.stop().await;
    line.mend();
    let plant = Plant::start(settings("twice", &forge, "echo done > done.md"), client);
    fleet.until(job, "a promoted branch", |view| view.promoted_sha.is_some()).await;
    eventually("the clean-up", || plant.records().len() == 1).await;

    assert_eq!(plant.records(), std::slice::from_ref(&kept));
    assert!(kept.worktree.unwrap().exists());
    assert_eq!(fleet.runs(job).await[1].outcome, Some(RunOutcome::Released));
}

// [J10]
#[tokio::test]
async fn cancelling_stops_the_engine_and_keeps_its_worktree_unpromoted() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let pid = forge.path("engine");
    let engine = format!("echo half > half.md; echo $$ > '{}'; exec sleep 600", pid.display());
    let plant = Plant::start(settings("obedient", &forge, &engine), fleet.enrol("obedient", &line).await);
    let job = fleet.submit("").await;
    fleet.until_stage(job, StageName::Building).await;
    eventually("the engine being up", || pid_in(&pid).is_some()).await;

    fleet.act(job, "cancel").await;

    let kept = plant.quarantined().await;
    assert!(!runs(pid_in(&pid).unwrap()));
    assert_eq!(fs::read_to_string(kept.worktree.unwrap().join("half.md")).unwrap(), "half\n");
    assert_eq!(forge.shows(&pr_branch(job)), None);
    assert_eq!(fleet.job(job).await.reason, Some(FailureReason::Cancelled));
}

// [F1]
#[tokio::test]
async fn a_repository_whose_folder_is_not_there_is_offered_as_soon_as_it_is() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let away = forge.path("not-mounted.git");
    fs::rename(forge.remote(), &away).unwrap();
    let settings = settings("early", &forge, "echo done > done.md");
    let _plant = Plant::start(settings, fleet.enrol("early", &line).await);
    fleet.until_seats("early", 1).await;

    let job = fleet.submit("").await;
    let waiting = fleet.job(job).await;
    fs::rename(&away, forge.remote()).unwrap();

    let done = fleet.until(job, "a promoted branch", |view| view.promoted_sha.is_some()).await;
    assert_eq!((waiting.stage, waiting.target_factory_id), (StageName::Queued, None), "nobody has the repository");
    assert_eq!((done.runs, done.attempts), (1, 0));
}

// [§12]
#[tokio::test]
async fn setup_runs_before_the_engine() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let settings = with_setup(
        settings("prepared", &forge, "cat one.md two.md > both.md"),
        &["echo one > one.md", "cp one.md two.md"],
    );
    let _plant = Plant::start(settings, fleet.enrol("prepared", &line).await);

    let job = fleet.submit("").await;

    let sha = fleet.until(job, "a promoted branch", |view| view.promoted_sha.is_some()).await.promoted_sha.unwrap();
    assert_eq!(forge.file_at(&sha, "both.md").as_deref(), Some("one\none\n"));
}

// [§12]
#[tokio::test]
async fn a_failing_setup_fails_the_run_with_its_output() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let settings =
        with_setup(settings("broken", &forge, "echo done > done.md"), &["echo the cellar is flooded; exit 3"]);
    let _plant = Plant::start(settings, fleet.enrol("broken", &line).await);

    let job = fleet.submit("").await;

    let run = fleet.first_run(job).await;
    let message = run.message.unwrap();
    assert!(message.contains("the cellar is flooded"), "{message}");
    assert_eq!((run.outcome, run.started_at), (Some(RunOutcome::Failed(FailureReason::EngineError)), None));
}

// [I11] [F6] [row 13]
#[tokio::test]
async fn a_fenced_run_is_kept_for_a_person_and_leaves_the_pull_request_alone() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let (line, direct) = (Line::to(&fleet).await, Line::to(&fleet).await);
    let gate = forge.path("gate");
    let slow = format!("echo stale > work.md; {}", wait_for(&gate));
    let first = Plant::start(settings("first", &forge, &slow), fleet.enrol("first", &line).await);
    let job = fleet.submit("").await;
    let held = fleet.until_stage(job, StageName::Building).await.lease_epoch;

    line.cut();
    fleet.act(job, "cancel").await;
    fleet.act(job, "requeue").await;
    let second = settings("second", &forge, "echo fresh > work.md");
    let _second = Plant::start(second, fleet.enrol("second", &direct).await);
    let fresh = fleet.until(job, "a promoted branch", |view| view.promoted_sha.is_some()).await.promoted_sha.unwrap();
    fs::write(&gate, "").unwrap();
    first.holds_back(1).await;
    line.mend();
    let kept = first.quarantined().await;
    first.holds_back(0).await;

    assert_eq!(kept.epoch, Some(held));
    assert_eq!(fs::read_to_string(kept.worktree.unwrap().join("work.md")).unwrap(), "stale\n");
    assert_eq!(forge.shows(&pr_branch(job)), Some(fresh.clone()));
    assert_eq!(forge.file_at(&fresh, "work.md").as_deref(), Some("fresh\n"));
    assert!(forge.shows(&format!("refs/heads/aq/run/{job}/e{held}")).is_some(), "its own ref is its own business");
}

// [F4]
#[tokio::test]
async fn a_station_told_to_stop_saves_its_work_for_the_next_one() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let begun = forge.path("begun");
    let begin = format!("echo half > half.md; touch '{}'; exec sleep 600", begun.display());
    let first = Plant::start(settings("first", &forge, &begin), fleet.enrol("first", &line).await);
    let job = fleet.submit("").await;
    fleet.until_stage(job, StageName::Building).await;
    eventually("the beginning", || begun.exists()).await;

    first.stop().await;
    let given_back = fleet.job(job).await;
    let second = settings("second", &forge, "cat half.md half.md > whole.md");
    let _second = Plant::start(second, fleet.enrol("second", &line).await);

    assert_eq!((given_back.stage, given_back.attempts), (StageName::Queued, 0));
    let sha = fleet.until(job, "a promoted branch", |view| view.promoted_sha.is_some()).await.promoted_sha.unwrap();
    assert_eq!(forge.file_at(&sha, "whole.md").as_deref(), Some("half\nhalf\n"));
}

// [I3] [row 14]
#[tokio::test]
async fn a_killed_station_ends_what_it_left_and_gives_the_work_back_before_it_registers() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let fled = forge.path("fled");
    let begin = format!(
        "echo half > half.md; setsid sh -c 'echo $$ > \"{}\"; while :; do sleep 1; done' & wait",
        fled.display()
    );
    let client = fleet.enrol("phoenix", &line).await;
    let plant = Plant::start(settings("phoenix", &forge, &begin), client.clone());
    let job = fleet.submit("").await;
    let held = fleet.until_stage(job, StageName::Building).await.lease_epoch;
    eventually("a process that fled", || pid_in(&fled).is_some()).await;

    plant.kill().await;
    let _plant = Plant::start(settings("phoenix", &forge, "cat half.md half.md > whole.md"), client);

    let sha = fleet.until(job, "a promoted branch", |view| view.promoted_sha.is_some()).await.promoted_sha.unwrap();
    assert_eq!(forge.file_at(&sha, "whole.md").as_deref(), Some("half\nhalf\n"));
    assert!(!runs(pid_in(&fled).unwrap()));
    let given_back = fleet.first_run(job).await;
    assert_eq!((given_back.epoch, given_back.outcome), (held, Some(RunOutcome::Released)));
    let run = RunKey { job, epoch: held };
    assert!(!forge.path("phoenix").join("worktrees").join(run.to_string()).exists());
}

// [F5] [B4]
#[tokio::test]
async fn a_failed_verify_keeps_its_output_as_evidence() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let _plant = Plant::start(settings("honest", &forge, "echo done > done.md"), fleet.enrol("honest", &line).await);

    let job = fleet.submit("verify:\n  - echo all is well\n  - echo one wall is missing; exit 4\n").await;

    let run = fleet.first_run(job).await;
    let shown: Vec<_> = run.evidence.iter().map(|shown| (shown.exit, shown.output.as_str())).collect();
    assert_eq!(shown, [(Some(0), "all is well\n"), (Some(4), "one wall is missing\n")]);
    assert_eq!(
        (run.outcome, forge.shows(&pr_branch(job))),
        (Some(RunOutcome::Failed(FailureReason::VerifyFailed)), None)
    );
}

// [I11] [F6]
#[tokio::test]
async fn work_that_cannot_be_saved_on_the_way_out_stays_where_it_is() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let (begun, gate) = (forge.path("begun"), forge.path("gate"));
    let engine = format!("echo dear > dear.md; touch '{}'; {}", begun.display(), wait_for(&gate));
    let mut own = settings("stranded", &forge, &engine);
    own.limits.remote_away_ms = 300;
    let plant = Plant::start(own, fleet.enrol("stranded", &line).await);
    let job = fleet.submit("retry: {max: 1}\n").await;
    eventually("the beginning", || begun.exists()).await;

    fs::rename(forge.remote(), forge.path("gone.git")).unwrap();
    fs::write(&gate, "").unwrap();

    let run = fleet.first_run(job).await;
    let kept = plant.quarantined().await;
    // An unavailable remote is no failed attempt.
    assert_eq!(run.outcome, Some(RunOutcome::Released));
    assert_eq!(fs::read_to_string(kept.worktree.unwrap().join("dear.md")).unwrap(), "dear\n");
}

// [F4]
#[tokio::test]
async fn work_in_progress_is_saved_on_a_timer_while_the_engine_runs() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let (first, second) = (forge.path("first"), forge.path("second"));
    let engine = format!("echo half > half.md; {}; echo more > more.md; {}", wait_for(&first), wait_for(&second));
    let mut own = settings("careful", &forge, &engine);
    own.checkpoint_every = Duration::from_millis(100);
    let _plant = Plant::start(own, fleet.enrol("careful", &line).await);
    let job = fleet.submit("").await;

    let half = fleet.until(job, "a checkpoint", |view| view.checkpoint.is_some()).await.checkpoint.unwrap();
    fs::write(&first, "").unwrap();
    let is_later = |view: &protocol::JobView| view.checkpoint.as_ref().is_some_and(|saved| saved.sha != half.sha);
    let more = fleet.until(job, "a later checkpoint", is_later).await;

    let later = more.checkpoint.unwrap();
    assert_eq!((more.stage, later.git_ref), (StageName::Building, half.git_ref.clone()));
    assert_eq!(forge.files_at(&half.sha), ["half.md", "readme.md"]);
    assert_eq!(forge.files_at(&later.sha), ["half.md", "more.md", "readme.md"]);
    fs::write(&second, "").unwrap();
    fleet.until(job, "a promoted branch", |view| view.promoted_sha.is_some()).await;
}
