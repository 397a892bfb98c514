//! Worktrees: one per job and epoch.

use std::fs;

use domain::Checkpoint;
use testkit::host::{TestRemote, git, main, notes, run};
use workspace::{CommitOutcome, Error, Mirror, RepoConfig, SaveOutcome, WorktreeStart};

#[tokio::test]
async fn a_worktree_holds_the_base_branch_and_is_clean_for_its_agent() {
    let forge = TestRemote::new();
    let (_, worktree) = forge.worktree(&forge.host("host"), run(1)).await;

    assert_eq!(fs::read_to_string(worktree.path().join("readme.md")).unwrap(), "hello\n");
    assert_eq!(git(worktree.path(), &["status", "--porcelain"]), "");
    let branch = format!("aq/run/{}/e1", run(1).job);
    assert_eq!(git(worktree.path(), &["symbolic-ref", "--short", "HEAD"]), branch);
    assert_eq!(git(worktree.path(), &["rev-parse", "HEAD"]), git(worktree.path(), &["rev-parse", "origin/main"]));
    assert_eq!(git(worktree.path(), &["remote"]), "", "an agent has nowhere to push to");
    assert_eq!(git(worktree.path(), &["config", "user.name"]), "Gigafactory");
}

// [F3]
#[tokio::test]
async fn two_epochs_of_one_job_have_their_own_worktrees() {
    let forge = TestRemote::new();
    let host = forge.host("host");
    let (mirror, first) = forge.worktree(&host, run(1)).await;
    fs::write(first.path().join("stale.txt"), "by a worker that came back").unwrap();
    git(first.path(), &["config", "core.editor", "first"]);

    let second = mirror.create(run(2), &main(), &WorktreeStart::Base).await.unwrap();

    assert_ne!(first.path(), second.path());
    assert!(!second.path().join("stale.txt").exists());
    assert!(!git(second.path(), &["config", "--list"]).contains("first"));
    assert_eq!(host.worktrees().unwrap(), [run(1), run(2)]);
}

#[tokio::test]
async fn making_a_worktree_again_gives_it_back_as_it_is() {
    let forge = TestRemote::new();
    let (mirror, worktree) = forge.worktree(&forge.host("host"), run(1)).await;
    fs::write(worktree.path().join("work.txt"), "dear").unwrap();

    let again = mirror.create(run(1), &main(), &WorktreeStart::Base).await.unwrap();

    assert_eq!(again, worktree);
    assert_eq!(fs::read_to_string(worktree.path().join("work.txt")).unwrap(), "dear");
}

#[tokio::test]
async fn a_worktree_that_a_crash_left_unfinished_is_made_again() {
    let forge = TestRemote::new();
    let host = forge.host("host");
    let mirror = forge.mirror(&host).await;
    let half = forge.path("host/worktrees").join(run(1).to_string());
    fs::create_dir_all(half.join("half")).unwrap();
    assert_eq!(host.worktree(run(1)).unwrap(), None);
    assert_eq!(host.worktrees().unwrap(), [run(1)]);

    let worktree = mirror.create(run(1), &main(), &WorktreeStart::Base).await.unwrap();

    assert_eq!(worktree.path(), half);
    assert!(!half.join("half").exists());
    assert!(half.join("readme.md").exists());
}

// [I11]
#[tokio::test]
async fn removing_a_worktree_twice_is_removing_it_once() {
    let forge = TestRemote::new();
    let host = forge.host("host");
    let (mirror, worktree) = forge.worktree(&host, run(1)).await;
    fs::write(worktree.path().join("a"), "a").unwrap();
    mirror.checkpoint(&worktree).await.unwrap();

    host.remove_worktree(run(1)).await.unwrap();
    host.remove_worktree(run(1)).await.unwrap();

    assert_eq!(host.worktrees().unwrap(), []);
    assert_eq!(host.worktree(run(1)).unwrap(), None);
    assert_eq!(git(mirror.path(), &["for-each-ref", "--format=%(refname)"]), "refs/remotes/origin/main");
}

// [F4]
#[tokio::test]
async fn a_checkpoint_keeps_dirty_untracked_and_committed_work_and_resumes_on_another_host() {
    let forge = TestRemote::new();
    fs::write(forge.path("seed").join("doomed.md"), "old").unwrap();
    forge.commit("main", ".gitignore", "*.log\n");
    let (mirror, worktree) = forge.worktree(&forge.host("first"), run(1)).await;
    let agent = worktree.path();
    fs::write(agent.join("committed.txt"), "one").unwrap();
    git(agent, &["add", "-A"]);
    git(agent, &["commit", "--quiet", "-m", "A step"]);
    fs::write(agent.join("readme.md"), "changed\n").unwrap();
    fs::write(agent.join("staged.txt"), "staged").unwrap();
    git(agent, &["add", "staged.txt"]);
    fs::create_dir(agent.join("new folder")).unwrap();
    fs::write(agent.join("new folder/untracked.txt"), "new").unwrap();
    fs::write(agent.join("noise.log"), "ignored").unwrap();
    fs::remove_file(agent.join("doomed.md")).unwrap();
    let step = git(agent, &["rev-parse", "HEAD"]);

    let SaveOutcome::Pushed(saved) = mirror.checkpoint(&worktree).await.unwrap() else { panic!("nothing was saved") };
    let elsewhere = forge.mirror(&forge.host("second")).await;
    let resumed = elsewhere.create(run(3), &main(), &WorktreeStart::Checkpoint(saved.clone())).await.unwrap();

    let wip = format!("refs/heads/aq/wip/{}", run(1));
    let (sha, repository) = (forge.shows(&wip).unwrap(), Some(mirror.identity().clone()));
    assert_eq!(saved, Checkpoint { git_ref: wip, sha, session: None, epoch: run(1).epoch, repository });
    let agent = resumed.path();
    assert_eq!(git(agent, &["rev-parse", "HEAD"]), step);
    assert_eq!(git(agent, &["log", "-1", "--format=%s"]), "A step");
    assert_eq!(fs::read_to_string(agent.join("readme.md")).unwrap(), "changed\n");
    let dirty = git(agent, &["status", "--porcelain", "--untracked-files=all"]);
    assert_eq!(dirty, " D doomed.md\n M readme.md\n?? \"new folder/untracked.txt\"\n?? staged.txt");
    assert!(!agent.join("noise.log").exists());
}

#[tokio::test]
async fn a_worktree_that_continues_an_earlier_commit_still_counts_from_the_base_branch() {
    let forge = TestRemote::new();
    let promoted = forge.commit("main", "first.txt", "1");
    git(&forge.remote(), &["update-ref", "refs/heads/aq/job/x", promoted.as_str()]);
    git(&forge.remote(), &["update-ref", "refs/heads/main", &format!("{promoted}^")]);
    let mirror = forge.mirror(&forge.host("host")).await;

    let worktree = mirror.create(run(2), &main(), &WorktreeStart::Commit(promoted.clone())).await.unwrap();

    assert_eq!(git(worktree.path(), &["rev-parse", "HEAD"]), promoted.as_str());
    assert_eq!(Some(worktree.fork().clone()), forge.shows("refs/heads/main"));
}

// [F4] [row 31]
#[tokio::test]
async fn work_that_was_saved_once_more_before_a_crash_is_found_under_its_ref() {
    let forge = TestRemote::new();
    let (mirror, worktree) = forge.worktree(&forge.host("first"), run(1)).await;
    fs::write(worktree.path().join("work.txt"), "later").unwrap();
    let SaveOutcome::Pushed(later) = mirror.checkpoint(&worktree).await.unwrap() else { panic!("nothing was saved") };
    let forgotten = Checkpoint { sha: "1234567890123456789012345678901234567890".parse().unwrap(), ..later };

    let elsewhere = forge.mirror(&forge.host("second")).await;
    let resumed = elsewhere.create(run(2), &main(), &WorktreeStart::Checkpoint(forgotten)).await.unwrap();

    assert_eq!(fs::read_to_string(resumed.path().join("work.txt")).unwrap(), "later");
}

// [F4]
#[tokio::test]
async fn saving_what_has_not_changed_pushes_nothing() {
    let forge = TestRemote::new();
    let (mirror, worktree) = forge.worktree(&forge.host("host"), run(1)).await;
    let wip = format!("refs/heads/aq/wip/{}", run(1));
    fs::write(worktree.path().join("work.txt"), "one").unwrap();
    let first = mirror.checkpoint(&worktree).await.unwrap();
    git(&forge.remote(), &["update-ref", "-d", &wip]);

    let same = mirror.checkpoint(&worktree).await.unwrap();
    let pushed_meanwhile = forge.shows(&wip);
    fs::write(worktree.path().join("work.txt"), "two").unwrap();
    let SaveOutcome::Pushed(changed) = mirror.checkpoint(&worktree).await.unwrap() else { panic!("nothing was saved") };

    assert_eq!((same, pushed_meanwhile), (first, None));
    assert_eq!(forge.shows(&wip), Some(changed.sha));
}

/// A repository with another one inside, recorded under `url`; and its mirror on a machine that follows submodules.
async fn with_submodule(forge: &TestRemote, path: &str, url: &str) -> Mirror {
    git(&forge.path(""), &["clone", "--quiet", "--bare", "remote.git", "other.git"]);
    let seed = forge.path("seed");
    let linked = git(&seed, &["rev-parse", "HEAD"]);
    std::fs::write(seed.join(".gitmodules"), format!("[submodule \"s\"]\n\tpath = {path}\n\turl = {url}\n")).unwrap();
    git(&seed, &["add", ".gitmodules"]);
    git(&seed, &["update-index", "--add", "--cacheinfo", &format!("160000,{linked},{path}")]);
    git(&seed, &["commit", "--quiet", "-m", "A submodule"]);
    git(&seed, &["push", "--quiet", "../remote.git", "HEAD:main"]);
    let config = RepoConfig { submodules: true, ..RepoConfig::at(forge.remote().to_str().unwrap(), main()) };
    let mirror = forge.host("host").mirror(&notes(), &config).unwrap();
    mirror.refresh().await.unwrap();
    mirror
}

// [F3]
#[tokio::test]
async fn submodules_are_checked_out_where_the_configuration_asks_for_them_and_never_committed() {
    let forge = TestRemote::new();
    let mirror = with_submodule(&forge, "vendor/other", "../other.git").await;

    let worktree = mirror.create(run(1), &main(), &WorktreeStart::Base).await.unwrap();
    let inside = worktree.path().join("vendor/other");
    let found = fs::read_to_string(inside.join("readme.md")).unwrap();
    let status = git(worktree.path(), &["status", "--porcelain"]);
    fs::write(inside.join("readme.md"), "changed\n").unwrap();
    fs::write(worktree.path().join("work.txt"), "x").unwrap();
    let CommitOutcome::Made(sha) = mirror.commit_all(&worktree, "Work").await.unwrap() else { panic!("empty") };
    mirror.push_run(&worktree, &sha).await.unwrap();

    assert_eq!((found.as_str(), status.as_str()), ("hello\n", ""));
    let kept = git(&forge.remote(), &["diff", "--name-only", worktree.fork().as_str(), sha.as_str()]);
    assert_eq!(kept, "work.txt");
}

// [attack: hostile repository]
#[tokio::test]
async fn a_submodule_that_would_run_something_or_leave_its_place_is_refused() {
    for (path, url) in [
        ("sub", "ext::sh -c touch% canary"),
        ("sub", "--upload-pack=touch canary"),
        ("sub", "../../../../../../../../etc"),
        ("-c", "../other.git"),
    ] {
        let forge = TestRemote::new();
        let mirror = with_submodule(&forge, path, url).await;

        let refused = mirror.create(run(1), &main(), &WorktreeStart::Base).await;

        assert!(matches!(refused, Err(Error::Submodule { .. } | Error::Git(_))), "{path} {url}: {refused:?}");
        testkit::host::no_canary(&forge.path(""));
    }
}

#[tokio::test]
async fn a_resumed_worktree_of_a_partial_mirror_can_merge_the_base_branch() {
    let forge = TestRemote::new();
    let (mirror, worktree) = forge.worktree_of_a_partial_mirror(&forge.host("first"), run(1)).await;
    fs::write(worktree.path().join("ours.txt"), "ours\n").unwrap();
    let SaveOutcome::Pushed(saved) = mirror.checkpoint(&worktree).await.unwrap() else { panic!("nothing was saved") };
    forge.commit("main", "readme.md", "hello, world\n");
    let moved = forge.commit("main", "theirs.txt", "theirs\n");
    let (mirror, _) = forge.worktree_of_a_partial_mirror(&forge.host("second"), run(2)).await;

    let worktree = mirror.create(run(3), &main(), &WorktreeStart::Checkpoint(saved)).await.unwrap();

    assert_eq!(
        (worktree.base_head(), git(worktree.path(), &["rev-parse", "origin/main"])),
        (&moved, moved.to_string())
    );
    assert_ne!(worktree.fork(), &moved);
    git(worktree.path(), &["merge", "--quiet", "origin/main"]);
    let read = |file: &str| fs::read_to_string(worktree.path().join(file)).unwrap();
    assert_eq!((read("readme.md"), read("ours.txt")), ("hello, world\n".to_owned(), "ours\n".to_owned()));
}
