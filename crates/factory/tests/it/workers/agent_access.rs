//! What an agent under the factory's own account can access inside the sandbox [T8].

use std::fs;
use std::path::Path;
use std::sync::Arc;

use clock::SystemEntropy;
use factory::{Worker, WorkerError, WorkerSettings};
use forge::ForgeConfig;
use sandbox::{SandboxMode, SandboxSummary};
use testkit::host::{TestRemote, clock, git, main, myself_as};
use testkit::requirement::Requirement;
use workspace::{RepoConfig, Repository};

use super::LONG;
use super::fleet::{Fleet, Line};
use super::worker_process::{Plant, settings, with_setup};
use crate::closed_directory::closed_place;

const CANARY: &str = "canary-3b9e07";

/// `false` with a warning where the kernel has no sandbox.
pub(super) fn can_be_confined() -> bool {
    match SandboxMode::Required.in_force() {
        SandboxSummary::Kernel(_) => true,
        SandboxSummary::None(why) => {
            Requirement::Landlock.skip(why);
            false
        }
    }
}

/// Secrets where a factory and a coordinator have theirs, and the work of another job.
fn with_secrets(forge: &TestRemote, mut settings: WorkerSettings) -> WorkerSettings {
    let (state, data) = (settings.state.clone(), forge.path("data"));
    let other = state.join("worktrees/0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6a-e1");
    for folder in [&data, &other, &state.join("outbox"), &state.join("sessions/claude/other")] {
        fs::create_dir_all(folder).unwrap();
    }
    let token = forge.path("forge.token");
    let files = ["factory.token", "outbox/report.json", "sessions/claude/other/words.jsonl", "runs.canary"];
    for file in files.map(|name| state.join(name)).iter().chain([&data.join("admin.token"), &token, &other.join("x")]) {
        fs::write(file, CANARY).unwrap();
    }
    settings.forge = ForgeConfig { token_file: Some(token), ..ForgeConfig::default() };
    settings.hidden = vec![data];
    settings.confine = SandboxMode::Required;
    settings
}

/// Programs and settings that an agent could replace, and an open directory among closed ones.
fn with_plants(forge: &TestRemote, elsewhere: &Path, mut settings: WorkerSettings) -> WorkerSettings {
    for folder in [forge.path("bin"), elsewhere.join("open")] {
        fs::create_dir_all(folder).unwrap();
    }
    fs::write(forge.path("settings.toml"), "").unwrap();
    let path = format!("{}:{}", forge.path("bin").display(), std::env::var("PATH").unwrap());
    settings.environment.set.insert("PATH".to_owned(), path);
    settings.writable = vec![elsewhere.join("open")];
    settings.keep(&forge.path("settings.toml"));
    settings
}

/// An engine that reads whatever it can, breaks whatever it can, and then does its work.
fn attacker(forge: &TestRemote, state: &Path, elsewhere: &Path) -> String {
    let repository = Repository::of(&RepoConfig::at(forge.remote().to_str().unwrap(), main())).unwrap();
    let mirror = state.join("mirrors").join(format!("{}.git", repository.identity().file_name()));
    format!(
        "top='{}'; state='{}'; elsewhere='{}'; station=$(sed -n 's/^PPid:[^0-9]*//p' /proc/$PPID/status)\n\
         {{ find \"$top\" -type f -size -64k ! -name .dump -exec cat {{}} +\n\
         cat /proc/$PPID/environ /proc/$station/environ && echo looked-into-another-process\n\
         head -c 1 $(find /dev -type b) && echo looked-at-the-disk\n\
         }} < /dev/null 2> /dev/null | tr -cd '[:print:]\\n' > .dump; mv .dump dump.txt\n\
         broke() {{ echo \"$1\" >> broken.txt; }}\n\
         {{ (echo forged > $state/outbox/forged.json) && broke outbox\n\
         cp readme.md moved.md && mv moved.md $state/outbox/moved.json && broke outbox-by-move\n\
         rm -f moved.md; ln readme.md $state/runs/linked && broke runs-by-link\n\
         ln $state/factory.token linked && broke token-by-link\n\
         ln -s /etc/passwd $state/runs/soft && broke runs-by-soft-link\n\
         mkdir $state/runs/made && broke runs-by-folder\n\
         rm -f $state/factory.token; test -e $state/factory.token || broke token-gone\n\
         truncate -s 0 $state/factory.token && broke token-truncated\n\
         mv $state/outbox $state/elsewhere && broke outbox-moved\n\
         echo x > $state/worktrees/0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6a-e1/x && broke other-work\n\
         (echo x > $top/remote.git/refs/heads/forged) && broke remote\n\
         (echo x > '{}/config') && broke mirror\n\
         kill -0 $PPID && broke signals\n\
         for place in \"$elsewhere\" $top/bin /etc /usr/local/bin /var/lib /run /dev ~root; do\n\
         planted=$place/planted-$GIGA_JOB_ID; (: > $planted) && broke $place && rm $planted\n\
         done\n\
         (echo x >> $top/settings.toml) && broke settings\n\
         mv $top/settings.toml $top/old.toml && broke settings-by-move\n\
         (: >> /proc/sys/kernel/core_pattern) && broke kernel\n\
         }} 2> /dev/null\n\
         set -e; echo given > \"$elsewhere/open/x\"; mv \"$elsewhere/open/x\" given.txt; echo built > \"$BUILD/made\"; cat \"$BUILD/made\" > built.txt; ln \"$BUILD/made\" built-too.txt\n\
         echo home > ~/own; t=$(mktemp); echo tmp > \"$t\"; mv \"$t\" tmp.txt; mkdir -p a/b; echo moved > a/x; mv a/x a/b/x\n\
         git log --oneline > log.txt; git add -A; git commit -qm Work; echo later > later.txt\n",
        forge.path("").display(),
        state.display(),
        elsewhere.display(),
        mirror.display()
    )
}

/// The file with what the engine broke, and the dump, of a job that was done.
async fn attack(name: &str, guard: Option<Vec<std::ffi::OsString>>) {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let state = forge.path(name);
    // Not in the temporary directories, which are writable for all accounts.
    let elsewhere = closed_place();
    let engine = attacker(&forge, &state, elsewhere.path());
    let own = with_plants(&forge, elsewhere.path(), with_secrets(&forge, settings(name, &forge, &engine)));
    let refused = format!("! cat '{}'", state.join("factory.token").display());
    let mut own = with_setup(own, &[&refused]);
    own.guard = guard;
    for repo in own.repos.values_mut() {
        repo.caches = [("BUILD".to_owned(), "build".to_owned())].into();
    }
    let plant = Plant::start(own, fleet.enrol(name, &line).await);

    let job =
        fleet.submit(&format!("verify: ['test -s dump.txt && git status', '{}']\n", refused.replace('\'', "\""))).await;

    let view = fleet.until(job, "an end", |view| view.promoted_sha.is_some() || view.attempts > 0).await;
    let runs = fleet.runs(job).await;
    let sha = view.promoted_sha.unwrap_or_else(|| panic!("{runs:#?}\n"));
    let file = |name: &str| forge.file_at(&sha, name);
    assert_eq!(file("broken.txt"), None, "it broke something");
    let dump = file("dump.txt").unwrap();
    assert!(dump.contains("hello"), "it looked at nothing: {dump}");
    let lines = |canary: &str| dump.lines().filter(|line| line.contains(canary)).count();
    let found = [CANARY, "GIGA_JOB_ID", "looked-into-another-process", "looked-at-the-disk"].map(lines);
    assert_eq!(found, [0; 4], "{dump}");
    assert_eq!(
        ["built.txt", "built-too.txt", "tmp.txt", "a/b/x", "given.txt"].map(file).map(Option::unwrap),
        ["built\n", "built\n", "tmp\n", "moved\n", "given\n"]
    );
    assert_eq!(file("log.txt").unwrap().lines().count(), 1, "it reads the history that it borrows");
    assert_eq!(fs::read_to_string(state.join("factory.token")).unwrap(), CANARY);
    plant.stop().await;
}

// [T8] [attack: a prompt-injected agent steals secrets]
#[tokio::test]
async fn an_agent_of_the_same_account_reads_and_changes_nothing_of_the_factorys_own() {
    if can_be_confined() {
        attack("enclosed", None).await;
    }
}

// [T8] [attack: a prompt-injected agent steals secrets]
#[tokio::test]
async fn an_agent_below_a_guard_reads_and_changes_nothing_of_the_factorys_own_either() {
    if can_be_confined() {
        attack("guarded", Some(myself_as("guards::plays_the_guard"))).await;
    }
}

// [T8] [attack: hostile repository]
#[tokio::test]
async fn an_agent_does_not_have_the_factory_fetch_what_it_cannot_read_itself() {
    if !can_be_confined() {
        return;
    }
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let secret = forge.path("data/secret");
    fs::create_dir_all(&secret).unwrap();
    git(&secret, &["init", "--quiet"]);
    fs::write(secret.join("secret.txt"), CANARY).unwrap();
    git(&secret, &["add", "-A"]);
    git(&secret, &["commit", "--quiet", "-m", "Of another product"]);
    let tree = git(&secret, &["rev-parse", "HEAD^{tree}"]);
    // Its commit names a tree that it does not have, and its repository names an alternate to borrow it from.
    let engine = format!(
        "printf 'tree {tree}\\nparent %s\\nauthor A <a@b> 1 +0000\\ncommitter A <a@b> 1 +0000\\n\\nx\\n' $(git rev-parse HEAD) > c\n\
         git update-ref HEAD $(git hash-object -t commit -w c); rm c\n\
         echo '{}' >> .git/objects/info/alternates; echo work > work.txt\n",
        secret.join(".git/objects").display()
    );
    let own = with_secrets(&forge, settings("borrowing", &forge, &engine));
    let _plant = Plant::start(own, fleet.enrol("borrowing", &line).await);

    let job = fleet.submit("").await;

    let view = fleet.until(job, "an end", |view| view.promoted_sha.is_some() || view.attempts > 0).await;
    let runs = fleet.runs(job).await;
    let sha = view.promoted_sha.unwrap_or_else(|| panic!("{runs:#?}"));
    assert_eq!(forge.file_at(&sha, "work.txt").as_deref(), Some("work\n"));
    assert_eq!(forge.file_at(&tree.parse().unwrap(), "secret.txt"), None);
}

// [T8] [attack: a prompt-injected agent steals secrets]
#[tokio::test]
async fn a_factory_that_must_confine_its_agents_does_not_share_an_ssh_agent_with_them() {
    // From this ABI on the kernel blocks its socket.
    let is_shared = match SandboxMode::Required.in_force() {
        SandboxSummary::Kernel(means) => !means.name.contains("ABI 9"),
        SandboxSummary::None(_) => return assert!(!can_be_confined()),
    };
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let mut own = settings("sharing", &forge, "true");
    own.git.ssh_auth_sock = Some(forge.path("agent.sock"));
    own.confine = SandboxMode::Required;

    let opened = Worker::open(own, fleet.enrol("sharing", &line).await, clock(), Arc::new(SystemEntropy));

    let refused = matches!(opened.err(), Some(WorkerError::NotConfined(why)) if why.contains("ssh agent"));
    assert_eq!(refused, is_shared);
}
