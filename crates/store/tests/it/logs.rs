//! Logs in a directory, and as objects: one suite for both.

use std::fs;
use std::sync::Arc;

use domain::{Epoch, LogStore};
use store::conformance::sample::id;
use store::{DirectoryLogs, ObjectLogs, RunLogs};
use tempfile::TempDir;
use tokio::task::JoinSet;

/// One of the two kinds of logs.
struct Kind {
    name: &'static str,
    logs: Arc<dyn LogStore>,
    _folder: TempDir,
}

fn each_kind(limit: u64) -> Vec<Kind> {
    let kind = |name, make: &dyn Fn(&TempDir) -> Arc<dyn LogStore>| {
        let folder = tempfile::tempdir().unwrap();
        Kind { name, logs: make(&folder), _folder: folder }
    };
    vec![
        kind("files", &|folder| Arc::new(DirectoryLogs::new(folder.path().join("logs"), limit))),
        kind("objects", &|folder| Arc::new(ObjectLogs::in_directory(folder.path().join("artifacts"), limit))),
    ]
}

async fn content(logs: &dyn LogStore) -> String {
    String::from_utf8(logs.read(id(1), Epoch(1), 0, u32::MAX).await.unwrap()).unwrap()
}

// [J9]
#[tokio::test]
async fn a_repeated_chunk_is_ignored_and_a_gap_is_rejected() {
    for Kind { name, logs, _folder } in each_kind(1000) {
        let append = async |offset, chunk: &str| logs.append(id(1), Epoch(1), offset, chunk.as_bytes()).await.unwrap();

        let lengths = [
            append(3, "gap").await,
            append(0, "one ").await,
            append(0, "one ").await,
            append(9, "gap").await,
            append(2, "e two").await,
            append(7, "").await,
            append(7, " three").await,
            append(4, "two").await,
        ];

        assert_eq!(lengths, [0, 4, 4, 4, 7, 7, 13, 13], "{name}");
        assert_eq!(content(&*logs).await, "one two three", "{name}");
    }
}

#[tokio::test]
async fn a_log_is_read_in_chunks() {
    for Kind { name, logs, _folder } in each_kind(1000) {
        logs.append(id(1), Epoch(1), 0, b"01234").await.unwrap();
        logs.append(id(1), Epoch(1), 5, b"56789").await.unwrap();

        assert_eq!(logs.read(id(1), Epoch(1), 0, 4).await.unwrap(), b"0123", "{name}");
        assert_eq!(logs.read(id(1), Epoch(1), 3, 4).await.unwrap(), b"3456", "{name}");
        assert_eq!(logs.read(id(1), Epoch(1), 8, 4).await.unwrap(), b"89", "{name}");
        assert_eq!(logs.read(id(1), Epoch(1), 10, 4).await.unwrap(), b"", "{name}");
        assert_eq!(logs.read(id(1), Epoch(1), 99, 4).await.unwrap(), b"", "{name}");
        assert_eq!(logs.read(id(2), Epoch(1), 0, 4).await.unwrap(), b"", "{name}");
    }
}

#[tokio::test]
async fn the_epochs_of_a_job_are_listed_in_order() {
    for Kind { name, logs, _folder } in each_kind(1000) {
        for (epoch, chunk) in [(10, "aa"), (2, "b"), (9, "")] {
            logs.append(id(1), Epoch(epoch), 0, chunk.as_bytes()).await.unwrap();
        }
        logs.append(id(2), Epoch(1), 0, b"other").await.unwrap();

        assert_eq!(logs.logs(id(1)).await.unwrap(), [(Epoch(2), 1), (Epoch(9), 0), (Epoch(10), 2)], "{name}");
        assert_eq!(logs.logs(id(3)).await.unwrap(), [], "{name}");
    }
}

// [J9]
#[tokio::test]
async fn a_log_at_its_limit_is_truncated_once() {
    for Kind { name, logs, _folder } in each_kind(10) {
        let append = async |offset, chunk: &str| logs.append(id(1), Epoch(1), offset, chunk.as_bytes()).await.unwrap();

        let full = append(0, "0123456789").await;
        let cut = append(10, &"x".repeat(500)).await;
        let more = append(510, "more").await;
        let again = append(0, "0123456789").await;

        let expected = "0123456789\n[log truncated at its limit of 10 bytes]\n";
        assert_eq!(content(&*logs).await, expected, "{name}");
        assert_eq!([full, cut, more, again], [10, 510, 514, expected.len() as u64], "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_chunk_sent_concurrently_is_written_once() {
    let text: String = (0..1000).map(|n| format!("line {n}\n")).collect();
    for Kind { name, logs, _folder } in each_kind(1_000_000) {
        let mut writers = JoinSet::new();
        for _ in 0..8 {
            let (logs, text) = (Arc::clone(&logs), text.clone());
            writers.spawn(async move {
                let mut offset = 0;
                while offset < text.len() {
                    let chunk = &text.as_bytes()[offset..text.len().min(offset + 100)];
                    let length = logs.append(id(1), Epoch(1), offset as u64, chunk).await.unwrap();
                    offset = usize::try_from(length).unwrap();
                }
            });
        }
        while let Some(writer) = writers.join_next().await {
            writer.unwrap();
        }

        assert_eq!(content(&*logs).await, text, "{name}");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn only_the_owner_can_read_a_log() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let job = id(0x2a).to_string();

    let logs = DirectoryLogs::new(folder.path().join("logs"), 1000);
    logs.append(id(0x2a), Epoch(3), 0, b"secret").await.unwrap();
    let objects = ObjectLogs::in_directory(folder.path(), 1000);
    objects.append(id(0x2a), Epoch(3), 0, b"secret").await.unwrap();
    objects.keep_evidence(id(0x2a), Epoch(3), b"{}").await.unwrap();

    let job_dir = folder.path().join("logs/2a").join(&job);
    let evidence = folder.path().join("evidence/2a").join(&job);
    assert_eq!([mode(&job_dir), mode(&job_dir.join("3.log"))], [0o700, 0o600]);
    assert_eq!([mode(&job_dir.join("3")), mode(&job_dir.join("3/000000000000-000000000006.log"))], [0o700, 0o600]);
    assert_eq!([mode(&evidence), mode(&evidence.join("3.json"))], [0o700, 0o600]);
}

// [§9]
#[tokio::test]
async fn evidence_is_stored_beside_the_log_and_replaceable() {
    for Kind { name, logs, _folder } in each_kind(1_000) {
        let (job, epoch) = (id(1), Epoch(3));
        logs.append(job, epoch, 0, b"printed\n").await.unwrap();
        assert_eq!(logs.evidence(job, epoch).await.unwrap(), None, "{name}");

        logs.keep_evidence(job, epoch, b"a longer one").await.unwrap();
        logs.keep_evidence(job, epoch, b"another").await.unwrap();

        assert_eq!(logs.evidence(job, epoch).await.unwrap().as_deref(), Some(&b"another"[..]), "{name}");
        assert_eq!(logs.evidence(job, Epoch(4)).await.unwrap(), None, "{name}");
        assert_eq!(logs.logs(job).await.unwrap(), vec![(epoch, 8)], "{name}: it is no log");
    }
}

/// The numbers from one to another, a line each, appended one by one.
async fn append_lines(logs: &ObjectLogs, text: &mut String, lines: std::ops::Range<u32>) {
    for n in lines {
        let line = format!("line {n}\n");
        let length = logs.append(id(1), Epoch(1), text.len() as u64, line.as_bytes()).await.unwrap();
        text.push_str(&line);
        assert_eq!(length, text.len() as u64);
    }
}

// [J9] [D3]
#[tokio::test]
async fn a_log_continues_where_another_coordinator_left_it() {
    let folder = tempfile::tempdir().unwrap();
    let [former, next] = [0; 2].map(|_| ObjectLogs::in_directory(folder.path(), 1 << 20));
    let mut text = String::new();
    append_lines(&former, &mut text, 0..100).await;
    let seen_by_former = text.clone();

    append_lines(&next, &mut text, 100..200).await;
    // The former one does not know that it was replaced: the same bytes come again, in another chunk.
    let late = &text.as_bytes()[seen_by_former.len()..seen_by_former.len() + 30];
    former.append(id(1), Epoch(1), seen_by_former.len() as u64, late).await.unwrap();
    next.keep_evidence(id(1), Epoch(1), b"{}").await.unwrap();

    let third = ObjectLogs::in_directory(folder.path(), 1 << 20);
    assert_eq!(content(&next).await, text);
    assert_eq!(content(&third).await, text);
    assert_eq!(third.logs(id(1)).await.unwrap(), [(Epoch(1), text.len() as u64)]);
    assert_eq!(third.evidence(id(1), Epoch(1)).await.unwrap().as_deref(), Some(&b"{}"[..]));
}

// [J9]
#[tokio::test]
async fn a_log_of_many_small_chunks_is_few_objects_and_readers_follow_the_merges() {
    let folder = tempfile::tempdir().unwrap();
    let (logs, reader) = (ObjectLogs::in_directory(folder.path(), 8 << 20), ObjectLogs::in_directory(folder.path(), 0));
    let mut text = String::new();
    append_lines(&logs, &mut text, 0..10).await;
    assert_eq!(content(&reader).await, text, "its segments are known to the reader");
    let early = text.clone();

    append_lines(&logs, &mut text, 10..500).await;
    for n in 0..100_u32 {
        let chunk = format!("{n:09}\n").repeat(6_000);
        logs.append(id(1), Epoch(1), text.len() as u64, chunk.as_bytes()).await.unwrap();
        text.push_str(&chunk);
    }

    let directory = folder.path().join("logs/01").join(id(1).to_string()).join("1");
    let objects = fs::read_dir(directory).unwrap().count();
    assert!(objects <= 64 + 8, "{objects} objects of {} bytes", text.len());
    assert!(content(&logs).await == text);
    let again = reader.read(id(1), Epoch(1), 0, u32::try_from(early.len()).unwrap()).await.unwrap();
    assert_eq!(String::from_utf8(again).unwrap(), early);
}

// [J9]
#[tokio::test]
async fn logs_from_before_objects_stay_readable() {
    let folder = tempfile::tempdir().unwrap();
    let earlier = DirectoryLogs::new(folder.path().join("logs"), 1_000);
    earlier.append(id(1), Epoch(1), 0, b"first run").await.unwrap();
    earlier.append(id(1), Epoch(2), 0, b"second run, before").await.unwrap();
    earlier.keep_evidence(id(1), Epoch(1), b"{\"n\":1}").await.unwrap();

    let logs = RunLogs::as_objects(ObjectLogs::in_directory(folder.path().join("shared"), 1_000), earlier.clone());
    logs.append(id(1), Epoch(2), 0, b"second").await.unwrap();
    logs.append(id(1), Epoch(3), 0, b"third run").await.unwrap();
    logs.keep_evidence(id(1), Epoch(3), b"{\"n\":3}").await.unwrap();

    let read = async |epoch| String::from_utf8(logs.read(id(1), Epoch(epoch), 0, 100).await.unwrap()).unwrap();
    assert_eq!([read(1).await, read(2).await, read(3).await], ["first run", "second", "third run"]);
    assert_eq!(logs.logs(id(1)).await.unwrap(), [(Epoch(1), 9), (Epoch(2), 6), (Epoch(3), 9)]);
    assert_eq!(logs.evidence(id(1), Epoch(1)).await.unwrap().as_deref(), Some(&b"{\"n\":1}"[..]));
    assert_eq!(logs.evidence(id(1), Epoch(3)).await.unwrap().as_deref(), Some(&b"{\"n\":3}"[..]));
    assert_eq!(earlier.logs(id(1)).await.unwrap(), [(Epoch(1), 9), (Epoch(2), 18)], "nothing is written there");
}
