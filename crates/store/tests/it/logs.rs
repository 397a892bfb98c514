//! Logs in a directory.

use std::fs;
use std::sync::Arc;

use domain::{Epoch, LogStore};
use store::DirectoryLogs;
use store::conformance::sample::id;
use tempfile::TempDir;
use tokio::task::JoinSet;

fn logs(limit: u64) -> (TempDir, DirectoryLogs) {
    let folder = tempfile::tempdir().unwrap();
    let logs = DirectoryLogs::new(folder.path().join("logs"), limit);
    (folder, logs)
}

async fn content(logs: &DirectoryLogs) -> String {
    String::from_utf8(logs.read(id(1), Epoch(1), 0, u32::MAX).await.unwrap()).unwrap()
}

// [J9]
#[tokio::test]
async fn a_repeated_chunk_is_ignored_and_a_gap_is_rejected() {
    let (_folder, logs) = logs(1000);
    let append = async |offset, chunk: &str| logs.append(id(1), Epoch(1), offset, chunk.as_bytes()).await.unwrap();

    let lengths = [
        append(0, "one ").await,
        append(0, "one ").await,
        append(9, "gap").await,
        append(2, "e two").await,
        append(7, "").await,
        append(7, " three").await,
        append(4, "two").await,
    ];

    assert_eq!(lengths, [4, 4, 4, 7, 7, 13, 13]);
    assert_eq!(content(&logs).await, "one two three");
}

#[tokio::test]
async fn a_log_is_read_in_chunks() {
    let (_folder, logs) = logs(1000);
    logs.append(id(1), Epoch(1), 0, b"0123456789").await.unwrap();

    assert_eq!(logs.read(id(1), Epoch(1), 0, 4).await.unwrap(), b"0123");
    assert_eq!(logs.read(id(1), Epoch(1), 8, 4).await.unwrap(), b"89");
    assert_eq!(logs.read(id(1), Epoch(1), 10, 4).await.unwrap(), b"");
    assert_eq!(logs.read(id(1), Epoch(1), 99, 4).await.unwrap(), b"");
    assert_eq!(logs.read(id(2), Epoch(1), 0, 4).await.unwrap(), b"");
}

#[tokio::test]
async fn the_epochs_of_a_job_are_listed_in_order() {
    let (_folder, logs) = logs(1000);
    for (epoch, chunk) in [(10, "aa"), (2, "b"), (9, "")] {
        logs.append(id(1), Epoch(epoch), 0, chunk.as_bytes()).await.unwrap();
    }
    logs.append(id(2), Epoch(1), 0, b"other").await.unwrap();

    assert_eq!(logs.logs(id(1)).await.unwrap(), [(Epoch(2), 1), (Epoch(9), 0), (Epoch(10), 2)]);
    assert_eq!(logs.logs(id(3)).await.unwrap(), []);
}

// [J9]
#[tokio::test]
async fn a_log_at_its_limit_is_truncated_once() {
    let (_folder, logs) = logs(10);
    let append = async |offset, chunk: &str| logs.append(id(1), Epoch(1), offset, chunk.as_bytes()).await.unwrap();

    let full = append(0, "0123456789").await;
    let cut = append(10, &"x".repeat(500)).await;
    let more = append(510, "more").await;
    let again = append(0, "0123456789").await;

    let expected = "0123456789\n[log truncated at its limit of 10 bytes]\n";
    assert_eq!(content(&logs).await, expected);
    assert_eq!([full, cut, more, again], [10, 510, 514, expected.len() as u64]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_chunk_sent_concurrently_is_written_once() {
    let (_folder, logs) = logs(1_000_000);
    let logs = Arc::new(logs);
    let text: String = (0..1000).map(|n| format!("line {n}\n")).collect();
    let mut writers = JoinSet::new();
    for _ in 0..8 {
        let (logs, text) = (Arc::clone(&logs), text.clone());
        writers.spawn(async move {
            let mut offset = 0;
            while offset < text.len() {
                let end = text.len().min(offset + 100);
                let length = logs.append(id(1), Epoch(1), offset as u64, &text.as_bytes()[offset..end]).await.unwrap();
                offset = usize::try_from(length).unwrap();
            }
        });
    }
    while let Some(writer) = writers.join_next().await {
        writer.unwrap();
    }

    assert_eq!(content(&logs).await, text);
}

#[cfg(unix)]
#[tokio::test]
async fn only_the_owner_can_read_a_log() {
    use std::os::unix::fs::PermissionsExt;
    let (folder, logs) = logs(1000);
    logs.append(id(0x2a), Epoch(3), 0, b"secret").await.unwrap();

    let job = folder.path().join("logs/2a").join(id(0x2a).to_string());
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!([mode(&job), mode(&job.join("3.log"))], [0o700, 0o600]);
}

// [§9]
#[tokio::test]
async fn evidence_is_stored_beside_the_log_and_replaceable() {
    let (_folder, logs) = logs(1_000);
    let (job, epoch) = (id(1), Epoch(3));
    logs.append(job, epoch, 0, b"printed\n").await.unwrap();
    assert_eq!(logs.evidence(job, epoch).await.unwrap(), None);

    logs.keep_evidence(job, epoch, b"a longer one").await.unwrap();
    logs.keep_evidence(job, epoch, b"another").await.unwrap();

    assert_eq!(logs.evidence(job, epoch).await.unwrap().as_deref(), Some(&b"another"[..]));
    assert_eq!(logs.evidence(job, Epoch(4)).await.unwrap(), None);
    assert_eq!(logs.logs(job).await.unwrap(), vec![(epoch, 8)], "it is no log");
}
