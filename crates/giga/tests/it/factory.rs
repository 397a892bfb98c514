//! `giga factory run`

use std::sync::mpsc;
use std::time::Duration;

use crate::giga::Machine;

/// Far longer than a start that fails takes.
const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn a_factory_that_cannot_start_ends_though_its_standard_input_is_open() {
    let machine = Machine::new();
    let mut factory = machine.start(&["factory", "run", "--until-stdin-closes", "--api", "http://127.0.0.1:1"]);
    let stdin = factory.stdin.take();
    let (ended, waiter) = mpsc::channel();
    std::thread::spawn(move || ended.send(factory.wait_with_output()));

    let outcome = waiter.recv_timeout(PATIENCE);

    drop(stdin);
    let outcome = outcome.unwrap().unwrap();
    let stderr = String::from_utf8(outcome.stderr).unwrap();
    assert_eq!(outcome.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("token create --join"), "{stderr}");
}
