//! Where a file is, and who moved it there.

use super::folder::Folder;
use super::queue::Names;
use super::records::Record;

/// Where a file is compared with where we put it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileLocation {
    /// Where we put it.
    Here,
    /// Where we were about to move it to: we did, and had no time to write it down.
    Arrived(Folder),
    /// Where the user moved it.
    Elsewhere(Folder),
    /// Nowhere.
    Gone,
}

/// Folders in the order in which the user is likely to have meant them.
const MEANT: [Folder; 6] =
    [Folder::Inbox, Folder::Shipped, Folder::Failed, Folder::Testing, Folder::Review, Folder::Building];

/// Finds the file of a record.
pub(super) fn locate(record: &Record, names: &Names) -> FileLocation {
    let old = record.was.as_ref().unwrap_or(&record.name);
    if names.has(record.folder, old) {
        return FileLocation::Here;
    }
    if let Some(to) = record.moving_to
        && names.has(to, &record.name)
    {
        return FileLocation::Arrived(to);
    }
    let found = MEANT.into_iter().find(|folder| names.has(*folder, &record.name));
    found.map_or(FileLocation::Gone, FileLocation::Elsewhere)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(json: &str) -> Record {
        let fixed = r#""v":1,"job":"0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6a","key":"a.md","name":"a.md","isSubmitted":true,
            "sha256":"","stamp":{"inode":1,"len":1,"modifiedS":1,"modifiedNs":1}"#;
        serde_json::from_str(&format!("{{{fixed},{json}}}")).unwrap()
    }

    fn at(places: &[(Folder, &str)]) -> Names {
        let mut names = Names::default();
        places.iter().for_each(|(folder, name)| names.add(*folder, name));
        names
    }

    #[test]
    fn our_own_move_is_told_from_a_persons() {
        let resting = record(r#""folder":"failed""#);
        let moving = record(r#""folder":"building","movingTo":"failed""#);

        let in_inbox = at(&[(Folder::Inbox, "a.md")]);
        let in_failed = at(&[(Folder::Failed, "a.md")]);

        assert_eq!(locate(&resting, &in_failed), FileLocation::Here);
        assert_eq!(locate(&resting, &in_inbox), FileLocation::Elsewhere(Folder::Inbox));
        assert_eq!(locate(&moving, &in_failed), FileLocation::Arrived(Folder::Failed));
        assert_eq!(locate(&moving, &at(&[])), FileLocation::Gone);
    }

    #[test]
    fn a_move_that_gives_another_name_is_found_under_either() {
        let moving = record(r#""folder":"building","movingTo":"failed","was":"b.md""#);

        let before = at(&[(Folder::Building, "b.md"), (Folder::Failed, "b.md")]);
        let after = at(&[(Folder::Failed, "a.md"), (Folder::Failed, "b.md")]);

        assert_eq!(locate(&moving, &before), FileLocation::Here);
        assert_eq!(locate(&moving, &after), FileLocation::Arrived(Folder::Failed));
    }

    #[test]
    fn a_copy_somewhere_else_moves_nothing() {
        let resting = record(r#""folder":"failed""#);

        let both = at(&[(Folder::Inbox, "a.md"), (Folder::Failed, "a.md")]);

        assert_eq!(locate(&resting, &both), FileLocation::Here);
    }
}
