//! The files in which Claude Code keeps its conversations, by the folder that it worked in.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use crate::disk::make_private_folder;
use crate::engine::room::{files_below, is_plain};

/// Puts a conversation to where it is looked for from `worktree`. `false` when it is not on this host, or cannot be put.
pub(super) fn carry(folder: &Path, session: &str, worktree: &Path) -> bool {
    if !is_plain(session) {
        return false;
    }
    let projects = folder.join("projects");
    let name = format!("{session}.jsonl");
    let is_it = |file: &std::path::PathBuf| file.file_name().is_some_and(|found| found == name.as_str());
    // It was carried before, perhaps: the one that was written last goes on.
    let newest = files_below(&projects, 1).into_iter().filter(is_it).max_by_key(|file| written_at(file));
    let (Some(newest), Ok(worktree)) = (newest, fs::canonicalize(worktree)) else { return false };
    let home = projects.join(key(&worktree));
    let target = home.join(&name);
    newest == target || (make_private_folder(&home).is_ok() && fs::copy(&newest, &target).is_ok())
}

/// How a working folder is written in the name of its conversations' folder.
fn key(folder: &Path) -> String {
    folder.to_string_lossy().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

fn written_at(file: &Path) -> Option<SystemTime> {
    fs::metadata(file).ok()?.modified().ok()
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

    #[test]
    fn a_folders_key_is_the_one_that_claude_uses() {
        assert_eq!(key(Path::new("/srv/giga_1/work.trees/a-e3")), "-srv-giga-1-work-trees-a-e3");
    }
}
