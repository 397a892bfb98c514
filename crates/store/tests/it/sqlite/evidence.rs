//! Evidence of runs is packed into a backup and unpacked from it.

use std::fs;
use std::path::PathBuf;

use domain::{Backup, Epoch, JobStore, LogStore};
use store::conformance::sample::{create, id, job, seconds};
use store::{BackupError, DirectoryLogs, ObjectLogs, RunLogs, inspect_backup, pack_evidence, unpack_evidence};

use super::Database;

/// A backup with two jobs, and logs beside the database.
async fn with_logs(database: &Database) -> (PathBuf, DirectoryLogs) {
    let sqlite = database.sqlite();
    let committed = sqlite.commit(vec![create(job(1)), create(job(2))]).await;
    assert!(committed.iter().all(Result::is_ok), "{committed:?}");
    let copy = database.path().with_file_name("copy");
    sqlite.back_up(&copy, seconds(1)).await.unwrap();
    (copy, logs_in(database, "logs"))
}

fn logs_in(database: &Database, folder: &str) -> DirectoryLogs {
    DirectoryLogs::new(database.path().with_file_name(folder), 1_000)
}

async fn kept(logs: &DirectoryLogs, n: u32) -> Option<String> {
    let found = logs.evidence(id(n), Epoch(1)).await.unwrap();
    found.map(|document| String::from_utf8_lossy(&document).into_owned())
}

// [§12] [B4]
#[tokio::test]
async fn torn_evidence_is_not_packed_and_is_replaced() {
    let database = Database::new();
    let (copy, logs) = with_logs(&database).await;
    let torn = [&b""[..], b"{\"diff\":\"+fir", &[0; 16]];
    for (epoch, document) in (1..).zip(torn.iter().chain([&&b"{\"n\":1}"[..]])) {
        logs.keep_evidence(id(1), Epoch(epoch), document).await.unwrap();
    }
    logs.keep_evidence(id(2), Epoch(1), b"{\"n\":2}").await.unwrap();

    let packed = pack_evidence(&copy, &logs.clone().into()).unwrap();
    logs.keep_evidence(id(1), Epoch(4), b"").await.unwrap();
    logs.keep_evidence(id(2), Epoch(1), b"{\"n\":3}").await.unwrap();
    let _stays = unpack_evidence(&copy, &logs.clone().into()).unwrap();

    assert_eq!((packed.evidence, &packed), (2, &inspect_backup(&copy).unwrap()));
    assert_eq!(logs.evidence(id(1), Epoch(4)).await.unwrap().as_deref(), Some(&b"{\"n\":1}"[..]));
    assert_eq!(kept(&logs, 2).await.as_deref(), Some("{\"n\":3}"), "what is there stays");
}

// [§12]
#[tokio::test]
async fn remove_imported_removes_only_the_imported_evidence() {
    let database = Database::new();
    let (copy, logs) = with_logs(&database).await;
    logs.keep_evidence(id(1), Epoch(1), b"{\"n\":1}").await.unwrap();
    logs.keep_evidence(id(2), Epoch(1), b"{\"n\":2}").await.unwrap();
    pack_evidence(&copy, &logs.clone().into()).unwrap();
    let elsewhere = logs_in(&database, "elsewhere");
    elsewhere.keep_evidence(id(2), Epoch(1), b"{\"n\":3}").await.unwrap();

    let unpacked = unpack_evidence(&copy, &elsewhere.clone().into()).unwrap();
    let between = kept(&elsewhere, 1).await;
    unpacked.remove_imported();

    assert_eq!(between.as_deref(), Some("{\"n\":1}"));
    assert_eq!((kept(&elsewhere, 1).await, kept(&elsewhere, 2).await.as_deref()), (None, Some("{\"n\":3}")));
}

// [§12]
#[tokio::test]
async fn a_damaged_document_fails_the_whole_import() {
    let database = Database::new();
    let (copy, logs) = with_logs(&database).await;
    logs.keep_evidence(id(1), Epoch(1), b"{\"n\":1}").await.unwrap();
    logs.keep_evidence(id(2), Epoch(1), b"{\"text\":\"to be spoilt\"}").await.unwrap();
    pack_evidence(&copy, &logs.clone().into()).unwrap();
    let mut bytes = fs::read(&copy).unwrap();
    let at = bytes.windows(12).position(|window| window == b"to be spoilt").unwrap();
    bytes[at..at + 12].fill(0xff);
    fs::write(&copy, bytes).unwrap();
    let elsewhere = logs_in(&database, "elsewhere");

    let refused = unpack_evidence(&copy, &elsewhere.clone().into());

    assert!(matches!(refused, Err(BackupError::Damaged { .. })), "{refused:?}");
    assert_eq!((kept(&elsewhere, 1).await, kept(&elsewhere, 2).await), (None, None));
}

// [§12] [J8]
#[tokio::test]
async fn evidence_in_objects_is_packed_and_restored_without_replacing_any() {
    let database = Database::new();
    let (copy, earlier) = with_logs(&database).await;
    let objects = |name: &str| ObjectLogs::in_directory(database.path().with_file_name(name), 1_000);
    earlier.keep_evidence(id(1), Epoch(1), b"{\"n\":1}").await.unwrap();
    let logs = RunLogs::as_objects(objects("objects"), earlier);
    logs.append(id(2), Epoch(1), 0, b"it is no evidence").await.unwrap();
    logs.keep_evidence(id(2), Epoch(1), b"{\"n\":2}").await.unwrap();
    logs.keep_evidence(id(2), Epoch(2), b"{\"n\":3}").await.unwrap();
    let elsewhere = RunLogs::as_objects(objects("elsewhere"), logs_in(&database, "none"));
    elsewhere.keep_evidence(id(2), Epoch(2), b"{\"n\":4}").await.unwrap();
    let off_thread = async |work: Box<dyn FnOnce() + Send>| tokio::task::spawn_blocking(work).await.unwrap();

    let packed_into = copy.clone();
    off_thread(Box::new(move || assert_eq!(pack_evidence(&packed_into, &logs).unwrap().evidence, 3))).await;
    let (from, into) = (copy.clone(), elsewhere.clone());
    off_thread(Box::new(move || unpack_evidence(&from, &into).unwrap().remove_imported())).await;
    let taken_back = elsewhere.evidence(id(1), Epoch(1)).await.unwrap();
    let into = elsewhere.clone();
    off_thread(Box::new(move || drop(unpack_evidence(&copy, &into).unwrap()))).await;

    assert_eq!(taken_back, None);
    let found = async |n, epoch| elsewhere.evidence(id(n), Epoch(epoch)).await.unwrap();
    let text = |n: u32| Some(format!("{{\"n\":{n}}}").into_bytes());
    assert_eq!([found(1, 1).await, found(2, 1).await, found(2, 2).await], [text(1), text(2), text(4)]);
}
