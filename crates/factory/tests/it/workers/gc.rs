//! Clean-up, beside jobs in every state and against everything that would make it delete too much [F7][I11].

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use client::Client;
use domain::{Epoch, JobId, RunKey, StageName};
use factory::WorkerSettings;
use forge::PullRequestConfig;
use protocol::JobView;
use sandbox::SandboxMode;
use testkit::host::{
    TestRemote, clock, eventually, git, main, mirror_in, no_canary, notes, plant_hooks, run, trap, trapped_config,
};
use workspace::{AfterShip, Gc, GcKind, GcReport, RepoConfig};

use super::agent_access::can_be_confined;
use super::fleet::{Fleet, Line};
use super::worker_process::{Plant, settings, wait_for};
use super::{LONG, pr_branch};

const NO_TIME: Duration = Duration::ZERO;
const LONG_TIME: Duration = Duration::from_hours(14 * 24);

fn keeping_branches(name: &str, forge: &TestRemote, engine: &str) -> WorkerSettings {
    WorkerSettings { after_ship: AfterShip::KeepBranch, ..settings(name, forge, engine) }
}

fn gc(settings: &WorkerSettings, client: &Client, retention: Duration) -> Gc {
    let mut settings = settings.clone();
    settings.housekeeping.retention = retention;
    settings.gc(client.clone(), clock()).unwrap()
}

/// Removed and kept items, one line each.
fn told(report: &GcReport, kind: GcKind) -> (Vec<String>, BTreeMap<String, String>) {
    let removed = report.removed.iter().filter(|item| item.kind == kind).map(|item| item.name.clone()).collect();
    let kept = report.kept.iter().filter(|item| item.kind == kind);
    (removed, kept.map(|item| (item.name.clone(), item.why.clone())).collect())
}

fn our_refs(forge: &TestRemote) -> Vec<String> {
    let listing = git(&forge.remote(), &["for-each-ref", "--format=%(refname)", "refs/heads/aq"]);
    listing.lines().map(str::to_owned).collect()
}

fn run_ref(job: JobId, epoch: Epoch) -> String {
    format!("refs/heads/aq/run/{job}/e{epoch}")
}

/// Ships a job, and waits until it is merged.
async fn ship(fleet: &Fleet, job: JobId) {
    fleet.until(job, "a promoted branch", |view| view.promoted_sha.is_some()).await;
    fleet.act(job, "ship").await;
    fleet.until_stage(job, StageName::Shipped).await;
}

// [F7]
#[tokio::test]
async fn what_a_shipped_job_left_goes_and_what_others_need_stays() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let client = fleet.enrol("tidy", &line).await;
    let own = keeping_branches("tidy", &forge, "echo $GIGA_JOB_ID > $GIGA_JOB_ID.md");
    let plant = Plant::start(own.clone(), client.clone());
    let (shipped, tested) = (fleet.submit("").await, fleet.submit("").await);
    ship(&fleet, shipped).await;
    fleet.until(tested, "a promoted branch", |view| view.promoted_sha.is_some()).await;
    eventually("the clean-up of the runs", || plant.records().is_empty()).await;
    let before = our_refs(&forge);

    let dry = gc(&own, &client, LONG_TIME).dry_run().await.unwrap();
    let untouched = our_refs(&forge);
    let report = gc(&own, &client, LONG_TIME).run().await.unwrap();
    let again = gc(&own, &client, LONG_TIME).run().await.unwrap();

    let left: Vec<String> = before.iter().filter(|name| name.contains(&tested.to_string())).cloned().collect();
    assert_eq!((before.len(), untouched), (4, before), "a dry run removes nothing");
    assert!(dry.dry_run && !report.dry_run);
    assert_eq!(told(&dry, GcKind::Ref), told(&report, GcKind::Ref), "a dry run says what a real one does");
    assert_eq!((our_refs(&forge), told(&report, GcKind::Ref).0.len()), (left, 2));
    assert_eq!((again.removed.len(), again.freed_bytes), (0, 0), "doing it twice is doing it once");
    let kept = told(&again, GcKind::Ref).1;
    assert!(!kept.is_empty() && kept.values().all(|why| why == "its job is testing"), "{again:#?}");
}

#[tokio::test]
async fn a_completed_run_that_was_superseded_is_kept_for_that_reason() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let client = fleet.enrol("again", &line).await;
    let own = keeping_branches("again", &forge, "date +%s%N > done.md");
    let _plant = Plant::start(own.clone(), client.clone());
    let job = fleet.submit("").await;
    let first = fleet.until(job, "a promoted branch", |view| view.promoted_sha.is_some()).await.completed_sha;
    fleet.act_with(job, "requeue", &serde_json::json!({"fresh": true})).await;
    let is_new = |view: &JobView| view.completed_sha != first && view.promoted_sha == view.completed_sha;
    fleet.until(job, "the commit of the second run", |view| view.completed_sha.is_some() && is_new(view)).await;
    ship(&fleet, job).await;
    let epoch = fleet.runs(job).await[0].epoch;

    let report = gc(&own, &client, LONG_TIME).run().await.unwrap();

    let kept = told(&report, GcKind::Ref).1;
    let why = kept.get(&format!("notes: aq/run/{job}/e{epoch}")).cloned().unwrap_or_default();
    assert!(why.ends_with("its run completed, and its job shipped the commit of another run"), "{report:#?}");
}

// [I11]
#[tokio::test]
async fn a_shipped_job_whose_commit_is_not_in_the_base_branch_keeps_its_refs() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let client = fleet.enrol("wary", &line).await;
    let own = keeping_branches("wary", &forge, "echo done > done.md");
    let begin = forge.shows("refs/heads/main").unwrap();
    let _plant = Plant::start(own.clone(), client.clone());
    let job = fleet.submit("").await;
    ship(&fleet, job).await;
    let before = our_refs(&forge);

    // The operator reverts the merge: the branches are the only copy.
    git(&forge.remote(), &["update-ref", "refs/heads/main", begin.as_str()]);
    let report = gc(&own, &client, NO_TIME).run().await.unwrap();

    assert_eq!((our_refs(&forge), report.removed), (before, vec![]));
}

// [I11] [F7]
#[tokio::test]
async fn a_squashed_merge_counts_and_a_branch_that_shows_more_stays() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let client = fleet.enrol("squash", &line).await;
    let own =
        keeping_branches("squash", &forge, "echo one > one.md; git add -A; git commit -qm one; echo two > two.md");
    let begin = forge.shows("refs/heads/main").unwrap();
    let _plant = Plant::start(own.clone(), client.clone());
    let job = fleet.submit("").await;
    ship(&fleet, job).await;
    let epoch = fleet.runs(job).await[0].epoch;

    // The same change as one commit of a person, and a person's own commit on the pull request's branch.
    git(&forge.remote(), &["update-ref", "refs/heads/main", begin.as_str()]);
    fs::write(forge.path("seed/one.md"), "one\n").unwrap();
    forge.commit("main", "two.md", "two\n");
    let more = forge.commit(&pr_branch(job)["refs/heads/".len()..], "three.md", "3\n");
    let report = gc(&own, &client, NO_TIME).run().await.unwrap();

    let (gone, kept) = told(&report, GcKind::Ref);
    assert_eq!(gone, [format!("notes: aq/run/{job}/e{epoch}")], "{report:#?}");
    assert_eq!(kept.values().collect::<Vec<_>>(), ["it shows a commit that was not merged"]);
    assert_eq!((forge.shows(&run_ref(job, epoch)), forge.shows(&pr_branch(job))), (None, Some(more)));
}

// [I11] [F7]
#[tokio::test]
async fn refs_of_a_failed_job_stay_for_the_retention_and_a_running_worktree_always() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let client = fleet.enrol("patient", &line).await;
    let gate = forge.path("gate");
    let engine = format!("echo half > half.md; {}", wait_for(&gate));
    let own = settings("patient", &forge, &engine);
    let plant = Plant::start(own.clone(), client.clone());
    let failed = fleet.submit("retry: {max: 1}\nverify: ['exit 3']\n").await;
    fleet.until_stage(failed, StageName::Building).await;
    fs::write(&gate, "").unwrap();
    fleet.until(failed, "a failure", |view| matches!(view.stage, StageName::Failed | StageName::DeadLetter)).await;
    fs::remove_file(&gate).unwrap();
    let running = fleet.submit("").await;
    let epoch = fleet.until_stage(running, StageName::Building).await.lease_epoch;
    let saved = our_refs(&forge);

    let young = gc(&own, &client, LONG_TIME).run().await.unwrap();
    let kept_while_young = our_refs(&forge);
    let old = gc(&own, &client, NO_TIME).run().await.unwrap();

    let worktree = forge.path("patient/worktrees").join(RunKey { job: running, epoch }.to_string());
    assert_eq!((saved.len(), kept_while_young, young.removed), (1, saved.clone(), vec![]));
    assert_eq!((our_refs(&forge), told(&old, GcKind::Ref).0.len()), (vec![], 1));
    assert_eq!(told(&old, GcKind::Worktree).1.into_values().collect::<Vec<_>>(), ["its run goes on"]);
    assert!(worktree.join("readme.md").exists());
    drop(plant);
}

// [I11]
#[tokio::test]
async fn a_job_that_woke_up_between_the_proof_and_the_deletion_keeps_everything() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let client = fleet.enrol("racing", &line).await;
    let own = settings("racing", &forge, "echo half > half.md; exit 3");
    let plant = Plant::start(own.clone(), client.clone());
    let job = fleet.submit("retry: {max: 1}\n").await;
    fleet.until(job, "a failure", |view| matches!(view.stage, StageName::Failed | StageName::DeadLetter)).await;
    plant.stop().await;
    let before = our_refs(&forge);

    let gc = gc(&own, &client, NO_TIME);
    let plan = gc.plan().await.unwrap();
    fleet.act(job, "requeue").await;
    let report = gc.carry_out(plan).await.unwrap();

    assert_eq!((before.len(), our_refs(&forge)), (1, before));
    assert_eq!(told(&report, GcKind::Ref).1.into_values().collect::<Vec<_>>(), ["its job is queued"]);
}

// [I11] [row 13]
#[tokio::test]
async fn a_ref_whose_job_woke_up_during_the_deletion_is_put_back() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let client = fleet.enrol("late", &line).await;
    let own = settings("late", &forge, "echo half > half.md; exit 3");
    let plant = Plant::start(own.clone(), client.clone());
    let job = fleet.submit("retry: {max: 1}\n").await;
    fleet.until(job, "a failure", |view| matches!(view.stage, StageName::Failed | StageName::DeadLetter)).await;
    plant.stop().await;
    let (before, asked, answered) = (our_refs(&forge), forge.path("asked"), forge.path("answered"));
    let hook = forge.remote().join("hooks/post-receive");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    // The remote is slow between the deletion and its answer.
    let script = format!("#!/bin/sh\n[ -e '{0}' ] && exit\ntouch '{0}'\n{1}\n", asked.display(), wait_for(&answered));
    fs::write(&hook, script).unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();

    let gc = gc(&own, &client, NO_TIME);
    let wake = async {
        eventually("the deletion", || asked.exists()).await;
        let gone = our_refs(&forge);
        fleet.act(job, "requeue").await;
        fs::write(&answered, "").unwrap();
        gone
    };
    let (report, gone) = tokio::join!(gc.run(), wake);

    assert_eq!((gone, before.len()), (vec![], 1));
    assert_eq!(our_refs(&forge), before);
    let why = told(&report.unwrap(), GcKind::Ref).1.into_values().collect::<Vec<_>>();
    assert_eq!(why, ["its job changed meanwhile: it was put back"]);
}

// [I11]
#[tokio::test]
async fn a_branch_that_moved_between_the_proof_and_the_deletion_stays() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let client = fleet.enrol("moved", &line).await;
    let own = keeping_branches("moved", &forge, "echo done > done.md");
    let _plant = Plant::start(own.clone(), client.clone());
    let job = fleet.submit("").await;
    ship(&fleet, job).await;

    let gc = gc(&own, &client, LONG_TIME);
    let plan = gc.plan().await.unwrap();
    let more = forge.commit(&pr_branch(job)["refs/heads/".len()..], "late.md", "late\n");
    let report = gc.carry_out(plan).await.unwrap();

    assert_eq!(forge.shows(&pr_branch(job)), Some(more));
    assert_eq!(
        told(&report, GcKind::Ref).1.into_values().collect::<Vec<_>>(),
        ["it shows a commit that was not merged"]
    );
    assert_eq!(told(&report, GcKind::Ref).0.len(), 1, "its neighbour goes all the same");
}

// [I11] [F7]
#[tokio::test]
async fn a_base_branch_that_was_moved_back_between_the_proof_and_the_deletion_costs_nothing() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let client = fleet.enrol("rewound", &line).await;
    let own = keeping_branches("rewound", &forge, "echo done > done.md");
    let begin = forge.shows("refs/heads/main").unwrap();
    let _plant = Plant::start(own.clone(), client.clone());
    let job = fleet.submit("").await;
    ship(&fleet, job).await;
    let before = our_refs(&forge);

    let gc = gc(&own, &client, NO_TIME);
    let plan = gc.plan().await.unwrap();
    git(&forge.remote(), &["update-ref", "refs/heads/main", begin.as_str()]);
    let report = gc.carry_out(plan).await.unwrap();

    assert_eq!((our_refs(&forge), report.removed), (before, vec![]));
    let why: BTreeSet<String> = told(&GcReport { removed: vec![], ..report }, GcKind::Ref).1.into_values().collect();
    assert_eq!(why, ["its job shipped, but the commit is not in its base branch".to_owned()].into());
}

// [F7]
#[tokio::test]
async fn a_branch_with_a_name_of_its_own_goes_by_the_same_proof_and_one_that_shows_more_stays() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let client = fleet.enrol("named", &line).await;
    let mut own = keeping_branches("named", &forge, "echo $GIGA_JOB_ID > $GIGA_JOB_ID.md");
    let named = PullRequestConfig { branch: Some("agents/notes-{id}".parse().unwrap()), ..Default::default() };
    own.forge.repos = [(notes(), named)].into();
    let _plant = Plant::start(own.clone(), client.clone());
    let (merged, grown) = (fleet.submit("").await, fleet.submit("").await);
    ship(&fleet, merged).await;
    ship(&fleet, grown).await;
    let branch = |job: JobId| format!("refs/heads/agents/notes-{job}");
    let more = forge.commit(&branch(grown)["refs/heads/".len()..], "late.md", "late\n");
    let tip = forge.shows("refs/heads/main").unwrap();
    git(&forge.remote(), &["update-ref", "refs/heads/agents/notes-by-hand", tip.as_str()]);

    let report = gc(&own, &client, LONG_TIME).run().await.unwrap();

    assert!(told(&report, GcKind::Ref).0.contains(&format!("notes: agents/notes-{merged}")), "{report:#?}");
    assert_eq!((forge.shows(&branch(merged)), forge.shows(&branch(grown))), (None, Some(more)));
    assert_eq!(forge.shows("refs/heads/agents/notes-by-hand"), Some(tip), "that is somebody else's");
}

// [I11] [F7]
#[tokio::test]
async fn work_that_was_rebased_in_part_stays_and_goes_once_all_of_it_is_there() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let client = fleet.enrol("rebase", &line).await;
    let own =
        keeping_branches("rebase", &forge, "echo one > one.md; git add -A; git commit -qm one; echo two > two.md");
    let begin = forge.shows("refs/heads/main").unwrap();
    let _plant = Plant::start(own.clone(), client.clone());
    let job = fleet.submit("").await;
    ship(&fleet, job).await;
    let before = our_refs(&forge);

    // A person reverts the merge, and makes one of the two commits again on top of something else.
    git(&forge.remote(), &["update-ref", "refs/heads/main", begin.as_str()]);
    forge.commit("main", "other.md", "other\n");
    forge.commit("main", "one.md", "one\n");
    let in_part = gc(&own, &client, NO_TIME).run().await.unwrap();
    let kept = our_refs(&forge);
    forge.commit("main", "two.md", "two\n");
    let whole = gc(&own, &client, NO_TIME).run().await.unwrap();

    assert_eq!((kept, in_part.removed), (before, vec![]));
    assert_eq!(our_refs(&forge), Vec::<String>::new(), "{whole:#?}");
}

// [F6]
#[tokio::test]
async fn a_quarantined_run_stays_for_the_retention_and_its_work_is_saved_before_it_goes() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let client = fleet.enrol("fenced", &line).await;
    let begun = forge.path("begun");
    let engine = format!("echo half > half.md; touch '{}'; exec sleep 600", begun.display());
    let own = settings("fenced", &forge, &engine);
    let plant = Plant::start(own.clone(), client.clone());
    let job = fleet.submit("").await;
    fleet.until_stage(job, StageName::Building).await;
    eventually("the beginning", || begun.exists()).await;
    fleet.act(job, "cancel").await;
    let kept = plant.quarantined().await;
    let worktree = kept.worktree.clone().unwrap();
    // The cancelled run saved its work on the way out; remove it, so that the worktree is the only copy.
    let wip = format!("refs/heads/aq/wip/{}", RunKey { job, epoch: kept.epoch.unwrap() });
    git(&forge.remote(), &["update-ref", "-d", &wip]);

    let young = gc(&own, &client, LONG_TIME).run().await.unwrap();
    let is_there_while_young = worktree.join("half.md").exists();
    let old = gc(&own, &client, NO_TIME).run().await.unwrap();

    assert_eq!((is_there_while_young, young.removed), (true, vec![]));
    assert_eq!((worktree.exists(), plant.records()), (false, vec![]));
    let saved = forge.shows(&wip).unwrap();
    assert_eq!(forge.file_at(&saved, "half.md").as_deref(), Some("half\n"));
    assert!(old.freed_bytes > 0, "{old:#?}");
}

// [F7] [attack: hostile repository]
#[tokio::test]
async fn cleaning_up_after_an_agent_that_planted_traps_sets_none_of_them_off() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let client = fleet.enrol("mined", &line).await;
    let (trap, begun) = (trap(&forge), forge.path("begun"));
    let own = settings("mined", &forge, &format!("echo half > half.md; touch '{}'; exec sleep 600", begun.display()));
    let plant = Plant::start(own.clone(), client.clone());
    let job = fleet.submit("").await;
    fleet.until_stage(job, StageName::Building).await;
    eventually("the beginning", || begun.exists()).await;
    fleet.act(job, "cancel").await;
    let worktree = plant.quarantined().await.worktree.unwrap();
    plant.stop().await;
    let repositories = [worktree.join(".git"), mirror_in(&forge.path("mined"))];
    for repository in &repositories {
        let config = repository.join("config");
        fs::write(&config, fs::read_to_string(&config).unwrap() + &trapped_config(&trap)).unwrap();
        plant_hooks(&repository.join("hooks"), &trap);
        fs::create_dir_all(repository.join("info")).unwrap();
        fs::write(repository.join("info/attributes"), "* filter=evil diff=evil merge=evil\n").unwrap();
    }
    fs::write(worktree.join(".gitattributes"), "* filter=evil diff=evil merge=evil\n").unwrap();
    fs::write(worktree.join("later.md"), "later\n").unwrap();

    let report = gc(&own, &client, NO_TIME).run().await.unwrap();

    assert_eq!(told(&report, GcKind::Worktree).0.len(), 1, "{report:#?}");
    assert!(!worktree.exists());
    no_canary(&forge.path(""));
}

// [I11]
#[tokio::test]
async fn nothing_goes_while_the_coordinator_cannot_be_asked_or_does_not_know_the_job() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let client = fleet.enrol("cut-off", &line).await;
    let own = keeping_branches("cut-off", &forge, "echo done > done.md");
    let plant = Plant::start(own.clone(), client.clone());
    let job = fleet.submit("").await;
    ship(&fleet, job).await;
    plant.stop().await;
    let stranger: JobId = "0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6a".parse().unwrap();
    let tip = forge.shows("refs/heads/main").unwrap();
    git(&forge.remote(), &["update-ref", &run_ref(stranger, Epoch(1)), tip.as_str()]);
    git(&forge.remote(), &["update-ref", "refs/heads/aq/job/by-a-person", tip.as_str()]);
    let before = our_refs(&forge);

    line.cut();
    let unheard = gc(&own, &client, NO_TIME).run().await.unwrap();
    let kept_while_cut = our_refs(&forge);
    line.mend();
    let heard = gc(&own, &client, NO_TIME).run().await.unwrap();

    assert_eq!((kept_while_cut, unheard.removed), (before, vec![]));
    assert_eq!(our_refs(&forge), ["refs/heads/aq/job/by-a-person".to_owned(), run_ref(stranger, Epoch(1))]);
    assert_eq!(
        told(&heard, GcKind::Ref).1.into_values().collect::<Vec<_>>(),
        ["the coordinator does not know its job"]
    );
}

// [F7] [§12]
#[tokio::test]
async fn idle_mirrors_and_caches_of_unconfigured_repositories_go() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let client = fleet.enrol("mover", &line).await;
    let mut own = settings("mover", &forge, "echo $NOTES_CACHE > where.md; touch $NOTES_CACHE/warm");
    own.repos.get_mut(&notes()).unwrap().caches = [("NOTES_CACHE".to_owned(), "build".to_owned())].into();
    let plant = Plant::start(own.clone(), client.clone());
    let job = fleet.submit("").await;
    let sha = fleet.until(job, "a promoted branch", |view| view.promoted_sha.is_some()).await.promoted_sha.unwrap();
    plant.stop().await;
    let state = forge.path("mover");
    let cache = state.join("caches/default/notes/build");
    assert_eq!(forge.file_at(&sha, "where.md").unwrap().trim_end(), cache.to_str().unwrap());
    fs::write(state.join("runs/torn.json.unfinished"), "{").unwrap();

    let configured = gc(&own, &client, NO_TIME).run().await.unwrap();
    let mirror = mirror_in(&state);
    let is_kept = cache.join("warm").exists() && mirror.exists();
    own.repos = [("other".parse().unwrap(), RepoConfig::at("/nowhere", main()))].into();
    let young = gc(&own, &client, LONG_TIME).run().await.unwrap();
    let moved = gc(&own, &client, NO_TIME).run().await.unwrap();

    assert_eq!((is_kept, configured.removed, young.removed), (true, vec![], vec![]));
    let kinds: Vec<GcKind> = moved.removed.iter().map(|item| item.kind).collect();
    assert_eq!(kinds, [GcKind::Mirror, GcKind::Cache], "{moved:#?}");
    assert_eq!((mirror.exists(), cache.exists()), (false, false));
    assert!(state.join("runs/torn.json.unfinished").exists(), "it may still be being written");
}

// [F7]
#[tokio::test]
async fn a_station_cleans_up_by_itself_on_schedule() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let mut own = keeping_branches("daily", &forge, "echo done > done.md");
    own.housekeeping.every = Some(Duration::from_millis(200));
    let _plant = Plant::start(own, fleet.enrol("daily", &line).await);
    let job = fleet.submit("").await;

    fleet.until(job, "a promoted branch", |view| view.promoted_sha.is_some()).await;
    let while_open = our_refs(&forge);
    fleet.act(job, "ship").await;
    fleet.until_stage(job, StageName::Shipped).await;

    assert_eq!(while_open.len(), 2);
    eventually("a clean remote", || our_refs(&forge).is_empty()).await;
}

// [B10]
#[tokio::test]
async fn a_station_whose_disk_is_too_full_cleans_up_first_and_takes_nothing_new() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let client = fleet.enrol("full", &line).await;
    let mut own = settings("full", &forge, "echo done > done.md");
    own.housekeeping.every = Some(Duration::from_millis(50));
    own.housekeeping.disk_floor_bytes = u64::MAX;
    let plant = Plant::start(own.clone(), client.clone());
    fleet.until_seats("full", 0).await;
    let waiting = fleet.submit("").await;
    fleet.until(waiting, "an explanation", |view| view.stage == StageName::Queued).await;
    plant.stop().await;

    own.housekeeping.disk_floor_bytes = 0;
    let _plant = Plant::start(own, client);

    fleet.until(waiting, "a promoted branch", |view| view.promoted_sha.is_some()).await;
}

/// A commit of another author in a repository of its own: where its objects are, and its tree.
fn kept_secret(forge: &TestRemote) -> (std::path::PathBuf, String) {
    let secret = forge.path("secret");
    fs::create_dir(&secret).unwrap();
    git(&secret, &["init", "--quiet"]);
    fs::write(secret.join("secret.txt"), "of another product").unwrap();
    git(&secret, &["add", "-A"]);
    git(&secret, &["commit", "--quiet", "-m", "Not yours"]);
    (secret.join(".git/objects"), git(&secret, &["rev-parse", "HEAD^{tree}"]))
}

// [I11] [T8] [F7] [attack: hostile repository]
#[tokio::test]
async fn a_clean_up_reads_an_agents_files_from_inside_the_sandbox() {
    if !can_be_confined() {
        return;
    }
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let (objects, tree) = kept_secret(&forge);
    let mut fetched = Vec::new();
    for (name, confine) in [("open", SandboxMode::Off), ("closed", SandboxMode::Required)] {
        let (mirror, worktree) = forge.worktree(&forge.host(name), run(1)).await;
        // Its commit names a tree that it does not have, and its repository names an alternate to borrow it from.
        let agent = worktree.path();
        let alternates = agent.join(".git/objects/info/alternates");
        let own = fs::read_to_string(&alternates).unwrap();
        fs::write(&alternates, format!("{own}{}\n", objects.display())).unwrap();
        let commit = git(agent, &["commit-tree", "-m", "Mine", "-p", "HEAD", &tree]);
        git(agent, &["update-ref", "HEAD", &commit]);
        let settings = WorkerSettings { confine, ..settings(name, &forge, "true") };

        gc(&settings, &fleet.enrol(name, &line).await, NO_TIME).dry_run().await.unwrap();

        let mut look = std::process::Command::new("git");
        fetched.push(look.arg("-C").arg(mirror.path()).args(["cat-file", "-e", &tree]).status().unwrap().success());
    }

    assert_eq!(fetched, [true, false]);
}
