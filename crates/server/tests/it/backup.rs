//! Backups over HTTP, and what clients of the former store get from a restored one.

use std::path::Path;

use bytes::Bytes;
use clock::SystemClock;
use domain::{Backup, BackupSummary, Clock, Generation};
use http::StatusCode;
use protocol::{RestoreSummary, SseEvent};
use server::{Limits, Options};

use crate::fleet::{Fleet, code, soon};
use crate::raw::{Asking, Connection, ask};

const STREAM: &str = "/events/stream";

async fn backup_of(fleet: &Fleet, folder: &Path) -> (BackupSummary, Vec<u8>) {
    let mut connection = Connection::open(fleet.address).await;
    let response = connection.head(Asking::get("/api/fleet/backup").token(&fleet.admin_token)).await;
    let summary = serde_json::from_slice(response.headers()[protocol::SUMMARY_HEADER].as_bytes()).unwrap();
    let body = soon(http_body_util::BodyExt::collect(response.into_body())).await.unwrap().to_bytes();
    std::fs::write(folder.join("taken"), &body).unwrap();
    (summary, body.to_vec())
}

/// Another fleet, restored from a backup of this one.
pub(crate) async fn restored(fleet: &Fleet) -> Fleet {
    let folder = tempfile::tempdir().unwrap();
    let (backup, now) = (folder.path().join("backup"), SystemClock::new().now());
    fleet.store.back_up(&backup, now).await.unwrap();
    store::restore_closed(&backup, &folder.path().join("fleet.db"), now).unwrap();
    Fleet::on(folder, Options::default()).await
}

// [§10]
#[tokio::test]
async fn a_backup_is_one_valid_file_and_leaves_nothing_behind() {
    let fleet = Fleet::start().await;
    fleet.submit("# One\n").await;
    fleet.submit("# Two\n").await;
    let folder = tempfile::tempdir().unwrap();

    let (summary, body) = backup_of(&fleet, folder.path()).await;

    let inspected = store::inspect_backup(&folder.path().join("taken")).unwrap();
    assert_eq!((inspected.jobs, inspected.events, inspected.bytes), (2, 2, body.len() as u64));
    assert_eq!(summary, inspected);
    assert_eq!(fleet.files(), ["fleet.db", "fleet.db-shm", "fleet.db-wal", "fleet.db.lock", "fleet.db.record"]);
}

#[tokio::test]
async fn a_backup_whose_client_disconnects_completes_and_cleans_up() {
    // With one connection at a time, an admitted client knows that the server has seen the former one disconnect.
    let fleet = Fleet::limited(Limits { connections_max: 1, ..Limits::default() }).await;
    let asking = || Asking::get("/api/fleet/backup").token(&fleet.admin_token);
    let gate = fleet.shelf.gate.lock().await;

    let mut impatient = Connection::open(fleet.address).await;
    let is_begun = async {
        while fleet.shelf.turn.try_lock().is_ok() {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        answer = impatient.head(asking()) => panic!("{answer:?}"),
        () = soon(is_begun) => {}
    }
    drop(impatient);
    let meanwhile = soon(ask(fleet.address, asking())).await;
    drop(gate);
    drop(soon(fleet.shelf.turn.lock()).await);
    let later = soon(ask(fleet.address, asking())).await;

    assert_eq!(meanwhile.code(), "busy");
    assert_eq!(later.status, StatusCode::OK, "{later:?}");
    assert_eq!(fleet.files(), ["fleet.db", "fleet.db-shm", "fleet.db-wal", "fleet.db.lock", "fleet.db.record"]);
}

// [§12] [attack: slow or greedy clients]
#[tokio::test]
async fn a_restore_is_confirmed_validated_and_limited() {
    let fleet = Fleet::limited(Limits { restore_len_max: 4 * 1024 * 1024, ..Limits::default() }).await;
    let folder = tempfile::tempdir().unwrap();
    let (summary, body) = backup_of(&fleet, folder.path()).await;
    let put = async |path: &str, body: Vec<u8>| fleet.admin.post_bytes::<RestoreSummary>(path, Bytes::from(body)).await;

    assert_eq!(code(put("/restore", body.clone()).await), "unconfirmed");
    assert_eq!(code(put("/restore?replace=everything", b"a text file".repeat(99)).await), "bad_backup");
    assert_eq!(code(put("/restore?replace=everything", vec![0; 5 * 1024 * 1024]).await), "body_too_large");
    assert!(!fleet.files().contains(&"fleet.db.restoring".to_owned()));
    let restored = put("/restore?replace=everything", body).await.unwrap();

    assert_eq!(restored.backup, summary);
    assert!(restored.generation > Generation(0));
    assert!(restored.notice.contains("including tokens"), "{}", restored.notice);
    assert!(fleet.files().contains(&"fleet.db.restoring".to_owned()));
}

// [J7]
#[tokio::test]
async fn row_28_a_stream_from_before_the_restore_is_reset() {
    let lost = Fleet::start().await;
    lost.submit("# One\n").await;
    lost.submit("# Two\n").await;
    let mut watching = lost.admin.events(&format!("{STREAM}?after=0"), None).await.unwrap();
    let mut last = String::new();
    while last != "2" {
        last = soon(watching.next()).await.unwrap().unwrap().id.unwrap_or_default();
    }
    let fleet = restored(&lost).await;
    let generation = fleet.admin.get::<protocol::Health>("/healthz").await.unwrap().generation;

    let mut stream = fleet.admin.events(STREAM, Some(&last)).await.unwrap();
    let hello = soon(stream.next()).await.unwrap().unwrap();
    let reset = soon(stream.next()).await.unwrap().unwrap();
    fleet.submit("# Three\n").await;
    let goes_on = soon(stream.next()).await.unwrap().unwrap();
    let resumed = fleet.admin.events(STREAM, reset.id.as_deref()).await.unwrap();

    assert!(generation > Generation(0));
    assert_eq!(hello.event, "hello");
    let data = r#"{"reason":"restored"}"#.to_owned();
    assert_eq!(reset, SseEvent { id: Some(format!("{generation}.4")), event: "reset".to_owned(), data });
    assert_eq!((goes_on.event.as_str(), goes_on.id), ("job", Some(format!("{generation}.5"))));
    let mut resumed = resumed;
    assert_eq!(soon(resumed.next()).await.unwrap().unwrap().event, "hello");
    let replayed = soon(resumed.next()).await.unwrap().unwrap();
    assert_eq!((replayed.event.as_str(), replayed.data), ("job", goes_on.data));
}

#[tokio::test]
async fn row_28_a_page_cursor_from_before_the_restore_is_rejected() {
    let lost = Fleet::start().await;
    let job = lost.submit("# One\n").await;
    let fleet = restored(&lost).await;

    let page = fleet.admin.get::<protocol::EventList>(&format!("/jobs/{job}/events?after=1")).await;
    let first = fleet.admin.get::<protocol::EventList>(&format!("/jobs/{job}/events?limit=1")).await.unwrap();
    let next = first.next.unwrap();
    let second = fleet.admin.get::<protocol::EventList>(&format!("/jobs/{job}/events?after={next}")).await.unwrap();

    assert_eq!(code(page), "bad_cursor");
    assert_eq!((first.items.len(), second.items.len()), (1, 1));
}

#[tokio::test]
async fn row_28_an_etag_from_before_the_restore_does_not_match() {
    let lost = Fleet::start().await;
    let job = lost.submit("# One\n").await;
    let path = format!("/api/fleet/jobs/{job}");
    let kept = ask(lost.address, Asking::get(&path).token(&lost.admin_token)).await;
    let kept = kept.headers["etag"].to_str().unwrap().to_owned();
    let fleet = restored(&lost).await;

    let look = |tag: &str| Asking::get(&path).token(&fleet.admin_token).header("if-none-match", tag);
    let fresh = ask(fleet.address, look(&kept)).await;
    let same = ask(fleet.address, look(fresh.headers["etag"].to_str().unwrap())).await;

    assert_eq!((kept.as_str(), fresh.status.as_u16(), same.status.as_u16()), ("\"1\"", 200, 304));
    assert!(fresh.headers["etag"].to_str().unwrap().ends_with(".2\""), "{:?}", fresh.headers["etag"]);
}
