//! The files in which Claude Code keeps its conversations, by working directory.

use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use sandbox::DirFd;
use serde_json::Value;

use super::result_message::CostState;
use crate::home::is_plain;

/// A conversation of many days is some tens of megabytes; a larger file is none.
const BYTES_MAX: u64 = 512 * 1024 * 1024;

/// A cost record is a few hundred bytes for each model. A longer line is read in parts, none of which is a cost record.
const COST_LINE_BYTES_MAX: u64 = 1024 * 1024;

/// Copies a conversation to where it is looked up from `worktree`. `false` when it is not on this host, or cannot be
/// copied.
pub(super) fn carry(folder: &Path, session: &str, worktree: &Path) -> bool {
    is_plain(session) && copy(folder, session, worktree).unwrap_or(false)
}

/// An agent works in the directory, and the factory may be root: see [`DirFd`].
fn copy(folder: &Path, session: &str, worktree: &Path) -> io::Result<bool> {
    let home = key(&fs::canonicalize(worktree)?);
    let name = format!("{session}.jsonl");
    let projects = DirFd::open_named(folder)?.enter("projects")?;
    let found = |project: OsString| {
        let (file, found) = projects.enter(&project).ok()?.file(&name).ok()?;
        Some(((found.st_mtime, found.st_mtime_nsec), project, (file, found)))
    };
    // It may have been copied before: the file that was written last continues.
    let newest = projects.names()?.into_iter().filter_map(found).max_by_key(|(written_at, ..)| *written_at);
    let Some((_, project, conversation)) = newest else { return Ok(false) };
    if project != *home {
        let target = projects.make(&home)?;
        if conversation.1.st_uid != rustix::process::geteuid().as_raw() {
            target.own(conversation.1.st_uid, conversation.1.st_gid)?;
        }
        target.copy_in(&name, conversation, BYTES_MAX)?;
    }
    Ok(true)
}

/// The last cost record in a conversation's file, which `claude` 2.1.277 and newer append at exit and continue after
/// `--resume`. Older versions write none.
pub(super) fn cost_state(folder: &Path, session: &str, worktree: &Path) -> Option<CostState> {
    let home = key(&fs::canonicalize(worktree).ok()?);
    let project = DirFd::open_named(folder).and_then(|room| room.enter("projects")?.enter(&home)).ok()?;
    let (file, _) = project.file(format!("{session}.jsonl")).ok()?;
    let mut reader = BufReader::new(file.take(BYTES_MAX));
    let (mut line, mut last) = (Vec::new(), None);
    loop {
        line.clear();
        match reader.by_ref().take(COST_LINE_BYTES_MAX).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return last,
            Ok(_) => last = cost_record(&line, session).or(last),
        }
    }
}

fn cost_record(line: &[u8], session: &str) -> Option<CostState> {
    let line = String::from_utf8_lossy(line);
    if !line.contains("\"cost-state\"") {
        return None;
    }
    let record: Value = serde_json::from_str(&line).ok()?;
    let is = |field: &str, value: &str| record.get(field).and_then(Value::as_str) == Some(value);
    (is("type", "cost-state") && is("sessionId", session)).then(|| CostState::read(&record))
}

/// The encoding of a working directory in the name of its conversations' directory.
pub(super) fn key(folder: &Path) -> String {
    folder.to_string_lossy().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_follows_its_job_to_another_worktree() {
        let room = tempfile::tempdir().unwrap();
        let tree = tempfile::tempdir().unwrap();
        let old = room.path().join("projects/-w-old");
        fs::create_dir_all(&old).unwrap();
        fs::write(old.join("s-1.jsonl"), "first words").unwrap();

        assert!(carry(room.path(), "s-1", tree.path()));

        let carried = room.path().join("projects").join(key(&fs::canonicalize(tree.path()).unwrap())).join("s-1.jsonl");
        assert_eq!(fs::read_to_string(carried).unwrap(), "first words");
        assert!(carry(room.path(), "s-1", tree.path()), "doing it twice is doing it once");
    }

    #[test]
    fn a_conversation_that_is_not_here_or_has_a_hostile_name_is_not_carried() {
        let room = tempfile::tempdir().unwrap();
        fs::write(room.path().join("x.jsonl"), "").unwrap();

        for session in ["s-2", "../x", "/etc/passwd", ""] {
            assert!(!carry(room.path(), session, room.path()), "{session:?}");
        }
    }

    // [T8] [attack: a prompt-injected agent steals secrets]
    #[test]
    fn no_link_that_an_agent_left_leads_a_conversation_in_or_out() {
        let (outside, tree) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir(outside.path().join("old")).unwrap();
        fs::write(outside.path().join("old/s-1.jsonl"), "canary").unwrap();
        let home = key(&fs::canonicalize(tree.path()).unwrap());
        let secret = outside.path().join("old/s-1.jsonl");
        let link = |from: &Path, to: &Path| std::os::unix::fs::symlink(from, to).unwrap();
        let plant: [&dyn Fn(&Path); 4] = [
            &|room| link(outside.path(), &room.join("projects")),
            &|room| {
                fs::create_dir(room.join("projects")).unwrap();
                link(&outside.path().join("old"), &room.join("projects/old"));
            },
            &|room| {
                fs::create_dir_all(room.join("projects/old")).unwrap();
                link(&secret, &room.join("projects/old/s-1.jsonl"));
            },
            &|room| {
                fs::create_dir_all(room.join("projects/old")).unwrap();
                fs::hard_link(&secret, room.join("projects/old/s-1.jsonl")).unwrap();
            },
        ];

        for (number, plant) in plant.iter().enumerate() {
            let room = tempfile::tempdir().unwrap();
            plant(room.path());

            assert!(!carry(room.path(), "s-1", tree.path()), "{number}");
            assert!(
                !outside.path().join(&home).exists() && !room.path().join("projects").join(&home).exists(),
                "{number}"
            );
        }
    }

    // [T8]
    #[test]
    fn a_link_in_the_place_of_a_carried_conversation_is_replaced_and_not_written_through() {
        let (room, outside, tree) =
            (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let home = room.path().join("projects").join(key(&fs::canonicalize(tree.path()).unwrap()));
        fs::create_dir_all(room.path().join("projects/old")).unwrap();
        fs::create_dir_all(&home).unwrap();
        fs::write(room.path().join("projects/old/s-1.jsonl"), "words").unwrap();
        fs::write(outside.path().join("precious"), "canary").unwrap();
        for name in ["s-1.jsonl", ".s-1.jsonl.unfinished"] {
            std::os::unix::fs::symlink(outside.path().join("precious"), home.join(name)).unwrap();
        }

        assert!(carry(room.path(), "s-1", tree.path()));

        assert_eq!(fs::read_to_string(home.join("s-1.jsonl")).unwrap(), "words");
        assert_eq!(fs::read_to_string(outside.path().join("precious")).unwrap(), "canary");
    }

    #[test]
    fn the_last_cost_record_of_a_session_is_found_between_other_lines() {
        let (room, tree) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let home = room.path().join("projects").join(key(&fs::canonicalize(tree.path()).unwrap()));
        fs::create_dir_all(&home).unwrap();
        let record = |session: &str, usd: f64, input: u64| {
            format!(
                "{{\"type\":\"cost-state\",\"sessionId\":\"{session}\",\"totalCostUSD\":{usd},\"modelUsage\":{{\
                 \"m\":{{\"inputTokens\":{input},\"outputTokens\":7}}}}}}\n"
            )
        };
        let quoted = "{\"type\":\"user\",\"message\":\"{\\\"type\\\":\\\"cost-state\\\"}\"}\n".to_owned();
        let huge = format!("{}\n", "x".repeat(3 << 20));
        let lines = [record("s-1", 0.5, 100), huge, record("s-1", 0.75, 150), quoted, record("s-2", 9.0, 900)];
        fs::write(home.join("s-1.jsonl"), lines.concat()).unwrap();
        fs::write(home.join("s-3.jsonl"), "{\"type\":\"user\"}\n").unwrap();

        let tokens = crate::Tokens { input: 150, cached: 0, output: 7 };
        assert_eq!(cost_state(room.path(), "s-1", tree.path()), Some(CostState { usd: 0.75, tokens }));
        assert_eq!(cost_state(room.path(), "s-3", tree.path()), None);
        assert_eq!(cost_state(room.path(), "s-4", tree.path()), None);
    }

    #[test]
    fn a_folders_key_is_the_one_that_claude_uses() {
        assert_eq!(key(Path::new("/srv/giga_1/work.trees/a-e3")), "-srv-giga-1-work-trees-a-e3");
    }
}
