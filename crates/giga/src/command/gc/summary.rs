//! The summary of a clean-up, by kind and reason: hundreds of refs that stay for one reason are one line.

use workspace::{GcItem, GcKind};

use crate::output::{clean, size};

/// The first names of a group that are shown. One more is shown rather than counted.
const NAMES_SHOWN: usize = 3;

/// Things of one kind that went, or stay, for one reason.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Group<'r> {
    kind: GcKind,
    why: &'r str,
    bytes: u64,
    names: Vec<&'r str>,
}

/// Things by kind and reason, the most numerous of a kind first.
pub(super) fn groups(items: &[GcItem]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for item in items {
        let known = groups.iter_mut().find(|group| (group.kind, group.why) == (item.kind, item.why.as_str()));
        match known {
            Some(group) => {
                group.bytes += item.bytes;
                group.names.push(&item.name);
            }
            None => {
                groups.push(Group { kind: item.kind, why: &item.why, bytes: item.bytes, names: vec![&item.name] });
            }
        }
    }
    groups.sort_by_key(|group| (group.kind, std::cmp::Reverse(group.names.len())));
    groups
}

impl Group<'_> {
    /// How many of what, how large, and why.
    pub(super) fn heading(&self) -> String {
        let things = match (self.kind, self.names.len()) {
            (kind, 1) => format!("1 {}", kind.name()),
            (kind, count) => format!("{count} {}s", kind.name()),
        };
        let bytes = if self.bytes == 0 { String::new() } else { format!(", {}", size(self.bytes)) };
        format!("{things}{bytes}: {}", clean(self.why))
    }

    /// The first names, and how many are left out.
    pub(super) fn names(&self) -> Vec<String> {
        let shown = if self.is_cut() { NAMES_SHOWN } else { self.names.len() };
        let mut names: Vec<String> = self.names.iter().take(shown).map(|name| clean(name)).collect();
        if self.is_cut() {
            names.push(format!("and {} more", self.names.len() - shown));
        }
        names
    }

    /// Whether names are left out.
    pub(super) fn is_cut(&self) -> bool {
        self.names.len() > NAMES_SHOWN + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(kind: GcKind, name: &str, bytes: u64, why: &str) -> GcItem {
        GcItem { kind, name: name.to_owned(), bytes, why: why.to_owned() }
    }

    // [F7]
    #[test]
    fn what_has_one_reason_is_said_once_with_its_first_names() {
        let mut items: Vec<GcItem> =
            (1..=5).map(|n| item(GcKind::Ref, &format!("notes aq/run/{n}"), 0, "its job is queued")).collect();
        items.insert(2, item(GcKind::Ref, "notes aq/job/9", 0, "it shows a commit that was not merged"));
        items.push(item(GcKind::Worktree, "1-e1", 1 << 20, "its run goes on"));
        items.push(item(GcKind::Worktree, "2-e1", 1 << 19, "its run goes on"));

        let said: Vec<(String, Vec<String>)> =
            groups(&items).iter().map(|group| (group.heading(), group.names())).collect();

        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let expected = [
            ("2 worktrees, 1.5 MiB: its run goes on".to_owned(), names(&["1-e1", "2-e1"])),
            (
                "5 refs: its job is queued".to_owned(),
                names(&["notes aq/run/1", "notes aq/run/2", "notes aq/run/3", "and 2 more"]),
            ),
            ("1 ref: it shows a commit that was not merged".to_owned(), names(&["notes aq/job/9"])),
        ];
        assert_eq!(said, expected);
    }

    #[test]
    fn nobody_is_told_of_one_more_that_could_have_been_shown() {
        let items: Vec<GcItem> = (1..=4).map(|n| item(GcKind::File, &n.to_string(), 0, "a crash left it")).collect();

        assert_eq!(groups(&items)[0].names(), ["1", "2", "3", "4"]);
    }
}
