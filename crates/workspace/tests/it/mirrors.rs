//! Mirrors and the lock around them.

use std::fs;
use std::process::{Command, Stdio};

use testkit::host::{PATIENCE, TestRemote, eventually, git, job, main, myself_as, notes, role_arguments, run, runs};
use workspace::{
    AfterShip, CommitOutcome, Error, Mirror, RefNames, RepoConfig, SaveOutcome, ShipOrder, ShipOutcome, WorktreeStart,
};

#[tokio::test]
async fn a_refresh_shows_the_remotes_branches_and_forgets_deleted_ones() {
    let forge = TestRemote::new();
    let mirror = forge.mirror(&forge.host("host")).await;
    let topic = forge.commit("main", "topic.md", "x");
    git(&forge.remote(), &["branch", "topic", topic.as_str()]);

    mirror.refresh().await.unwrap();
    assert_eq!(mirror.head_of(&"topic".parse().unwrap()).await.unwrap(), topic);
    git(&forge.remote(), &["branch", "-D", "topic"]);
    mirror.refresh().await.unwrap();

    let gone = mirror.head_of(&"topic".parse().unwrap()).await;
    assert!(matches!(gone, Err(Error::NoSuchBranch { .. })), "{gone:?}");
}

#[tokio::test]
async fn refs_of_single_runs_come_only_when_asked_for() {
    let forge = TestRemote::new();
    let sha = forge.commit("main", "a", "a");
    let refs = RefNames::under("aq".parse().unwrap());
    git(&forge.remote(), &["update-ref", refs.run(run(1)).as_str(), sha.as_str()]);
    let mirror = forge.mirror(&forge.host("host")).await;

    let mirrored = git(mirror.path(), &["for-each-ref", "--format=%(refname)"]);
    assert_eq!(mirrored, "refs/remotes/origin/main");

    assert_eq!(mirror.fetch_ref(&refs.run(run(1))).await.unwrap(), Some(sha));
    assert_eq!(mirror.fetch_ref(&refs.run(run(2))).await.unwrap(), None);
}

#[tokio::test]
async fn a_branch_that_does_not_exist_is_named() {
    let forge = TestRemote::new();
    let mirror = forge.mirror(&forge.host("host")).await;

    let refused = mirror.create(run(1), &"no-such".parse().unwrap(), &WorktreeStart::Base).await;

    assert!(matches!(refused, Err(Error::NoSuchBranch { .. })), "{refused:?}");
}

#[tokio::test]
async fn many_refreshes_at_once_all_succeed() {
    let forge = TestRemote::new();
    let mirror = forge.mirror_unfetched(&forge.host("host"));
    let mut refreshes = tokio::task::JoinSet::new();
    for _ in 0..6 {
        let mirror = mirror.clone();
        refreshes.spawn(async move { mirror.refresh().await });
    }

    while let Some(refreshed) = refreshes.join_next().await {
        refreshed.unwrap().unwrap();
    }
    assert_eq!(Some(mirror.head_of(&main()).await.unwrap()), forge.shows("refs/heads/main"));
}

// [F3]
#[tokio::test]
async fn a_mirrors_lock_excludes_other_processes_and_is_freed_by_death() {
    let forge = TestRemote::new();
    let mirror = forge.mirror_unfetched(&forge.host("host"));
    let lock = mirror.path().with_extension("lock");
    let held = forge.path("held");
    let myself = myself_as("mirrors::plays_the_holder_of_a_lock");
    let mut holder =
        Command::new(&myself[0]).args(&myself[1..]).args([&lock, &held]).stdout(Stdio::null()).spawn().unwrap();
    eventually("the lock being held", || held.exists()).await;

    let refresh = tokio::time::timeout(std::time::Duration::from_millis(500), mirror.refresh());
    assert!(refresh.await.is_err(), "the mirror was fetched while another process had its lock");
    assert!(runs(i32::try_from(holder.id()).unwrap()));
    holder.kill().unwrap();
    holder.wait().unwrap();

    tokio::time::timeout(PATIENCE, mirror.refresh()).await.unwrap().unwrap();
}

#[test]
#[ignore = "a role for another process"]
fn plays_the_holder_of_a_lock() {
    let args = role_arguments().expect("a role needs arguments");
    let file = fs::File::create(&args[0]).unwrap();
    file.lock().unwrap();
    fs::write(&args[1], "").unwrap();
    loop {
        std::thread::park();
    }
}

// [F3]
#[tokio::test]
async fn a_partial_mirror_fetches_contents_when_they_are_needed_and_does_all_the_work() {
    let forge = TestRemote::new();
    for setting in ["uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"] {
        git(&forge.remote(), &["config", setting, "true"]);
    }
    forge.commit("main", "old.txt", &"old\n".repeat(1000));
    forge.commit("main", "old.txt", "new\n");
    let host = forge.host("host");
    let config = RepoConfig { partial: Some(true), ..RepoConfig::at(forge.remote().to_str().unwrap(), main()) };
    let mirror = host.mirror(&notes(), &config).unwrap();

    mirror.refresh().await.unwrap();
    let missing_at_first = missing(&mirror);
    let worktree = mirror.create(run(1), &main(), &WorktreeStart::Base).await.unwrap();
    let missing_then = missing(&mirror);
    fs::write(worktree.path().join("work.txt"), "work\n").unwrap();
    git(worktree.path(), &["add", "-A"]);
    git(worktree.path(), &["commit", "--quiet", "-m", "A step"]);
    let saved = mirror.checkpoint(&worktree).await.unwrap();
    let CommitOutcome::Made(sha) = mirror.commit_all(&worktree, "Work").await.unwrap() else { panic!("empty") };
    mirror.push_run(&worktree, &sha).await.unwrap();
    forge.commit("main", "other.txt", "other\n");
    let order = ShipOrder {
        job: job(),
        sha: sha.clone(),
        base: main(),
        message: "Merge".to_owned(),
        after: AfterShip::KeepBranch,
    };
    let shipped = mirror.ship(&order).await.unwrap();

    assert_eq!((missing_at_first, missing_then), (3, 1), "only what is checked out is fetched");
    assert_eq!(fs::read_to_string(worktree.path().join("old.txt")).unwrap(), "new\n");
    assert!(matches!(saved, SaveOutcome::Pushed(_)), "{saved:?}");
    assert!(matches!(shipped, ShipOutcome::Merged { .. }), "{shipped:?}");
    assert_eq!(forge.file_at(&sha, "work.txt").as_deref(), Some("work\n"));
    let config = fs::read_to_string(mirror.path().join("config")).unwrap();
    assert!(!config.contains("remote"), "the mirror's own settings still name nobody: {config}");
}

/// Files whose contents a mirror lacks.
fn missing(mirror: &Mirror) -> usize {
    git(mirror.path(), &["rev-list", "--objects", "--all", "--missing=print"]).matches('?').count()
}

// [F3]
#[tokio::test]
async fn a_big_repository_is_mirrored_without_old_contents_and_a_small_one_whole() {
    const BIG: u64 = 2 * 1024 * 1024 * 1024;
    let forge = TestRemote::new();
    for setting in ["uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"] {
        git(&forge.remote(), &["config", setting, "true"]);
    }
    let of_size = |name: &str, size, partial| {
        let config = RepoConfig { partial, ..RepoConfig::at(forge.remote().to_str().unwrap(), main()) };
        forge.host(name).mirror(&notes(), &config).unwrap().of_size(size)
    };
    let (big, small) = (of_size("big", Some(BIG), None), of_size("small", None, None));
    let refused = of_size("refused", Some(BIG), Some(false));

    for mirror in [&big, &small, &refused] {
        mirror.refresh().await.unwrap();
    }
    let later = of_size("big", None, None);
    let worktree = later.create(run(1), &main(), &WorktreeStart::Base).await.unwrap();
    fs::write(worktree.path().join("work.txt"), "work\n").unwrap();
    let CommitOutcome::Made(sha) = later.commit_all(&worktree, "Work").await.unwrap() else { panic!("empty") };
    later.push_run(&worktree, &sha).await.unwrap();

    assert_eq!([missing(&small), missing(&refused)], [0, 0]);
    assert_eq!(fs::read_to_string(worktree.path().join("readme.md")).unwrap(), "hello\n", "fetched when it was needed");
    assert!(
        fs::read_dir(big.path().join("objects/pack"))
            .unwrap()
            .any(|file| { file.unwrap().path().extension().is_some_and(|extension| extension == "promisor") })
    );
    assert_eq!(forge.file_at(&sha, "work.txt").as_deref(), Some("work\n"));
}

// [F3]
#[tokio::test]
async fn a_big_repository_whose_remote_cannot_leave_contents_out_is_mirrored_whole() {
    let forge = TestRemote::new();
    git(&forge.remote(), &["config", "uploadpack.allowFilter", "false"]);
    let mirror = forge.mirror_unfetched(&forge.host("host")).of_size(Some(u64::MAX));

    mirror.refresh().await.unwrap();

    assert_eq!(missing(&mirror), 0);
    assert_eq!(Some(mirror.head_of(&main()).await.unwrap()), forge.shows("refs/heads/main"));
}

// [F3]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_mirror_that_many_make_at_once_is_made() {
    let forge = TestRemote::new();
    let name = RefNames::under("aq".parse().unwrap()).run(run(1));
    for host in 0..8 {
        let mirror = forge.mirror_unfetched(&forge.host(&format!("host-{host}")));

        let mut looking = tokio::task::JoinSet::new();
        for _ in 0..8 {
            let (mirror, name) = (mirror.clone(), name.clone());
            looking.spawn(async move { mirror.remote_ref(&name).await });
        }

        for looked in looking.join_all().await {
            assert_eq!(looked.unwrap(), None);
        }
    }
}
