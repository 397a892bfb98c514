//! The web UI in a real browser, on a real coordinator with real factories. The tests themselves are in `web/e2e`.

use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::requirement::Requirement;

/// What `scripts/with-chromium` found: the browser, and the built pages. `None` if they are missing.
fn browser() -> Option<(String, PathBuf)> {
    let found = std::env::var("GIGA_TEST_CHROMIUM").ok().filter(|path| path != "skip");
    let pages = std::env::var_os("GIGA_TEST_WEB").map(PathBuf::from);
    let both = found.zip(pages);
    if both.is_none() {
        Requirement::Chromium.skip("Chromium or the built web UI is missing: run scripts/with-chromium");
    }
    both
}

/// Runs one file of `web/e2e`. What it measured is printed.
fn run(file: &str) {
    let Some((chromium, pages)) = browser() else { return };
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/e2e");
    let done = Command::new("node")
        .args(["--test", "--test-reporter=spec"])
        .arg(tests.join(file))
        .env("GIGA_BIN", env!("CARGO_BIN_EXE_giga"))
        .env("GIGA_TEST_CHROMIUM", chromium)
        .env("GIGA_E2E_WEB_DIR", pages)
        .output()
        .unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    for line in text.lines().filter(|line| line.contains("measured:")) {
        println!("{}", line.trim());
    }
    assert!(done.status.success(), "{text}");
}

// [U1]
#[test]
fn every_page_works_in_a_browser() {
    run("work.test.mjs");
}

// [U1] [J4] [T5] [T2] [S5]
#[test]
fn a_plan_is_drawn_reviewed_paid_for_and_shipped_in_a_browser() {
    run("plan.test.mjs");
}

// [U1] [F9]
#[test]
fn a_fleet_scales_from_zero_and_back_in_a_browser() {
    run("pools.test.mjs");
}

// [U1]
#[test]
fn an_outage_is_shown_and_ends_by_itself() {
    run("outage.test.mjs");
}

// [U1]
#[test]
fn hostile_text_is_shown_as_text() {
    run("hostile.test.mjs");
}

// [T4]
#[test]
fn a_browser_session_needs_both_halves_and_ends_with_its_token() {
    run("session.test.mjs");
}

// [U1]
#[test]
fn axe_has_no_serious_finding() {
    run("access.test.mjs");
}

// [U1] [P4]
#[test]
fn the_page_is_small_and_an_idle_page_costs_nothing() {
    run("cost.test.mjs");
}
