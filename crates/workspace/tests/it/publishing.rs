//! Checkpoints, commits and the run's own ref.

use std::fs;

use testkit::host::{TestRemote, git, job, main, plain_git, run};
use workspace::{CommitOutcome, DiffSummary, SaveOutcome, UnsavedFile, UnsavedReason, WorktreeStart};

async fn commit_of(
    forge: &TestRemote,
    change: impl FnOnce(&std::path::Path),
) -> (workspace::Mirror, workspace::Worktree, CommitOutcome) {
    let (mirror, worktree) = forge.worktree(&forge.host("host"), run(1)).await;
    change(worktree.path());
    let committed = mirror.commit_all(&worktree, "Say more").await.unwrap();
    (mirror, worktree, committed)
}

// [F4]
#[tokio::test]
async fn a_checkpoint_leaves_the_worktrees_index_and_files_untouched() {
    let forge = TestRemote::new();
    let (mirror, worktree) = forge.worktree(&forge.host("host"), run(1)).await;
    fs::write(worktree.path().join("staged"), "s").unwrap();
    git(worktree.path(), &["add", "staged"]);
    fs::write(worktree.path().join("readme.md"), "dirty").unwrap();
    let state = || {
        let index = fs::read(worktree.path().join(".git/index")).unwrap();
        (index, git(worktree.path(), &["status", "--porcelain"]), git(worktree.path(), &["for-each-ref"]))
    };
    // The first status may write what it learned into the index.
    git(worktree.path(), &["status"]);
    let before = state();

    let saved = mirror.checkpoint(&worktree).await.unwrap();

    assert!(matches!(saved, SaveOutcome::Pushed(_)));
    assert_eq!(state(), before);
}

#[tokio::test]
async fn without_work_there_is_nothing_to_save_or_commit() {
    let forge = TestRemote::new();
    let (mirror, worktree) = forge.worktree(&forge.host("host"), run(1)).await;

    assert_eq!(mirror.checkpoint(&worktree).await.unwrap(), SaveOutcome::NothingToSave);
    assert_eq!(mirror.commit_all(&worktree, "Nothing").await.unwrap(), CommitOutcome::Empty);
}

#[tokio::test]
async fn work_that_was_taken_back_is_an_empty_commit() {
    let forge = TestRemote::new();
    let (_, _, committed) = commit_of(&forge, |agent| {
        fs::write(agent.join("a"), "a").unwrap();
        git(agent, &["add", "-A"]);
        git(agent, &["commit", "--quiet", "-m", "There"]);
        git(agent, &["rm", "--quiet", "a"]);
        git(agent, &["commit", "--quiet", "-m", "And back"]);
    })
    .await;

    assert_eq!(committed, CommitOutcome::Empty);
}

#[tokio::test]
async fn a_commit_holds_all_work_is_ours_and_names_its_job() {
    let forge = TestRemote::new();
    let (mirror, worktree, committed) = commit_of(&forge, |agent| {
        fs::write(agent.join("readme.md"), "hello\nworld\n").unwrap();
        fs::write(agent.join("new.txt"), "1\n2\n").unwrap();
    })
    .await;
    let CommitOutcome::Made(sha) = committed else { panic!("nothing was committed") };

    let name = mirror.push_run(&worktree, &sha).await.unwrap();

    assert_eq!(name.as_str(), format!("refs/heads/aq/run/{}/e1", job()));
    assert_eq!(forge.shows(name.as_str()), Some(sha.clone()));
    assert_eq!(forge.files_at(&sha), ["new.txt", "readme.md"]);
    let shown = git(&forge.remote(), &["log", "-1", "--format=%an <%ae> %cn%n%B", sha.as_str()]);
    let expected = format!(
        "Gigafactory <gigafactory@localhost> Gigafactory\nSay more\n\nGigafactory-Job: {}\nGigafactory-Epoch: 1",
        job()
    );
    assert_eq!(shown, expected);
    let diff = mirror.diff(worktree.fork(), &sha).await.unwrap();
    assert_eq!(diff, DiffSummary { files: 2, insertions: 3, deletions: 0 });
}

#[tokio::test]
async fn an_agents_own_commits_are_kept_and_the_last_names_its_job() {
    let forge = TestRemote::new();
    let (mirror, worktree, committed) = commit_of(&forge, |agent| {
        for step in ["one", "two"] {
            fs::write(agent.join(step), step).unwrap();
            git(agent, &["add", "-A"]);
            git(agent, &["commit", "--quiet", "-m", step]);
        }
    })
    .await;
    let CommitOutcome::Made(sha) = committed else { panic!("nothing was committed") };
    mirror.push_run(&worktree, &sha).await.unwrap();

    let subjects = git(&forge.remote(), &["log", "--format=%s", &format!("{}..{sha}", worktree.fork())]);
    assert_eq!(subjects, "two\none");
    let trailer =
        git(&forge.remote(), &["log", "-1", "--format=%(trailers:key=Gigafactory-Job,valueonly)", sha.as_str()]);
    assert_eq!(trailer, job().to_string());
}

#[tokio::test]
async fn files_that_were_committed_although_ignored_stay() {
    let forge = TestRemote::new();
    forge.commit("main", ".gitignore", "*.bin\n");
    let (mirror, worktree, committed) = commit_of(&forge, |agent| {
        fs::write(agent.join("model.bin"), "x").unwrap();
        git(agent, &["add", "--force", "model.bin"]);
        git(agent, &["commit", "--quiet", "-m", "On purpose"]);
        fs::write(agent.join("more.txt"), "y").unwrap();
    })
    .await;
    let CommitOutcome::Made(sha) = committed else { panic!("nothing was committed") };
    mirror.push_run(&worktree, &sha).await.unwrap();

    assert_eq!(forge.files_at(&sha), [".gitignore", "model.bin", "more.txt", "readme.md"]);
}

// [F5]
#[tokio::test]
async fn the_request_text_is_never_committed() {
    let forge = TestRemote::new();
    let (mirror, worktree, committed) = commit_of(&forge, |agent| {
        fs::write(agent.join("work.txt"), "x").unwrap();
        fs::write(agent.join(".aq_pr.md"), "# Please merge").unwrap();
    })
    .await;
    let CommitOutcome::Made(sha) = committed else { panic!("nothing was committed") };
    mirror.push_run(&worktree, &sha).await.unwrap();

    assert_eq!(forge.files_at(&sha), ["readme.md", "work.txt"]);
    assert_eq!(worktree.pr_body(8).as_deref(), Some("# Please"));
}

#[tokio::test]
async fn the_request_text_is_in_no_commit_even_if_the_agent_committed_it() {
    let forge = TestRemote::new();
    let (mirror, worktree, committed) = commit_of(&forge, |agent| {
        fs::write(agent.join("work.txt"), "x").unwrap();
        fs::write(agent.join(".aq_pr.md"), "# Please merge").unwrap();
        git(agent, &["add", "--force", "-A", "."]);
        git(agent, &["add", "--force", ".aq_pr.md"]);
        git(agent, &["commit", "--quiet", "-m", "All of it"]);
    })
    .await;
    let CommitOutcome::Made(sha) = committed else { panic!("nothing was committed") };
    mirror.push_run(&worktree, &sha).await.unwrap();
    mirror.checkpoint(&worktree).await.unwrap();

    let touching = git(&forge.remote(), &["log", "--format=%s", sha.as_str(), "--", ".aq_pr.md"]);
    assert_eq!(touching, "");
    assert_eq!(forge.files_at(&sha), ["readme.md", "work.txt"]);
    assert_eq!(
        forge.files_at(&forge.shows(&format!("refs/heads/aq/wip/{}", run(1))).unwrap()),
        ["readme.md", "work.txt"]
    );
}

#[tokio::test]
async fn an_agent_that_destroys_its_repository_loses_no_file() {
    let forge = TestRemote::new();
    let (mirror, worktree, committed) = commit_of(&forge, |agent| {
        fs::write(agent.join("work.txt"), "x").unwrap();
        fs::remove_dir_all(agent.join(".git")).unwrap();
    })
    .await;
    let CommitOutcome::Made(sha) = committed else { panic!("nothing was committed") };
    mirror.push_run(&worktree, &sha).await.unwrap();

    assert_eq!(forge.files_at(&sha), ["readme.md", "work.txt"]);
}

#[tokio::test]
async fn an_agent_that_begins_a_history_of_its_own_is_put_back_on_the_base() {
    let forge = TestRemote::new();
    let (mirror, worktree, committed) = commit_of(&forge, |agent| {
        fs::remove_dir_all(agent.join(".git")).unwrap();
        git(agent, &["init", "--quiet"]);
        fs::write(agent.join("work.txt"), "x").unwrap();
        git(agent, &["add", "-A"]);
        git(agent, &["commit", "--quiet", "-m", "The very first"]);
    })
    .await;
    let CommitOutcome::Made(sha) = committed else { panic!("nothing was committed") };
    mirror.push_run(&worktree, &sha).await.unwrap();

    let parent = git(&forge.remote(), &["rev-parse", &format!("{sha}^")]);
    assert_eq!(parent, worktree.fork().as_str());
    assert_eq!(forge.files_at(&sha), ["readme.md", "work.txt"]);
}

#[tokio::test]
async fn a_repository_inside_the_worktree_is_left_out() {
    let forge = TestRemote::new();
    let (mirror, worktree, committed) = commit_of(&forge, |agent| {
        fs::write(agent.join("work.txt"), "x").unwrap();
        for nested in ["empty", "full"] {
            fs::create_dir(agent.join(nested)).unwrap();
            git(&agent.join(nested), &["init", "--quiet"]);
        }
        fs::write(agent.join("full/a"), "a").unwrap();
        git(&agent.join("full"), &["add", "-A"]);
        git(&agent.join("full"), &["commit", "--quiet", "-m", "Elsewhere"]);
    })
    .await;
    let CommitOutcome::InPart { made: Some(sha), left_out } = committed else { panic!("{committed:?}") };
    mirror.push_run(&worktree, &sha).await.unwrap();

    assert_eq!(forge.files_at(&sha), ["readme.md", "work.txt"]);
    assert_eq!(
        left_out,
        [UnsavedFile { path: "full/".into(), why: UnsavedReason::OwnRepository }],
        "an empty one is no work"
    );
}

#[tokio::test]
async fn a_file_that_became_a_folder_is_committed_as_one() {
    let forge = TestRemote::new();
    let (mirror, worktree, committed) = commit_of(&forge, |agent| {
        fs::remove_file(agent.join("readme.md")).unwrap();
        fs::create_dir(agent.join("readme.md")).unwrap();
        fs::write(agent.join("readme.md/part"), "x").unwrap();
    })
    .await;
    let CommitOutcome::Made(sha) = committed else { panic!("nothing was committed") };
    mirror.push_run(&worktree, &sha).await.unwrap();

    assert_eq!(forge.files_at(&sha), ["readme.md/part"]);
}

/// A worktree with completed work that conflicts with the base branch, after `git merge origin/main` in it.
async fn conflicting(forge: &TestRemote) -> (workspace::Mirror, workspace::Worktree, [domain::CommitSha; 2]) {
    let host = forge.host("host");
    let (mirror, worktree) = forge.worktree(&host, run(1)).await;
    fs::write(worktree.path().join("readme.md"), "ours\n").unwrap();
    let CommitOutcome::Made(ours) = mirror.commit_all(&worktree, "Ours").await.unwrap() else { panic!("empty") };
    mirror.push_run(&worktree, &ours).await.unwrap();
    let theirs = forge.commit("main", "readme.md", "theirs\n");
    mirror.refresh().await.unwrap();
    let worktree = mirror.create(run(2), &main(), &WorktreeStart::Commit(ours.clone())).await.unwrap();
    let merged = plain_git(worktree.path()).args(["merge", "origin/main"]).output().unwrap();
    assert!(!merged.status.success(), "{merged:?}");
    (mirror, worktree, [ours, theirs])
}

fn parents(forge: &TestRemote, sha: &domain::CommitSha) -> String {
    git(&forge.remote(), &["log", "-1", "--format=%P", sha.as_str()])
}

#[tokio::test]
async fn a_resolved_merge_that_was_not_committed_keeps_both_parents() {
    for is_added in [true, false] {
        let forge = TestRemote::new();
        let (mirror, worktree, [ours, theirs]) = conflicting(&forge).await;
        fs::write(worktree.path().join("readme.md"), "ours\ntheirs\n").unwrap();
        if is_added {
            git(worktree.path(), &["add", "readme.md"]);
        }

        let committed = mirror.commit_all(&worktree, "Merge").await.unwrap();

        let CommitOutcome::Made(sha) = committed else { panic!("{committed:?}") };
        mirror.push_run(&worktree, &sha).await.unwrap();
        assert_eq!(parents(&forge, &sha), format!("{ours} {theirs}"));
        assert_eq!(forge.file_at(&sha, "readme.md").as_deref(), Some("ours\ntheirs\n"));
    }
}

#[tokio::test]
async fn a_merge_with_conflict_markers_is_not_committed() {
    let forge = TestRemote::new();
    let (mirror, worktree, _) = conflicting(&forge).await;
    let unresolved = CommitOutcome::Unresolved { files: vec!["readme.md".to_owned()] };

    assert_eq!(mirror.commit_all(&worktree, "Merge").await.unwrap(), unresolved);
    git(worktree.path(), &["add", "readme.md"]);
    assert_eq!(mirror.commit_all(&worktree, "Merge").await.unwrap(), unresolved, "its markers are still there");
}

#[tokio::test]
async fn a_merge_head_that_is_not_of_the_base_branch_is_no_parent() {
    let forge = TestRemote::new();
    let (mirror, worktree, [ours, theirs]) = conflicting(&forge).await;
    fs::write(worktree.path().join("readme.md"), "ours\ntheirs\n").unwrap();
    let own = git(worktree.path(), &["commit-tree", "HEAD^{tree}", "-m", "unrelated"]);
    let head = worktree.path().join(".git/MERGE_HEAD");
    let outside = forge.path("outside");
    fs::write(&outside, format!("{theirs}\n")).unwrap();

    for hostile in [own, "f".repeat(40), format!("{ours}"), format!("{theirs}\n{theirs}"), "--all".to_owned()] {
        fs::write(&head, format!("{hostile}\n")).unwrap();
        let committed = mirror.commit_all(&worktree, "Work").await.unwrap();
        let CommitOutcome::Made(sha) = committed else { panic!("{hostile}: {committed:?}") };
        mirror.push_run(&worktree, &sha).await.unwrap();
        assert_eq!(parents(&forge, &sha), ours.as_str(), "{hostile}");
    }
    fs::remove_file(&head).unwrap();
    std::os::unix::fs::symlink(&outside, &head).unwrap();
    let committed = mirror.commit_all(&worktree, "Work").await.unwrap();
    let CommitOutcome::Made(sha) = committed else { panic!("{committed:?}") };
    mirror.push_run(&worktree, &sha).await.unwrap();
    assert_eq!(parents(&forge, &sha), ours.as_str());
}
