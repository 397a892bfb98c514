//! Verify commands and the evidence they leave.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use clock::ManualClock;
use domain::Evidence;
use factory::{CommandsVerdict, run_commands};
use sandbox::{Bounds, Launcher};
use testkit::host::{PATIENCE, clock, environment, eventually, guarded, roomy};
use tokio_util::sync::CancellationToken;

async fn verify(commands: &[&str], bounds: &Bounds) -> (CommandsVerdict, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let commands: Vec<String> = commands.iter().map(|command| (*command).to_owned()).collect();
    let never = CancellationToken::new();
    let launcher = Launcher::unguarded(clock());
    let verdict = run_commands(&commands, folder.path(), &environment(), &launcher, bounds, &never).await;
    (verdict, folder)
}

/// Evidence without the time it took, which no test can know.
fn shown(evidence: &[Evidence]) -> Vec<(&str, Option<i32>, &str)> {
    evidence.iter().map(|shown| (shown.command.as_str(), shown.exit, shown.output.as_str())).collect()
}

// [B4]
#[tokio::test]
async fn commands_that_pass_leave_their_output_as_evidence() {
    let (verdict, _folder) = verify(&["echo one > a", "cat a; echo two >&2"], &roomy()).await;

    let CommandsVerdict::Passed(evidence) = verdict else { panic!("{verdict:?}") };
    assert_eq!(evidence[0].exit, Some(0));
    assert_eq!((evidence[1].exit, evidence[1].output.len()), (Some(0), "one\ntwo\n".len()));
}

// [F5]
#[tokio::test]
async fn the_first_failure_ends_the_list() {
    let (verdict, folder) = verify(&["true", "echo broken; exit 4", "touch never"], &roomy()).await;

    let CommandsVerdict::Failed(evidence) = verdict else { panic!("{verdict:?}") };
    assert_eq!(shown(&evidence), [("true", Some(0), ""), ("echo broken; exit 4", Some(4), "broken\n")]);
    assert!(!folder.path().join("never").exists());
}

#[tokio::test]
async fn all_commands_share_one_time_limit() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let clock = ManualClock::default();
    let bounds = Bounds { wall: Duration::from_secs(1), ..roomy() };
    let commands = ["touch first; while [ ! -e gate ]; do sleep 0.01; done", "echo here; touch second; sleep 600"];
    let lines = commands.map(str::to_owned);
    let (environment, launcher, never) =
        (environment(), Launcher::unguarded(Arc::new(clock.clone())), CancellationToken::new());
    let time = async {
        eventually("the first command", || file("first").exists()).await;
        clock.advance(Duration::from_millis(200));
        fs::write(file("gate"), "").unwrap();
        eventually("the second command", || file("second").exists()).await;
        clock.advance(Duration::from_millis(800));
    };

    let running = run_commands(&lines, folder.path(), &environment, &launcher, &bounds, &never);
    let both = async { tokio::join!(running, time) };
    let (verdict, ()) = tokio::time::timeout(2 * PATIENCE, both).await.expect("the second had no time left");

    let CommandsVerdict::Failed(evidence) = verdict else { panic!("{verdict:?}") };
    assert_eq!(shown(&evidence), [(commands[0], Some(0), ""), (commands[1], None, "here\n")]);
}

// [B4]
#[tokio::test]
async fn evidence_keeps_the_end_of_long_output_and_cannot_move_a_cursor() {
    let (verdict, _folder) = verify(&["seq 1 100000; printf 'a\\033[2Jb\\n'"], &roomy()).await;

    let CommandsVerdict::Passed(evidence) = verdict else { panic!("{verdict:?}") };
    assert!(evidence[0].output.len() <= 16 * 1024, "{}", evidence[0].output.len());
    assert!(evidence[0].output.ends_with("99999\n100000\na\u{fffd}[2Jb\n"));
}

#[tokio::test]
async fn commands_stop_when_told() {
    let folder = tempfile::tempdir().unwrap();
    let cancel = CancellationToken::new();
    let commands = ["touch up; sleep 600".to_owned()];
    let (environment, launcher, bounds) = (environment(), guarded(), roomy());
    let watch = async {
        eventually("the command being up", || folder.path().join("up").exists()).await;
        cancel.cancel();
    };

    let running = run_commands(&commands, folder.path(), &environment, &launcher, &bounds, &cancel);
    let (verdict, ()) = tokio::join!(running, watch);

    let CommandsVerdict::Cancelled(evidence) = verdict else { panic!("{verdict:?}") };
    assert_eq!(evidence[0].exit, None);
}
