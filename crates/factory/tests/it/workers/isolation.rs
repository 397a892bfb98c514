//! What an agent can access: under the factory's own account, and under another [T8].

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use domain::StageName;
use factory::WorkerSettings;
use sandbox::{Account, Secrets};
use testkit::host::{TestRemote, eventually, finish, guarded, myself_as, roomy, shell};
use testkit::requirement::Requirement;
use workspace::RepoConfig;

use super::LONG;
use super::fleet::{Fleet, Line};
use super::worker_process::{Plant, settings, with_setup};
use tokio_util::sync::CancellationToken;

/// An account that exists on every machine and is unused.
const STRANGER: &str = "nobody";

/// Secrets in the places where a factory has some.
const TOKEN: &str = "canary-of-the-coordinator-5f1c";
const PASSWORD: &str = "canary-of-the-forge-77aa";
const CREDENTIAL: &str = "canary-of-another-product-91be";

/// The other account, or `None` with a warning where this user cannot switch accounts.
fn stranger() -> Option<Account> {
    match Account::named(STRANGER) {
        Ok(account) => Some(account),
        Err(error) => {
            Requirement::Root.skip(error);
            None
        }
    }
}

/// Lets other accounts through to what a test made.
fn let_others_in(forge: &TestRemote) {
    fs::set_permissions(forge.path(""), fs::Permissions::from_mode(0o711)).unwrap();
}

/// An engine that prints and keeps everything that it can read of the factory: its own environment, those of the
/// processes above it, its home, the factory's directory, git's settings, open files.
fn dump(forge: &TestRemote) -> String {
    format!(
        "{{ env; above=$$\n\
         while [ ${{above:-0}} -gt 1 ]; do\n\
         cat /proc/$above/environ /proc/$above/cmdline /proc/$above/maps; ls -l /proc/$above/fd\n\
         above=$(sed -n 's/^PPid:[^0-9]*//p' /proc/$above/status)\n\
         done\n\
         find -L $HOME . '{}' -type f -size -64k ! -name .dump -exec cat {{}} +\n\
         git config --list --show-origin; git remote -v; git log -p\n\
         }} < /dev/null 2> /dev/null | head -c 1000000 | tr -cd '[:print:]\\n' > .dump\n\
         mv .dump dump.txt; cat dump.txt\n",
        forge.path("").display()
    )
}

/// Settings with a secret in every place, and a second repository whose address holds one.
fn with_secrets(mut settings: WorkerSettings) -> WorkerSettings {
    let url = format!("https://me:{PASSWORD}@127.0.0.1:9/other.git");
    settings.repos.insert("other".parse().unwrap(), RepoConfig::at(url, "main".parse().unwrap()));
    settings.secrets = Secrets::new([TOKEN.to_owned(), CREDENTIAL.to_owned()]);
    fs::create_dir_all(&settings.state).unwrap();
    let token = settings.state.join("factory.token");
    fs::write(&token, TOKEN).unwrap();
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
    settings
}

fn canaries(text: &str) -> Vec<&'static str> {
    [TOKEN, PASSWORD, CREDENTIAL].into_iter().filter(|canary| text.contains(canary)).collect()
}

// [attack: secrets in logs, events, artifacts]
#[tokio::test]
async fn the_factorys_secrets_are_scrubbed_from_engine_output() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    // Cut in the middle of each secret, with pauses, and across lines of another stream.
    let engine = format!(
        "printf %s '{}'; sleep 0.2; printf '%s\\n' '{}'; echo '{PASSWORD}' >&2; printf %s 'x={CREDENTIAL}'; echo done > done.md",
        &TOKEN[..9],
        &TOKEN[9..]
    );
    let own = with_secrets(settings("leaky", &forge, &engine));
    let _plant = Plant::start(own, fleet.enrol("leaky", &line).await);

    let job = fleet.submit(&format!("verify:\n  - echo {TOKEN}; exit 4\nretry: {{max: 1}}\n")).await;

    let run = fleet.first_run(job).await;
    let log = fleet.log(job).await;
    let told = serde_json::to_string(&run).unwrap();
    assert_eq!((canaries(&log), canaries(&told)), (vec![], vec![]), "{log}\n{told}");
    assert_eq!(log.matches("[secret]").count(), 5, "three of the engine, and the proof with its output: {log}");
    assert_eq!(run.evidence[0].output, "[secret]\n");
}

// [T8] [attack: a prompt-injected agent steals secrets]
#[tokio::test]
async fn what_one_run_leaves_in_its_home_is_not_there_for_the_next() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let engine = "ls -A ~ > found-$GIGA_JOB_ID.md; echo '[core] fsmonitor = touch canary' > ~/.gitconfig";
    let own = with_setup(settings("homely", &forge, engine), &["touch ~/by-setup"]);
    let state = own.state.clone();
    let plant = Plant::start(own, fleet.enrol("homely", &line).await);

    for _ in 0..2 {
        let job = fleet.submit("verify: ['test -e ~/.gitconfig']\n").await;
        let promoted = fleet.until(job, "a promoted branch", |view| view.promoted_sha.is_some()).await;
        let found = forge.file_at(&promoted.promoted_sha.unwrap(), &format!("found-{job}.md"));
        assert_eq!(found.as_deref(), Some("by-setup\n"), "setup, engine and verify share one home, and nobody else");
    }

    eventually("the clean-up", || plant.records().is_empty()).await;
    let left = |folder: &str| fs::read_dir(state.join(folder)).unwrap().count();
    assert_eq!((left("homes"), left("worktrees")), (0, 0));
}

// [attack: secrets in logs, events, artifacts]
#[tokio::test]
async fn a_setup_that_prints_a_secret_fails_without_telling_it() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let setup = [format!("echo preparing; echo {TOKEN}"), format!("echo {TOKEN} >&2; exit 3")];
    let own = with_setup(with_secrets(settings("chatty", &forge, "true")), &setup.each_ref().map(String::as_str));
    let _plant = Plant::start(own, fleet.enrol("chatty", &line).await);

    let job = fleet.submit("").await;

    let message = fleet.first_run(job).await.message.unwrap();
    assert!(message.contains("[secret]") && canaries(&message).is_empty(), "{message}");
    assert_eq!(
        fleet.log(job).await,
        "preparing\n[secret]\n[secret]\n",
        "people who look at the log see what setup did"
    );
}

// [T8] [row 14]
#[tokio::test]
async fn a_guarded_program_runs_under_the_other_account_and_ends_with_its_guard() {
    let Some(account) = stranger() else { return };
    let forge = TestRemote::new();
    let launcher = guarded().run_as(Some(account.clone()));

    let running = launcher
        .start(shell("id -u; id -g; id -G; kill -9 $PPID 2> /dev/null || echo refused", Path::new("/")), roomy());
    let (_, said) = finish(running.unwrap(), &CancellationToken::new()).await;

    let (uid, gid) = (account.uid().to_string(), account.gid().to_string());
    assert_eq!(said, [uid, gid.clone(), gid, "refused".to_owned()], "no group of ours, no power over its guard");
    drop(forge);
}

// [T8] [attack: a prompt-injected agent steals secrets]
#[tokio::test]
async fn an_engine_under_another_account_does_its_work_and_finds_no_secret() {
    if stranger().is_none() {
        return;
    }
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let_others_in(&forge);
    let line = Line::to(&fleet).await;
    let engine = format!("{}\ngit log --oneline > log.txt && git add -A && git commit -qm Dumped", dump(&forge));
    let mut own = with_setup(with_secrets(settings("walled", &forge, &engine)), &["id -u > who.txt"]);
    own.run_as = Some(STRANGER.to_owned());
    own.guard = Some(myself_as("guards::plays_the_guard"));
    let state = own.state.clone();
    let _plant = Plant::start(own, fleet.enrol("walled", &line).await);

    let job = fleet.submit("verify: ['test -s dump.txt', 'git status']\n").await;

    let view = fleet.until(job, "an end", |view| view.promoted_sha.is_some() || view.attempts > 0).await;
    let runs = fleet.runs(job).await;
    let sha = view.promoted_sha.unwrap_or_else(|| panic!("{runs:#?}"));
    let dumped = forge.file_at(&sha, "dump.txt").unwrap();
    let uid = Account::named(STRANGER).unwrap().uid();
    assert_eq!(forge.file_at(&sha, "who.txt").unwrap().trim(), uid.to_string());
    assert!(dumped.contains("GIGA_JOB_ID"), "it dumped something: {dumped}");
    assert_eq!((canaries(&dumped), canaries(&fleet.log(job).await)), (vec![], vec![]));
    assert_eq!(forge.file_at(&sha, "log.txt").unwrap().lines().count(), 1, "it reads the history that it borrows");
    assert_eq!(fs::metadata(state.join("factory.token")).unwrap().mode() & 0o777, 0o600);
}

// [T8]
#[tokio::test]
async fn work_under_another_account_is_saved_and_taken_up_on_another_host() {
    if stranger().is_none() {
        return;
    }
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let_others_in(&forge);
    let line = Line::to(&fleet).await;
    let begun = forge.path("begun");
    fs::create_dir(&begun).unwrap();
    fs::set_permissions(&begun, fs::Permissions::from_mode(0o777)).unwrap();
    let begin =
        format!("echo half > half.md; ln -s /etc/shadow shadow; touch '{}/yes'; exec sleep 600", begun.display());
    let mut first = settings("first", &forge, &begin);
    let mut second = settings("second", &forge, "cat half.md half.md > whole.md");
    first.run_as = Some(STRANGER.to_owned());
    second.run_as = Some(STRANGER.to_owned());
    let plant = Plant::start(first, fleet.enrol("first", &line).await);
    let job = fleet.submit("").await;
    fleet.until_stage(job, StageName::Building).await;
    eventually("the beginning", || begun.join("yes").exists()).await;

    plant.stop().await;
    let _second = Plant::start(second, fleet.enrol("second", &line).await);

    let sha = fleet.until(job, "a promoted branch", |view| view.promoted_sha.is_some()).await.promoted_sha.unwrap();
    assert_eq!(forge.file_at(&sha, "whole.md").as_deref(), Some("half\nhalf\n"));
    assert_eq!(forge.file_at(&sha, "shadow").as_deref(), Some("/etc/shadow"), "a link is a link, not what it leads to");
}

// [T8] [attack: a prompt-injected agent steals secrets]
#[tokio::test]
async fn a_file_that_only_the_factory_can_read_is_not_taken_for_the_agents_work() {
    let Some(account) = stranger() else { return };
    let forge = TestRemote::new();
    let_others_in(&forge);
    let host = forge.host("host").for_account(Some(account.clone())).unwrap();
    let (mirror, worktree) = forge.worktree(&host, testkit::host::run(1)).await;
    let secret = forge.path("secret");
    fs::write(&secret, TOKEN).unwrap();
    // What a machine without protected links would let the agent do.
    fs::hard_link(&secret, worktree.path().join("linked")).unwrap();
    let own = worktree.path().join("own");
    fs::write(&own, "work").unwrap();
    std::os::unix::fs::chown(&own, Some(account.uid()), Some(account.gid())).unwrap();

    let workspace::CommitOutcome::Made(sha) = mirror.commit_all(&worktree, "Work").await.unwrap() else {
        panic!("empty")
    };
    mirror.push_run(&worktree, &sha).await.unwrap();

    assert_eq!(forge.files_at(&sha), ["own", "readme.md"]);
}
