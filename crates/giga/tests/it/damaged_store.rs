//! A damaged or replaced store is noticed by the real program, after a real kill (row 37).

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;

use domain::{Collection, Expected, FleetStore};
use rustix::process::Signal;
use serde_json::Value;

use crate::fleet::Fleet;

fn submit(fleet: &Fleet, key: &str) -> String {
    fleet.json(&["submit", "job.md", "--key", key])[0]["job"]["id"].as_str().unwrap().to_owned()
}

fn jobs(fleet: &Fleet) -> usize {
    fleet.json(&["jobs"])[0]["items"].as_array().unwrap().len()
}

fn data(fleet: &Fleet, name: &str) -> PathBuf {
    fleet.machine.path().join("data").join(name)
}

/// A coordinator with a few jobs, killed as a power cut would.
fn killed() -> Fleet {
    let mut fleet = Fleet::serve();
    for n in 0..12 {
        submit(&fleet, &n.to_string());
    }
    assert_eq!(fleet.end(Signal::KILL), None);
    fs::remove_file(data(&fleet, "endpoint")).unwrap();
    fleet
}

fn accept(fleet: &mut Fleet) {
    fleet.start(&["serve", "--accept-data-loss"], &[]);
    fleet.until("a coordinator", || data(fleet, "endpoint").exists());
}

/// The status line and the body of a page that needs no token.
pub(crate) fn page(fleet: &Fleet, path: &str) -> (u16, String) {
    let api = fs::read_to_string(data(fleet, "endpoint")).unwrap();
    let address = api.trim().trim_start_matches("http://").to_owned();
    let mut stream = TcpStream::connect(&address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap();
    (status, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
}

// [row 37]
#[test]
fn a_truncated_log_stops_the_start_until_it_is_accepted() {
    let mut fleet = killed();
    let token = fs::read(data(&fleet, "admin.token")).unwrap();
    let log = OpenOptions::new().write(true).open(data(&fleet, "fleet.db-wal")).unwrap();
    log.set_len(log.metadata().unwrap().len() * 3 / 4).unwrap();

    let refused = fleet.machine.giga(&["serve"]);
    accept(&mut fleet);
    let left = jobs(&fleet);
    let (_, health) = page(&fleet, "/healthz");
    let submitted = submit(&fleet, "after");

    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    for word in ["acknowledged work is missing", "end of the log", "giga backup restore FILE", "--accept-data-loss"] {
        assert!(refused.stderr.contains(word), "{word}: {}", refused.stderr);
    }
    assert!((1..12).contains(&left), "{left}");
    let health: Value = serde_json::from_str(&health).unwrap();
    assert!(health["generation"].as_u64().unwrap() > 0, "{health}");
    assert!(!submitted.is_empty());
    assert_eq!(fs::read(data(&fleet, "admin.token")).unwrap(), token, "the token is of this store");
    fleet.end(Signal::TERM);
}

// [row 37]
#[test]
fn a_whole_log_is_read_after_a_kill_without_a_word() {
    let mut fleet = killed();

    fleet.start_serving();

    assert_eq!(jobs(&fleet), 12);
    fleet.until("the check", || fleet.machine.read("long-lived.log").contains("no damage found"));
    assert_eq!(page(&fleet, "/readyz").0, 200);
    assert_eq!(fleet.end(Signal::TERM), Some(0));
}

// [row 37]
#[test]
fn a_missing_database_never_replaces_the_admin_token() {
    let mut fleet = killed();
    let token = fs::read(data(&fleet, "admin.token")).unwrap();
    for name in ["fleet.db", "fleet.db-wal", "fleet.db-shm"] {
        fs::remove_file(data(&fleet, name)).unwrap();
    }

    let gone = fleet.machine.giga(&["serve"]);
    fs::remove_file(data(&fleet, "fleet.db.record")).unwrap();
    let unrecorded = fleet.machine.giga(&["serve"]);
    let kept = fs::read(data(&fleet, "admin.token")).unwrap();
    accept(&mut fleet);

    assert_eq!((gone.code, unrecorded.code), (Some(1), Some(1)), "{}{}", gone.stderr, unrecorded.stderr);
    assert!(gone.stderr.contains("is missing"), "{}", gone.stderr);
    assert!(unrecorded.stderr.contains("is the token of a store that was here"), "{}", unrecorded.stderr);
    assert_eq!(kept, token);
    assert_eq!(jobs(&fleet), 0);
    assert_eq!(fs::read(data(&fleet, "admin.token.replaced")).unwrap(), token);
    fleet.end(Signal::TERM);
}

// [row 37]
#[test]
fn a_zeroed_page_is_alerted_and_fails_readyz() {
    const PAGE: usize = 4096;
    let mut fleet = killed();
    fleet.start_serving();
    let listed = fleet.json(&["jobs"]);
    let ids: Vec<_> = listed[0]["items"].as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap()).collect();
    fleet.json(&[&["cancel"][..], ids.as_slice()].concat());
    fleet.end(Signal::TERM);
    let mut bytes = fs::read(data(&fleet, "fleet.db")).unwrap();
    // Jobs that have ended: a start does not read them.
    let body = b"Do it.";
    let pages = (2..bytes.len() / PAGE)
        .filter(|page| bytes[page * PAGE..(page + 1) * PAGE].windows(body.len()).any(|text| text == body))
        .collect::<Vec<_>>();
    for page in &pages {
        bytes[page * PAGE..(page + 1) * PAGE].fill(0);
    }
    fs::write(data(&fleet, "fleet.db"), bytes).unwrap();

    fleet.start_serving();
    fleet.until("the alert", || {
        let alerts = fleet.machine.giga(&["alerts", "--json"]);
        alerts.stdout.contains("store_damaged")
    });
    let (status, reason) = page(&fleet, "/readyz");

    assert!(!pages.is_empty());
    assert_eq!(status, 503, "{reason}");
    assert!(reason.contains("store_damaged") && reason.contains("giga backup restore FILE"), "{reason}");
    assert_eq!(page(&fleet, "/healthz").0, 200);
    fleet.end(Signal::TERM);
}

// [row 37]
#[test]
fn an_older_postgres_database_is_refused() {
    let Some(server) = pgserver::for_test(pgserver::Flushes::Real).unwrap() else { return };
    let url = server.url();
    let mut fleet = Fleet::new();
    fleet.start_serving_on(&url);
    submit(&fleet, "first");
    fleet.end(Signal::TERM);
    // A database that was put back to an earlier state is behind its record, which is the same as a record that is ahead.
    let path = data(&fleet, "postgres.record");
    let record = store::read_record(&path).unwrap().unwrap();
    let position = domain::Position(record.position.0 + 1);
    store::RecordFile::create(&path, store::StoreRecord { position, ..record }).unwrap();

    let refused = fleet.machine.giga_with(&["serve"], &[("GIGA_STORE", &url)], "");
    fleet.start(&["serve", "--accept-data-loss"], &[("GIGA_STORE", &url)]);
    fleet.until("a coordinator", || data(&fleet, "endpoint").exists());
    let (_, health) = page(&fleet, "/healthz");
    fleet.end(Signal::TERM);

    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    assert!(refused.stderr.contains("end of the log is missing"), "{}", refused.stderr);
    let health: Value = serde_json::from_str(&health).unwrap();
    assert!(health["generation"].as_u64().unwrap() > 0, "{health}");
}

// [row 37]
#[test]
fn an_unreadable_token_kills_neither_a_start_nor_a_restore() {
    let mut fleet = Fleet::serve();
    let job = submit(&fleet, "first");
    fleet.end(Signal::TERM);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let store = store::SqliteStore::open(data(&fleet, "fleet.db"), store::Options::default()).unwrap();
        let token = serde_json::json!({ "id": "far", "expiresAt": "+292277024-01-01T00:00:00Z" });
        store.put(Collection::Tokens, "0123abcd", Expected::Absent, Some(token)).await.unwrap();
        store.close().await.unwrap();
    });

    fleet.start_serving();
    fleet.json(&["backup", "create", "b.db"]);
    fleet.json(&["backup", "restore", "b.db", "--yes"]);
    let listed = fleet.json(&["jobs"]);
    let alerts = fleet.machine.giga(&["alerts", "--json"]);
    let doctor = fleet.machine.giga(&["doctor"]);

    assert_eq!(listed[0]["items"][0]["id"], Value::from(job));
    assert!(alerts.stdout.contains("unreadable_document"), "{}", alerts.stdout);
    assert!(alerts.stdout.contains("fleet_tokens `0123abcd`"), "{}", alerts.stdout);
    assert!(doctor.stdout.contains("0123abcd"), "{}", doctor.stdout);
    assert!(doctor.stdout.contains("integrity") && doctor.stdout.contains("record"), "{}", doctor.stdout);
    assert_eq!(fleet.end(Signal::TERM), Some(0));
}
