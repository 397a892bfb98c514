//! The files in which Claude Code keeps its conversations, by the folder that it worked in.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;

use crate::engine::room::is_plain;
use crate::folder::Folder;

/// A conversation of many days is some tens of megabytes; a file beyond this is none.
const BYTES_MAX: u64 = 512 * 1024 * 1024;

/// Puts a conversation to where it is looked for from `worktree`. `false` when it is not on this host, or cannot be put.
pub(super) fn carry(folder: &Path, session: &str, worktree: &Path) -> bool {
    is_plain(session) && copy(folder, session, worktree).unwrap_or(false)
}

/// The folder is one that an agent works in, and we may be root: see [`Folder`].
fn copy(folder: &Path, session: &str, worktree: &Path) -> io::Result<bool> {
    let home = key(&fs::canonicalize(worktree)?);
    let name = format!("{session}.jsonl");
    let projects = Folder::open_named(folder)?.enter("projects")?;
    let found = |project: OsString| {
        let (file, found) = projects.enter(&project).ok()?.file(&name).ok()?;
        Some(((found.st_mtime, found.st_mtime_nsec), project, (file, found)))
    };
    // It was carried before, perhaps: the one that was written last goes on.
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

/// How a working folder is written in the name of its conversations' folder.
fn key(folder: &Path) -> String {
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
    fn a_folders_key_is_the_one_that_claude_uses() {
        assert_eq!(key(Path::new("/srv/giga_1/work.trees/a-e3")), "-srv-giga-1-work-trees-a-e3");
    }
}
