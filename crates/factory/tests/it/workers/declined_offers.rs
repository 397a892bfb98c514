//! Offers that a factory cannot accept are declined, and accepted once it can (row 33).

use std::fs;

use domain::StageName;
use testkit::host::TestRemote;

use super::LONG;
use super::fleet::{Fleet, Line};
use super::worker_process::{Plant, settings};

// [row 33]
#[tokio::test(flavor = "multi_thread")]
async fn offers_are_declined_until_run_records_can_be_written() {
    let (fleet, forge) = (Fleet::start(LONG).await, TestRemote::new());
    let line = Line::to(&fleet).await;
    let client = fleet.enrol("mac", &line).await;
    let settings = settings("mac", &forge, "echo built > new.txt");
    let records = settings.state.join("runs");
    let plant = Plant::start(settings, client);
    fleet.until_seats("mac", 1).await;
    // A file in the place of the directory makes every write of a record fail, as a full disk does, for root as well.
    fs::remove_dir(&records).unwrap();
    fs::write(&records, "").unwrap();

    let job = fleet.submit("").await;

    let declined = fleet.until(job, "a reason", |job| job.message.is_some()).await;
    let reason = declined.message.unwrap_or_default();
    assert!(reason.starts_with("cannot take work: it cannot write its state directory:"), "{reason}");
    fs::remove_file(&records).unwrap();
    fs::create_dir(&records).unwrap();
    let done = fleet.until_stage(job, StageName::Testing).await;
    assert_eq!((done.attempts, done.lost_leases), (0, 0));
    plant.stop().await;
}
