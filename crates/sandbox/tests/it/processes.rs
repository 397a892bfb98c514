//! Programs that end, and programs that must be ended.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use clock::ManualClock;
use sandbox::{Bounds, End, Launcher, Program};
use testkit::host::{PATIENCE, clock, eventually, finish, guarded, myself_as, pid_in, roomy, runs, shell};
use tokio_util::sync::CancellationToken;

/// Ignores SIGTERM, starts a child and a grandchild that do so too, and records their pids.
const STUBBORN: &str = "trap '' TERM; echo $$ > leader; \
    sh -c 'trap \"\" TERM; echo $$ > child; sh -c \"trap \\\"\\\" TERM; echo \\$\\$ > grandchild; sleep 600 & wait\" & wait' & \
    wait; wait; wait";

/// Whether the guard of this binary is between us and the program.
#[derive(Clone, Copy)]
enum Below {
    Us,
    AGuard,
}

/// Each way to end a program, on each kind of launcher. No time passes before all of it is up.
async fn ends_with_all_its_descendants(below: Below, bounds: Bounds, expected: End) {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let (time, cancel, grace) = (ManualClock::default(), CancellationToken::new(), bounds.grace);
    let launcher = match below {
        Below::Us => Launcher::unguarded(Arc::new(time.clone())),
        Below::AGuard => Launcher::guarded(myself_as("guards::plays_the_guard"), Arc::new(time.clone())),
    };
    let running = launcher.start(shell(STUBBORN, folder.path()), bounds).unwrap();

    let end_it = async {
        eventually("all three processes being up", || {
            ["leader", "child", "grandchild"].iter().all(|name| pid_in(&file(name)).is_some())
        })
        .await;
        if expected == End::Cancelled {
            cancel.cancel();
        } else {
            time.advance(SHORT);
        }
        loop {
            clock().sleep(Duration::from_millis(10)).await;
            // A guard counts its grace period itself, and needs the time to.
            if let Below::Us = below {
                time.advance(grace);
            }
        }
    };
    let finished = tokio::select! {
        biased;
        (finished, _) = finish(running, &cancel) => finished,
        () = end_it => unreachable!("time goes on for ever"),
    };

    assert_eq!(finished.end, expected);
    for name in ["leader", "child", "grandchild"] {
        let pid = pid_in(&file(name)).unwrap();
        eventually(&format!("the end of the {name}"), || !runs(pid)).await;
    }
}

const SHORT: Duration = Duration::from_secs(2);

fn short_wall() -> Bounds {
    Bounds { wall: SHORT, ..roomy() }
}

fn short_idle() -> Bounds {
    Bounds { idle: Some(SHORT), ..roomy() }
}

// [T8]
#[tokio::test]
async fn a_program_over_its_wall_clock_ends_with_all_its_descendants() {
    ends_with_all_its_descendants(Below::Us, short_wall(), End::TimedOut).await;
}

// [F2]
#[tokio::test]
async fn a_silent_program_ends_with_all_its_descendants() {
    ends_with_all_its_descendants(Below::Us, short_idle(), End::FellSilent).await;
}

#[tokio::test]
async fn a_cancelled_program_ends_with_all_its_descendants() {
    ends_with_all_its_descendants(Below::Us, roomy(), End::Cancelled).await;
}

#[tokio::test]
async fn a_guarded_program_over_its_wall_clock_ends_with_all_its_descendants() {
    ends_with_all_its_descendants(Below::AGuard, short_wall(), End::TimedOut).await;
}

#[tokio::test]
async fn a_silent_guarded_program_ends_with_all_its_descendants() {
    ends_with_all_its_descendants(Below::AGuard, short_idle(), End::FellSilent).await;
}

#[tokio::test]
async fn a_cancelled_guarded_program_ends_with_all_its_descendants() {
    ends_with_all_its_descendants(Below::AGuard, roomy(), End::Cancelled).await;
}

#[tokio::test]
async fn a_program_gets_time_to_end_politely() {
    for launcher in [Launcher::unguarded(clock()), guarded()] {
        let folder = tempfile::tempdir().unwrap();
        let script = "trap 'echo saved; exit 3' TERM; echo up > up; sleep 600 & wait";
        let cancel = CancellationToken::new();
        let bounds = Bounds { grace: PATIENCE, ..roomy() };
        let running = launcher.start(shell(script, folder.path()), bounds).unwrap();

        let watch = async {
            eventually("the program being up", || folder.path().join("up").exists()).await;
            cancel.cancel();
        };
        let ((finished, said), ()) = tokio::join!(finish(running, &cancel), watch);

        assert_eq!((finished.end, said), (End::Cancelled, vec!["saved".to_owned()]));
        assert!(finished.took < PATIENCE, "it was waited for although it had ended");
    }
}

// [row 14]
#[tokio::test]
async fn what_a_program_leaves_behind_ends_with_it() {
    for launcher in [Launcher::unguarded(clock()), guarded()] {
        let folder = tempfile::tempdir().unwrap();
        let script = "sleep 600 & echo $! > left; echo done";
        let running = launcher.start(shell(script, folder.path()), roomy()).unwrap();

        let (finished, said) = finish(running, &CancellationToken::new()).await;

        assert_eq!((finished.end, said), (End::Exited(0), vec!["done".to_owned()]));
        let left = pid_in(&folder.path().join("left")).unwrap();
        eventually("the end of what was left", || !runs(left)).await;
    }
}

#[tokio::test]
async fn a_guarded_program_cannot_leave_its_group_behind_either() {
    let folder = tempfile::tempdir().unwrap();
    let script = "setsid sh -c 'echo $$ > left; sleep 600' & while ! [ -s left ]; do sleep 0.01; done";
    let running = guarded().start(shell(script, folder.path()), roomy()).unwrap();

    let (finished, _) = finish(running, &CancellationToken::new()).await;

    assert_eq!(finished.end, End::Exited(0));
    assert!(!runs(pid_in(&folder.path().join("left")).unwrap()));
}

#[tokio::test]
async fn a_program_reads_its_input_and_passes_on_its_exit_code() {
    let prompt = "line\n".repeat(100_000);
    for launcher in [Launcher::unguarded(clock()), guarded()] {
        let folder = tempfile::tempdir().unwrap();
        let program = Program { stdin: prompt.clone().into_bytes(), ..shell("cat > got; exit 7", folder.path()) };
        let running = launcher.start(program, roomy()).unwrap();

        let (finished, _) = finish(running, &CancellationToken::new()).await;

        assert_eq!(finished.end, End::Exited(7));
        assert_eq!(fs::read_to_string(folder.path().join("got")).unwrap(), prompt);
    }
}

#[tokio::test]
async fn a_program_that_reads_nothing_is_not_waited_for() {
    for launcher in [Launcher::unguarded(clock()), guarded()] {
        let folder = tempfile::tempdir().unwrap();
        let program = Program { stdin: vec![b'x'; 1 << 20], ..shell("exit 0", folder.path()) };
        let running = launcher.start(program, roomy()).unwrap();

        let (finished, _) = finish(running, &CancellationToken::new()).await;

        assert_eq!(finished.end, End::Exited(0));
    }
}

#[tokio::test]
async fn output_beyond_its_bound_is_dropped_and_said_so() {
    let folder = tempfile::tempdir().unwrap();
    let bounds = Bounds { output_bytes_max: 20, ..roomy() };
    let script = "echo first; echo second; head -c 3000000 /dev/zero; echo; echo last";
    let running = Launcher::unguarded(clock()).start(shell(script, folder.path()), bounds).unwrap();

    let (finished, said) = finish(running, &CancellationToken::new()).await;

    assert_eq!(said, ["first", "second"]);
    assert_eq!((finished.end, finished.output_cut), (End::Exited(0), true));
}

#[tokio::test]
async fn dropping_a_running_program_kills_its_group() {
    let folder = tempfile::tempdir().unwrap();
    let script = "echo $$ > leader; sleep 600 & echo $! > child; wait";
    let running = Launcher::unguarded(clock()).start(shell(script, folder.path()), roomy()).unwrap();
    let file = |name: &str| pid_in(&folder.path().join(name));
    eventually("the program being up", || file("child").is_some() && file("leader").is_some()).await;

    drop(running);

    for name in ["leader", "child"] {
        let pid = file(name).unwrap();
        eventually("its end", || !runs(pid)).await;
    }
}

#[tokio::test]
async fn a_program_that_is_not_there_is_an_error_or_an_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let program = || Program { argv: vec!["no-such-program".into()], ..shell("", folder.path()) };

    assert!(Launcher::unguarded(clock()).start(program(), roomy()).is_err());
    let running = guarded().start(program(), roomy()).unwrap();
    let (finished, _) = finish(running, &CancellationToken::new()).await;

    assert_eq!(finished.end, End::Exited(i32::from(sandbox::PROGRAM_NOT_FOUND)));
}

// [T8] [attack: a prompt-injected agent steals secrets]
#[tokio::test]
async fn a_program_gets_no_descriptor_of_ours() {
    // Without a pipe, whose ends the shell itself would hold for a moment; `:` keeps it from becoming `ls`.
    const LIST: &str = "ls /proc/$$/fd; :";
    let folder = tempfile::tempdir().unwrap();
    // The parent of this test may have left some open; they are not ours to hide.
    let inherited = std::process::Command::new("sh").args(["-c", LIST]).output().unwrap();
    let inherited = String::from_utf8(inherited.stdout).unwrap();
    let inherited: Vec<&str> = inherited.lines().collect();
    let _files: Vec<fs::File> = (0..5).map(|_| fs::File::open(folder.path()).unwrap()).collect();
    let other = guarded().start(shell("sleep 600", folder.path()), roomy()).unwrap();

    for launcher in [Launcher::unguarded(clock()), guarded()] {
        let running = launcher.start(shell(LIST, folder.path()), roomy()).unwrap();
        let (_, said) = finish(running, &CancellationToken::new()).await;

        assert_eq!(said, inherited);
    }
    drop(other);
}
