//! State that must survive a kill at any instant.

use std::fs;

use domain::{DispatchSeq, Epoch};
use serde_json::json;
use testkit::host::job;
use workspace::{LocalStage, Outbox, OutboxEntry, OutboxListing, RunListing, RunRecord, Runs, StateDir};

fn record(seq: u64, stage: LocalStage) -> RunRecord {
    RunRecord {
        v: 1,
        job: job(),
        dispatch_seq: DispatchSeq(seq),
        nonce: "0190f3a4-7c1e-7b52-9d0a-000000000001".parse().unwrap(),
        epoch: Some(Epoch(2)),
        repo: Some("notes".parse().unwrap()),
        guard: Some(sandbox::ProcessMark { pid: 42, started: Some(7) }),
        worktree: None,
        session: None,
        insights: domain::RunInsights::default(),
        stage,
    }
}

#[test]
fn a_saved_record_replaces_its_predecessor_and_is_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let state = StateDir::new(folder.path()).unwrap();
    let runs = Runs::under(&state);

    runs.save(&record(1, LocalStage::Accepting)).unwrap();
    runs.save(&record(1, LocalStage::Running)).unwrap();
    runs.save(&record(2, LocalStage::Accepting)).unwrap();

    let records = vec![record(1, LocalStage::Running), record(2, LocalStage::Accepting)];
    assert_eq!(Runs::under(&state).list().unwrap(), RunListing { records, torn: Vec::new() });
    runs.remove(job(), DispatchSeq(1)).unwrap();
    runs.remove(job(), DispatchSeq(1)).unwrap();
    let records = vec![record(2, LocalStage::Accepting)];
    assert_eq!(runs.list().unwrap(), RunListing { records, torn: Vec::new() });
}

#[test]
fn a_torn_record_is_skipped_and_reported() {
    let folder = tempfile::tempdir().unwrap();
    let state = StateDir::new(folder.path()).unwrap();
    let runs = Runs::under(&state);
    runs.save(&record(1, LocalStage::Running)).unwrap();
    let torn = folder.path().join("runs/torn.json");
    fs::write(&torn, "{\"v\":1,\"job\":").unwrap();
    fs::write(folder.path().join("runs/half.json.unfinished"), "{").unwrap();

    let listing = runs.list().unwrap();

    assert_eq!(listing, RunListing { records: vec![record(1, LocalStage::Running)], torn: vec![torn] });
}

// [F6]
#[test]
fn the_outbox_keeps_its_order_across_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let state = StateDir::new(folder.path()).unwrap();
    let outbox = Outbox::open(&state).unwrap();
    for report in 1..=11 {
        outbox.append(&json!({ "report": report })).unwrap();
    }
    outbox.remove(1).unwrap();
    outbox.remove(1).unwrap();

    let reopened = Outbox::open(&state).unwrap();
    let number = reopened.append(&json!({"report": 12})).unwrap();

    let entries = (2..=12).map(|number| OutboxEntry { number, report: json!({"report": number}) }).collect();
    assert_eq!(number, 12);
    assert_eq!(reopened.list().unwrap(), OutboxListing { entries, torn: Vec::new() });
}

// [F6]
#[test]
fn a_torn_report_is_skipped_and_its_neighbours_are_delivered() {
    let folder = tempfile::tempdir().unwrap();
    let state = StateDir::new(folder.path()).unwrap();
    let outbox = Outbox::open(&state).unwrap();
    outbox.append(&json!("first")).unwrap();
    let torn = folder.path().join("outbox/00000000000000000002.json");
    fs::write(&torn, "{\"rep").unwrap();
    fs::write(folder.path().join("outbox/00000000000000000003.json.unfinished"), "").unwrap();

    let reopened = Outbox::open(&state).unwrap();
    reopened.append(&json!("third")).unwrap();

    let entry = |number, report| OutboxEntry { number, report: json!(report) };
    let expected = OutboxListing { entries: vec![entry(1, "first"), entry(3, "third")], torn: vec![torn] };
    assert_eq!(reopened.list().unwrap(), expected);
}
