//! Names and repositories that try to run a program.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;

use domain::{BranchName, RepoName};
use testkit::host::{TestRemote, eventually, git, job, main, no_canary, notes, plant_hooks, run, trap, trapped_config};
use workspace::{
    AfterShip, CommitOutcome, Error, Promotion, RepoConfig, SaveOutcome, ShipOrder, ShipOutcome, UnsavedFile,
    UnsavedReason, WorktreeStart,
};

use crate::promotion::promote_first;

/// Names with a special meaning in a shell, in a terminal, in a path or on a command line.
const HOSTILE: [&str; 14] = [
    "$(touch canary)",
    "`touch canary`",
    "; touch canary",
    "| touch canary",
    "&& touch canary",
    "--upload-pack=touch canary",
    "--exec=touch canary",
    "-c core.fsmonitor=touch canary",
    "--output=canary",
    "ext::sh -c touch% canary",
    "a\nb",
    "a'b\"c",
    ":(exclude)x",
    "\u{1b}]0;canary\u{7}",
];

// [attack: hostile names]
#[tokio::test]
async fn hostile_file_names_and_messages_are_only_text() {
    let forge = TestRemote::new();
    let (mirror, worktree) = forge.worktree(&forge.host("host"), run(1)).await;
    for name in HOSTILE {
        fs::write(worktree.path().join(name.replace('/', "_")), "x").unwrap();
    }

    let SaveOutcome::Pushed(saved) = mirror.checkpoint(&worktree).await.unwrap() else { panic!("nothing was saved") };
    let CommitOutcome::Made(sha) = mirror.commit_all(&worktree, &HOSTILE.join("\n")).await.unwrap() else {
        panic!("empty")
    };
    mirror.push_run(&worktree, &sha).await.unwrap();
    let other = forge.mirror(&forge.host("another")).await;
    let resumed = other.create(run(2), &main(), &WorktreeStart::Checkpoint(saved)).await.unwrap();
    let message = HOSTILE.join(" ");
    let order = ShipOrder { job: job(), sha: sha.clone(), base: main(), message, after: AfterShip::DeleteBranch };
    let shipped = other.ship(&order).await.unwrap();

    assert!(matches!(shipped, ShipOutcome::Merged { .. }), "{shipped:?}");
    for name in HOSTILE {
        assert!(resumed.path().join(name.replace('/', "_")).exists(), "{name:?} was lost");
    }
    assert_eq!(mirror.diff(worktree.fork(), &sha).await.unwrap().files, u32::try_from(HOSTILE.len()).unwrap());
    no_canary(&forge.path(""));
}

// [attack: hostile names]
#[tokio::test]
async fn hostile_addresses_branches_and_repositories_never_reach_git() {
    let forge = TestRemote::new();
    let host = forge.host("host");
    for name in HOSTILE {
        let config = RepoConfig::at(name, main());
        let refused = host.mirror(&notes(), &config).map(|_| ());
        assert!(matches!(refused, Err(Error::Remote { .. })), "{name:?}");
        assert!(name.parse::<BranchName>().is_err(), "{name:?}");
        assert!(name.parse::<RepoName>().is_err(), "{name:?}");
    }
    no_canary(&forge.path(""));
}

/// The commit of the agent's branch.
#[derive(Clone, Copy)]
enum Head {
    Sound,
    /// A commit whose tree is missing, which a serving git would fetch as the agent's settings say.
    WithoutTree,
}

#[derive(Clone, Copy)]
enum Contents {
    Whole,
    Partial,
}

/// Moves the agent's branch to a commit whose tree is missing.
fn lose_the_tree(agent: &Path) {
    let parent = git(agent, &["rev-parse", "HEAD"]);
    let by = "A <a@example.org> 1 +0000";
    let commit = format!("tree {}\nparent {parent}\nauthor {by}\ncommitter {by}\n\nNothing\n", "1".repeat(40));
    let file = agent.join(".git/commit");
    fs::write(&file, commit).unwrap();
    let sha = git(agent, &["hash-object", "-t", "commit", "-w", ".git/commit"]);
    git(agent, &["update-ref", "HEAD", &sha]);
}

// [attack: hostile repository]
#[tokio::test]
async fn a_repository_with_traps_never_runs_its_canary() {
    spring_every_trap(Contents::Whole, Head::Sound).await;
}

// [attack: hostile repository]
#[tokio::test]
async fn a_repository_with_traps_never_runs_its_canary_beside_a_partial_mirror_either() {
    spring_every_trap(Contents::Partial, Head::Sound).await;
}

// [attack: hostile repository]
#[tokio::test]
async fn what_an_agents_commit_lacks_is_never_fetched_as_the_agent_says() {
    spring_every_trap(Contents::Whole, Head::WithoutTree).await;
    spring_every_trap(Contents::Partial, Head::WithoutTree).await;
}

async fn spring_every_trap(contents: Contents, head: Head) {
    let forge = TestRemote::new();
    let trap = trap(&forge);
    // What a hostile author can commit: attributes, a submodule, hooks in the tree.
    let seed = forge.path("seed");
    fs::write(seed.join(".gitattributes"), "* filter=evil diff=evil merge=evil\n").unwrap();
    let modules = format!("[submodule \"sub\"]\n\tpath = sub\n\turl = ext::{trap}\n");
    fs::write(seed.join(".gitmodules"), &modules).unwrap();
    plant_hooks(&seed.join("hooks"), &trap);
    let linked = git(&seed, &["rev-parse", "HEAD"]);
    fs::create_dir(seed.join("sub")).unwrap();
    git(&seed, &["update-index", "--add", "--cacheinfo", &format!("160000,{linked},sub")]);
    git(&seed, &["commit", "--quiet", "-m", "A submodule"]);
    git(&seed, &["push", "--quiet", "../remote.git", "HEAD:main"]);
    forge.commit("main", "tracked.txt", "1\n");
    let host = forge.host("host");
    let (mirror, worktree) = match contents {
        Contents::Whole => forge.worktree(&host, run(1)).await,
        Contents::Partial => forge.worktree_of_a_partial_mirror(&host, run(1)).await,
    };
    git(&forge.path(""), &["init", "--quiet", "--bare", "trap.sh-evil"]);
    if let Head::WithoutTree = head {
        lose_the_tree(worktree.path());
    }

    // What an agent can do to its own worktree, and to a mirror that its user can write to.
    let agent = worktree.path();
    fs::write(
        agent.join(".git/config"),
        fs::read_to_string(agent.join(".git/config")).unwrap() + &trapped_config(&trap),
    )
    .unwrap();
    fs::write(format!("{trap}.inc"), trapped_config(&trap).replace("[include]", "[ignored]")).unwrap();
    plant_hooks(&agent.join(".git/hooks"), &trap);
    plant_hooks(Path::new(&format!("{trap}-hooks")), &trap);
    fs::write(agent.join(".git/info/attributes"), "* filter=evil diff=evil merge=evil\n").unwrap();
    let mirror_config = fs::read_to_string(mirror.path().join("config")).unwrap();
    fs::write(mirror.path().join("config"), mirror_config + &trapped_config(&trap)).unwrap();
    plant_hooks(&mirror.path().join("hooks"), &trap);
    fs::create_dir_all(mirror.path().join("info")).unwrap();
    fs::write(mirror.path().join("info/attributes"), "* filter=evil diff=evil merge=evil\n").unwrap();
    for nested in ["nested", "sub"] {
        let nested = agent.join(nested);
        fs::create_dir_all(&nested).unwrap();
        git(&nested, &["init", "--quiet"]);
        // The submodule's recorded commit, so that git would look inside for changes.
        git(&nested, &["fetch", "--quiet", seed.to_str().unwrap(), &linked]);
        git(&nested, &["checkout", "--quiet", "--detach", &linked]);
        fs::write(nested.join("readme.md"), "HELLO\n").unwrap();
        fs::write(nested.join(".gitattributes"), "* filter=evil\n").unwrap();
        let config = nested.join(".git/config");
        fs::write(&config, fs::read_to_string(&config).unwrap() + &trapped_config(&trap)).unwrap();
    }
    fs::write(agent.join(".gitmodules"), format!("{modules}\tupdate = !{trap}\n")).unwrap();
    fs::write(agent.join("tracked.txt"), "2\n").unwrap();
    fs::write(agent.join("new.txt"), "new\n").unwrap();

    let saved = mirror.checkpoint(&worktree).await.unwrap().checkpoint().unwrap();
    let committed = mirror.commit_all(&worktree, "Work").await.unwrap();
    let CommitOutcome::InPart { made: Some(sha), left_out } = committed else { panic!("{committed:?}") };
    assert_eq!(left_out, [UnsavedFile { path: "nested/".into(), why: UnsavedReason::OwnRepository }]);
    mirror.push_run(&worktree, &sha).await.unwrap();
    assert_eq!(promote_first(&mirror, &sha).await, Promotion::Created);
    mirror.diff(worktree.fork(), &sha).await.unwrap();
    forge.commit("main", "other.txt", "3\n");
    mirror.refresh().await.unwrap();
    let order = ShipOrder {
        job: job(),
        sha: sha.clone(),
        base: main(),
        message: "Merge".to_owned(),
        after: AfterShip::DeleteBranch,
    };
    let shipped = mirror.ship(&order).await.unwrap();
    mirror.create(run(2), &main(), &WorktreeStart::Checkpoint(saved)).await.unwrap();
    host.remove_worktree(run(1)).await.unwrap();

    assert!(matches!(shipped, ShipOutcome::Merged { .. }), "{shipped:?}");
    assert_eq!(forge.file_at(&sha, "tracked.txt").as_deref(), Some("2\n"));
    assert_eq!(forge.file_at(&sha, "new.txt").as_deref(), Some("new\n"));
    assert!(!forge.files_at(&sha).iter().any(|file| file == "nested"), "a nested repository was committed");
    no_canary(&forge.path(""));
}

// [attack: hostile repository]
#[tokio::test]
async fn a_submodule_is_never_looked_into() {
    let forge = TestRemote::new();
    let trap = trap(&forge);
    let seed = forge.path("seed");
    let linked = git(&seed, &["rev-parse", "HEAD"]);
    fs::create_dir(seed.join("sub")).unwrap();
    git(&seed, &["update-index", "--add", "--cacheinfo", &format!("160000,{linked},sub")]);
    git(&seed, &["commit", "--quiet", "-m", "A submodule"]);
    git(&seed, &["push", "--quiet", "../remote.git", "HEAD:main"]);
    let (mirror, worktree) = forge.worktree(&forge.host("host"), run(1)).await;
    let sub = worktree.path().join("sub");
    git(&sub, &["init", "--quiet"]);
    git(&sub, &["fetch", "--quiet", seed.to_str().unwrap(), &linked]);
    git(&sub, &["checkout", "--quiet", "--detach", &linked]);
    fs::write(sub.join("readme.md"), "HELLO\n").unwrap();
    fs::write(sub.join(".gitattributes"), "* filter=evil\n").unwrap();
    git(&sub, &["config", "filter.evil.clean", &trap]);
    fs::write(worktree.path().join("work.txt"), "x").unwrap();

    let CommitOutcome::Made(sha) = mirror.commit_all(&worktree, "Work").await.unwrap() else { panic!("empty") };
    mirror.push_run(&worktree, &sha).await.unwrap();

    assert_eq!(forge.files_at(&sha), ["readme.md", "sub", "work.txt"]);
    no_canary(&forge.path(""));
}

// [attack: hostile repository]
#[tokio::test]
async fn the_traps_do_go_off_for_a_git_that_trusts_its_repository() {
    let forge = TestRemote::new();
    let trap = trap(&forge);
    let (_, worktree) = forge.worktree(&forge.host("host"), run(1)).await;
    let config = worktree.path().join(".git/config");
    fs::write(&config, fs::read_to_string(&config).unwrap() + &trapped_config(&trap)).unwrap();
    fs::write(worktree.path().join(".gitattributes"), "* filter=evil\n").unwrap();

    // Whether this fails or not, it ran the repository's program.
    let _ = std::process::Command::new("git").current_dir(worktree.path()).args(["add", "-A"]).output().unwrap();

    assert!(forge.path("canary").exists());
}

// [attack: hostile repository]
#[tokio::test]
async fn a_git_that_lets_the_serving_side_fetch_does_run_what_the_agent_says() {
    let forge = TestRemote::new();
    let trap = trap(&forge);
    let (_, worktree) = forge.worktree(&forge.host("host"), run(1)).await;
    lose_the_tree(worktree.path());
    let config = worktree.path().join(".git/config");
    fs::write(&config, fs::read_to_string(&config).unwrap() + &trapped_config(&trap)).unwrap();
    git(&forge.path(""), &["init", "--quiet", "--bare", "trap.sh-evil"]);
    git(&forge.path(""), &["init", "--quiet", "--bare", "naive.git"]);

    let mut fetch = std::process::Command::new("git");
    fetch.current_dir(forge.path("naive.git")).env("GIT_NO_LAZY_FETCH", "0").process_group(0);
    let mut fetching = fetch.arg("fetch").arg(worktree.path().join(".git")).arg("HEAD").spawn().unwrap();

    eventually("the canary", || forge.path("canary").exists()).await;
    // The trap violates the protocol, and both sides wait for each other.
    let group = format!("-{}", fetching.id());
    std::process::Command::new("kill").args(["-9", "--", &group]).status().unwrap();
    fetching.wait().unwrap();
}

// [attack: hostile repository]
#[tokio::test]
async fn a_worktree_whose_git_file_points_elsewhere_is_read_as_a_stranger() {
    let forge = TestRemote::new();
    let trap = trap(&forge);
    let (mirror, worktree) = forge.worktree(&forge.host("host"), run(1)).await;
    let evil = forge.path("evil");
    fs::create_dir(&evil).unwrap();
    git(&evil, &["init", "--quiet"]);
    fs::write(evil.join("stolen.txt"), "x").unwrap();
    git(&evil, &["add", "-A"]);
    git(&evil, &["commit", "--quiet", "-m", "Not yours"]);
    fs::write(evil.join(".git/config"), fs::read_to_string(evil.join(".git/config")).unwrap() + &trapped_config(&trap))
        .unwrap();
    plant_hooks(&evil.join(".git/hooks"), &trap);
    fs::remove_dir_all(worktree.path().join(".git")).unwrap();
    fs::write(worktree.path().join(".git"), format!("gitdir: {}\n", evil.join(".git").display())).unwrap();
    fs::write(worktree.path().join("work.txt"), "mine").unwrap();

    let CommitOutcome::Made(sha) = mirror.commit_all(&worktree, "Work").await.unwrap() else { panic!("empty") };
    mirror.push_run(&worktree, &sha).await.unwrap();

    assert_eq!(forge.files_at(&sha), ["readme.md", "work.txt"]);
    assert_eq!(git(&forge.remote(), &["rev-parse", &format!("{sha}^")]), worktree.fork().as_str());
    no_canary(&forge.path(""));
}

// [attack: hostile repository]
#[tokio::test]
async fn a_worktree_replaced_by_a_link_is_refused() {
    let forge = TestRemote::new();
    let (mirror, worktree) = forge.worktree(&forge.host("host"), run(1)).await;
    let elsewhere = forge.path("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join("secret"), "s").unwrap();
    fs::remove_dir_all(worktree.path()).unwrap();
    std::os::unix::fs::symlink(&elsewhere, worktree.path()).unwrap();

    let refused = mirror.checkpoint(&worktree).await;

    assert!(matches!(refused, Err(Error::NotOurWorktree { .. })), "{refused:?}");
}

#[tokio::test]
async fn a_request_text_that_is_a_link_is_not_followed() {
    let forge = TestRemote::new();
    let (_, worktree) = forge.worktree(&forge.host("host"), run(1)).await;
    fs::write(forge.path("secret"), "s").unwrap();
    std::os::unix::fs::symlink(forge.path("secret"), worktree.path().join(".aq_pr.md")).unwrap();

    assert_eq!(worktree.pr_body(100), None);
}

/// A commit on the remote's `main` whose tree has these entries: mode, name, and a text to put there.
fn plant_tree(forge: &TestRemote, entries: &[(&str, &str, &str)]) {
    let seed = forge.path("seed");
    let mut listing = String::new();
    for (mode, name, text) in entries {
        fs::write(seed.join("content"), text).unwrap();
        let blob = git(&seed, &["hash-object", "-w", "--no-filters", "content"]);
        if let Some((folder, file)) = name.split_once('/') {
            let inner = made_tree(&seed, &format!("{mode} blob {blob}\t{file}\0"));
            listing.push_str(&format!("040000 tree {inner}\t{folder}\0"));
        } else {
            listing.push_str(&format!("{mode} blob {blob}\t{name}\0"));
        }
    }
    let tree = made_tree(&seed, &listing);
    let commit = git(&seed, &["commit-tree", "-m", "Hostile", "-p", "HEAD", &tree]);
    git(&seed, &["push", "--quiet", "--force", "../remote.git", &format!("{commit}:refs/heads/main")]);
}

fn made_tree(seed: &Path, listing: &str) -> String {
    let file = seed.join("listing");
    fs::write(&file, listing).unwrap();
    let made = std::process::Command::new("git")
        .current_dir(seed)
        .args(["mktree", "-z"])
        .stdin(fs::File::open(file).unwrap())
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    String::from_utf8(made.stdout).unwrap().trim().to_owned()
}

// [attack: hostile repository]
#[tokio::test]
async fn a_tree_that_would_write_outside_of_its_folder_or_into_a_repository_is_harmless() {
    let hook = "#!/bin/sh\ntouch canary\n";
    let trees: [&[(&str, &str, &str)]; 7] = [
        &[("100755", ".git/hooks", hook)],
        &[("100644", ".git", "gitdir: ../evil\n")],
        &[("100755", ".GIT/config", "[core]\n\tfsmonitor = touch canary\n")],
        &[("100644", "..", "x")],
        &[("100644", "../canary", "x")],
        &[("120000", "link", "../.."), ("100644", "link/canary", "x")],
        &[("100644", ".gitmodules", "[submodule \"a\"]\n\tpath = -u./canary\n\turl = -u./canary\n")],
    ];
    for entries in trees {
        let forge = TestRemote::new();
        plant_tree(&forge, entries);
        let host = forge.host("host");
        let mirror = forge.mirror(&host).await;

        // Git rejects some of them and makes plain files of others; the factory survives either.
        if let Ok(worktree) = mirror.create(run(1), &main(), &WorktreeStart::Base).await {
            fs::write(worktree.path().join("work.txt"), "work").unwrap();
            let Ok(CommitOutcome::Made(sha)) = mirror.commit_all(&worktree, "Work").await else { continue };
            mirror.push_run(&worktree, &sha).await.unwrap();
            let message = "Merge".to_owned();
            let order = ShipOrder { job: job(), sha, base: main(), message, after: AfterShip::KeepBranch };
            mirror.ship(&order).await.unwrap();
        }
        host.remove_worktree(run(1)).await.unwrap();

        no_canary(&forge.path(""));
        let beside: Vec<_> = fs::read_dir(forge.path("host/worktrees")).unwrap().collect();
        assert_eq!(beside.len(), 0, "{entries:?}");
    }
}

// [attack: hostile names]
#[tokio::test]
async fn branches_of_the_remote_whose_names_are_options_are_only_names() {
    let forge = TestRemote::new();
    let tip = forge.shows("refs/heads/main").unwrap();
    for name in ["--upload-pack=touch", "-c", "--output=canary", "-"] {
        git(&forge.remote(), &["update-ref", &format!("refs/heads/{name}"), tip.as_str()]);
        git(&forge.remote(), &["update-ref", &format!("refs/heads/aq/job/{name}"), tip.as_str()]);
    }

    let (mirror, worktree) = forge.worktree(&forge.host("host"), run(1)).await;
    fs::write(worktree.path().join("work.txt"), "x").unwrap();
    let CommitOutcome::Made(sha) = mirror.commit_all(&worktree, "Work").await.unwrap() else { panic!("empty") };
    mirror.push_run(&worktree, &sha).await.unwrap();

    assert_eq!(promote_first(&mirror, &sha).await, Promotion::Created);
    no_canary(&forge.path(""));
}

// [attack: hostile repository]
#[tokio::test]
async fn a_repository_that_borrows_from_elsewhere_gives_its_own_commits_and_runs_nothing() {
    let forge = TestRemote::new();
    let trap = trap(&forge);
    let (mirror, worktree) = forge.worktree(&forge.host("host"), run(1)).await;
    let evil = forge.path("evil.git");
    git(&forge.path(""), &["init", "--quiet", "--bare", "evil.git"]);
    fs::write(evil.join("config"), fs::read_to_string(evil.join("config")).unwrap() + &trapped_config(&trap)).unwrap();
    plant_hooks(&evil.join("hooks"), &trap);
    let info = worktree.path().join(".git/objects/info");
    let own = fs::read_to_string(info.join("alternates")).unwrap();
    let borrowed = format!("{own}{}\n\"$(touch canary)\"\n", evil.join("objects").display());
    fs::write(info.join("alternates"), &borrowed).unwrap();
    fs::write(info.join("http-alternates"), "https://127.0.0.1:1/\n").unwrap();
    fs::write(worktree.path().join(".git/commondir"), format!("{}\n", evil.display())).unwrap();
    fs::write(mirror.path().join("objects/info/alternates"), &borrowed).unwrap();
    fs::write(worktree.path().join("work.txt"), "x").unwrap();

    let CommitOutcome::Made(sha) = mirror.commit_all(&worktree, "Work").await.unwrap() else { panic!("empty") };
    mirror.push_run(&worktree, &sha).await.unwrap();

    assert_eq!(forge.files_at(&sha), ["readme.md", "work.txt"]);
    assert!(!mirror.path().join("objects/info/alternates").exists());
    no_canary(&forge.path(""));
}

// [attack: hostile repository]
#[tokio::test]
async fn large_file_storage_that_is_switched_off_runs_nothing() {
    let forge = TestRemote::new();
    let tools = forge.path("tools");
    fs::create_dir(&tools).unwrap();
    fs::copy(trap(&forge), tools.join("git-lfs")).unwrap();
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n";
    fs::write(forge.path("seed/.gitattributes"), "*.bin filter=lfs diff=lfs merge=lfs -text\n").unwrap();
    fs::write(forge.path("seed/.lfsconfig"), "[lfs]\n\turl = https://127.0.0.1:1/steal\n").unwrap();
    forge.commit("main", "model.bin", pointer);
    let host = forge.host_with("host", &tools);
    let config = RepoConfig { lfs: false, ..RepoConfig::at(forge.remote().to_str().unwrap(), main()) };
    let mirror = host.mirror(&notes(), &config).unwrap();
    mirror.refresh().await.unwrap();
    let worktree = mirror.create(run(1), &main(), &WorktreeStart::Base).await.unwrap();
    fs::write(worktree.path().join("new.bin"), "new").unwrap();

    let CommitOutcome::Made(sha) = mirror.commit_all(&worktree, "Work").await.unwrap() else { panic!("empty") };
    mirror.push_run(&worktree, &sha).await.unwrap();

    assert_eq!(forge.file_at(&sha, "model.bin").as_deref(), Some(pointer));
    no_canary(&forge.path(""));
}

// [attack: hostile repository]
#[tokio::test]
async fn pipes_devices_and_files_beyond_all_measure_neither_hang_nor_fill_the_mirror() {
    let forge = TestRemote::new();
    let (mirror, worktree) = forge.worktree(&forge.host("host"), run(1)).await;
    let made = std::process::Command::new("mkfifo").arg(worktree.path().join("pipe")).status().unwrap();
    assert!(made.success());
    fs::File::create(worktree.path().join("giant.img")).unwrap().set_len(1 << 40).unwrap();
    fs::write(worktree.path().join("work.txt"), "x").unwrap();

    let saved = mirror.checkpoint(&worktree).await.unwrap();
    let committed = mirror.commit_all(&worktree, "Work").await;

    let SaveOutcome::InPart { pushed: Some(pushed), left_out } = saved else { panic!("{saved:?}") };
    assert_eq!(forge.files_at(&pushed.sha), ["readme.md", "work.txt"], "what can be saved is saved");
    assert_eq!(left_out, [UnsavedFile { path: "giant.img".into(), why: UnsavedReason::TooLarge }]);
    assert!(matches!(&committed, Err(Error::TooLarge { path }) if path.ends_with("giant.img")), "{committed:?}");
}
