//! The role of a guard.

#[test]
#[ignore = "a role for another process"]
fn plays_the_guard() {
    testkit::host::play_the_guard();
}
