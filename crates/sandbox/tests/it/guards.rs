//! A program never outlives its factory, and leftovers are identified.

use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use clock::SystemEntropy;
use domain::{Entropy, Epoch, JobId, RunKey};
use rustix::process::{Pid, Signal, kill_process};
use sandbox::{Bounds, ProcessMark, kill_leftovers};
use testkit::host::{
    PATIENCE, clock, environment, eventually, guarded, myself_as, pid_in, play_the_guard, role_arguments, roomy, runs,
    shell,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

const SHORT: Duration = Duration::from_millis(300);

/// A process that plays a factory with one stubborn engine, whose processes record their pids.
struct Victim {
    run: RunKey,
    folder: tempfile::TempDir,
    process: std::process::Child,
}

impl Victim {
    /// Tests run concurrently and search for leftovers, so each has a job of its own.
    async fn up(grace: Duration) -> Self {
        let entropy: &dyn Entropy = &SystemEntropy;
        let run = RunKey { job: JobId::new(clock().now(), entropy.bytes()), epoch: Epoch(1) };
        let folder = tempfile::tempdir().unwrap();
        let myself = myself_as("guards::plays_the_factory");
        let process = Command::new(&myself[0])
            .args(&myself[1..])
            .arg(folder.path())
            .args([grace.as_millis().to_string(), run.job.to_string(), run.epoch.to_string()])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let victim = Self { run, folder, process };
        eventually("the engine being up", || ["guard", "engine", "child", "fled"].iter().all(|name| victim.has(name)))
            .await;
        victim
    }

    fn has(&self, name: &str) -> bool {
        pid_in(&self.folder.path().join(name)).is_some()
    }

    fn pid(&self, name: &str) -> i32 {
        pid_in(&self.folder.path().join(name)).unwrap()
    }

    fn mark(&self) -> ProcessMark {
        serde_json::from_slice(&fs::read(self.folder.path().join("mark.json")).unwrap()).unwrap()
    }

    /// Sends a signal to the guard or the factory.
    fn signal(&self, pid: i32, signal: Signal) {
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    }

    fn stop_factory(&self) {
        self.signal(i32::try_from(self.process.id()).unwrap(), Signal::STOP);
    }

    fn kill_factory(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    async fn wait_until_nothing_is_left(&self) {
        for name in ["guard", "engine", "child", "fled"] {
            eventually(&format!("the end of the {name}"), || !runs(self.pid(name))).await;
        }
    }
}

// [row 14]
#[tokio::test]
async fn an_engine_does_not_outlive_its_factory_killed_without_warning() {
    let mut victim = Victim::up(SHORT).await;

    victim.kill_factory();

    victim.wait_until_nothing_is_left().await;
}

// [I7]
#[tokio::test]
async fn row_35_an_engine_ends_with_its_inner_guard_while_the_factory_is_stopped() {
    let mut victim = Victim::up(SHORT).await;
    victim.stop_factory();

    victim.signal(victim.pid("guard"), Signal::KILL);

    victim.wait_until_nothing_is_left().await;
    victim.kill_factory();
}

// [I7]
#[tokio::test]
async fn row_35_an_engine_ends_with_its_outer_guard_while_the_factory_is_stopped() {
    let mut victim = Victim::up(SHORT).await;
    victim.stop_factory();

    victim.signal(victim.mark().pid, Signal::KILL);

    victim.wait_until_nothing_is_left().await;
    victim.kill_factory();
}

/// The time on the clock of lease deadlines, later by `span`, in nanoseconds.
fn boot_nanos(span: Duration) -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let now = Duration::new(now.tv_sec.try_into().unwrap(), now.tv_nsec.try_into().unwrap());
    (now + span).as_nanos().try_into().unwrap()
}

#[tokio::test]
async fn row_35_an_engine_ends_with_its_lease_while_factory_and_inner_guard_are_stopped() {
    const LEASE: Duration = Duration::from_secs(5);
    const RENEWED: Duration = Duration::from_secs(10);
    let folder = tempfile::tempdir().unwrap();
    let pid = |name: &str| pid_in(&folder.path().join(name));
    let script = "trap '' TERM; echo $PPID > guard; echo $$ > engine; \
        setsid sh -c 'echo $$ > fled; sleep 600' & wait; wait";
    let deadline = boot_nanos(LEASE);
    let myself = myself_as("guards::plays_the_guard");
    let mut outer = Command::new(&myself[0])
        .args(&myself[1..])
        .args(["--grace-ms", "100", "--lease", &format!("{deadline}:{deadline}"), "--", "sh", "-c", script])
        .current_dir(folder.path())
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    // This process plays the factory: it starts the engine, renews its lease once, and is stopped.
    let mut lifeline = outer.stdin.take().unwrap();
    let renewed = boot_nanos(RENEWED);
    let input = [&b"i"[..], &0_u64.to_be_bytes()].concat();
    let renewal = [&b"d"[..], &16_u64.to_be_bytes(), &renewed.to_be_bytes(), &renewed.to_be_bytes()].concat();
    lifeline.write_all(&[input, renewal].concat()).unwrap();
    eventually("the engine being up", || ["guard", "engine", "fled"].into_iter().all(|name| pid(name).is_some())).await;
    let (inner, engine, fled) = (pid("guard").unwrap(), pid("engine").unwrap(), pid("fled").unwrap());

    kill_process(Pid::from_raw(inner).unwrap(), Signal::STOP).unwrap();
    eventually("the first deadline", || boot_nanos(Duration::ZERO) > deadline + 500_000_000).await;
    let outlived_the_first = boot_nanos(Duration::ZERO) > renewed || runs(engine);
    eventually("the end of the engine", || [inner, engine, fled].into_iter().all(|pid| !runs(pid))).await;

    assert!(outlived_the_first, "the renewal did not reach the outer guard");
    assert!(boot_nanos(Duration::ZERO) >= renewed, "it ended before its deadline");
    assert_eq!(outer.wait().unwrap().code(), Some(137));
    drop(lifeline);
}

/// A run whose factory and guards were killed at once.
async fn without_guards() -> Victim {
    let mut victim = Victim::up(SHORT).await;
    // Stopped first, so that the factory cannot clean up after the guard.
    victim.stop_factory();
    for signal in [Signal::STOP, Signal::KILL] {
        victim.signal(victim.mark().pid, signal);
        victim.signal(victim.pid("guard"), signal);
    }
    victim.kill_factory();
    eventually("the guards' death", || !runs(victim.pid("guard")) && !victim.mark().is_running()).await;
    victim
}

// [F6] [row 14]
#[tokio::test]
async fn leftovers_whose_guard_died_as_well_are_killed_at_the_next_start() {
    const TRIES: usize = 5;
    let mut survived = None;
    for _ in 0..TRIES {
        let victim = without_guards().await;
        if runs(victim.pid("engine")) && runs(victim.pid("fled")) {
            survived = Some(victim);
            break;
        }
    }
    // On a busy machine a guard may end the engine between the two kills.
    let victim = survived.expect("an engine that outlives both of its guards");

    let another = RunKey { epoch: Epoch(999), ..victim.run };
    assert_eq!(kill_leftovers(another, Some(victim.mark())), 0, "another run's processes are not ours to end");
    let killed = kill_leftovers(victim.run, Some(victim.mark()));

    assert!(killed >= 2, "{killed}");
    victim.wait_until_nothing_is_left().await;
}

#[tokio::test]
async fn a_guard_that_still_runs_is_found_by_its_mark() {
    let mut victim = Victim::up(10 * PATIENCE).await;
    victim.kill_factory();
    assert!(victim.mark().is_running() && runs(victim.pid("engine")), "there is nothing to sweep");

    kill_leftovers(victim.run, Some(victim.mark()));

    victim.wait_until_nothing_is_left().await;
    assert!(!victim.mark().is_running());
}

#[test]
#[ignore = "a role for another process"]
fn plays_the_guard() {
    play_the_guard();
}

#[tokio::test]
#[ignore = "a role for another process"]
async fn plays_the_factory() {
    let args = role_arguments().expect("a role needs arguments");
    let folder = std::path::Path::new(&args[0]);
    let grace = Duration::from_millis(args[1].to_str().unwrap().parse().unwrap());
    // The kernel sends SIGHUP to a group whose leader dies while another member is stopped.
    let script = "trap '' TERM HUP; echo $PPID > guard; echo $$ > engine; \
        setsid sh -c 'echo $$ > fled; sleep 600' & sleep 600 & echo $! > child; wait; wait; wait";
    let mut program = shell(script, folder);
    program.environment = environment().with("GIGA_JOB_ID", &args[2]).with("GIGA_EPOCH", &args[3]);
    let running = guarded().start(program, Bounds { grace, ..roomy() }).unwrap();
    fs::write(folder.join("mark.json"), serde_json::to_vec(&running.mark()).unwrap()).unwrap();
    let (sender, _lines) = mpsc::channel(1);
    running.wait(sender, &CancellationToken::new()).await;
}
