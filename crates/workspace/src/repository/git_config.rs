//! Reads a git configuration file. Includes are not followed, no command is run.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The largest file. A configuration has a few dozen lines.
const BYTES_MAX: u64 = 1024 * 1024;

/// The settings of one file, in their order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct GitConfigFile {
    settings: Vec<Setting>,
}

#[derive(Debug, PartialEq, Eq)]
struct Setting {
    section: String,
    subsection: Option<String>,
    key: String,
    value: String,
}

impl GitConfigFile {
    /// The file at `path`; without settings if it cannot be read.
    pub(super) fn read(path: &Path) -> Self {
        let is_small = fs::metadata(path).is_ok_and(|found| found.len() <= BYTES_MAX);
        let text = is_small.then(|| fs::read_to_string(path).unwrap_or_default());
        Self::parse(&text.unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        // A line that ends in a backslash continues in the next one.
        let text = text.replace("\\\r\n", "").replace("\\\n", "");
        let (mut settings, mut section) = (Vec::new(), (String::new(), None));
        for line in text.lines().map(str::trim) {
            if let Some(header) =
                line.strip_prefix('[').and_then(|rest| rest.rsplit_once(']')).map(|(header, _)| header)
            {
                section = match header.split_once('"') {
                    Some((name, rest)) => {
                        let name_of_it =
                            rest.trim_end().trim_end_matches('"').replace("\\\"", "\"").replace("\\\\", "\\");
                        (name.trim().to_ascii_lowercase(), Some(name_of_it))
                    }
                    None => match header.split_once('.') {
                        Some((name, below)) => (name.to_ascii_lowercase(), Some(below.to_ascii_lowercase())),
                        None => (header.trim().to_ascii_lowercase(), None),
                    },
                };
                continue;
            }
            let (key, value) = line.split_once('=').unwrap_or((line, "true"));
            let key = key.trim().to_ascii_lowercase();
            if !key.is_empty() && !key.starts_with(['#', ';']) {
                let (section, subsection) = section.clone();
                settings.push(Setting { section, subsection, key, value: unquoted(value) });
            }
        }
        Self { settings }
    }

    /// The last value of a key, which counts.
    pub(super) fn value(&self, section: &str, subsection: Option<&str>, key: &str) -> Option<&str> {
        let is_it = |setting: &&Setting| {
            setting.section == section && setting.subsection.as_deref() == subsection && setting.key == key
        };
        self.settings.iter().rev().find(is_it).map(|setting| setting.value.as_str())
    }

    /// The remotes with the fetch URL of each, which is the first of several.
    pub(super) fn remotes(&self) -> BTreeMap<String, String> {
        let mut remotes = BTreeMap::new();
        for setting in self.settings.iter().filter(|setting| setting.section == "remote" && setting.key == "url") {
            if let Some(name) = setting.subsection.as_ref().filter(|_| !setting.value.is_empty()) {
                remotes.entry(name.clone()).or_insert_with(|| setting.value.clone());
            }
        }
        remotes
    }
}

/// A value without quotes, escapes and the comment behind it.
fn unquoted(text: &str) -> String {
    let (mut value, mut is_quoted) = (String::new(), false);
    let mut chars = text.trim().chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => is_quoted = !is_quoted,
            '\\' => value.extend(chars.next()),
            '#' | ';' if !is_quoted => break,
            other => value.push(other),
        }
    }
    value.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_as_git_reads_it() {
        let file = GitConfigFile::parse(
            "# comment\n[core]\n\tbare = true\n\tBare = false ; not any more\n\
             [remote \"origin\"]\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n\tURL = \"https://forge.example/a#b\"\n\
             \turl = https://second.example/\n[remote.old]\nurl=git@forge.example:\\\nacme/notes.git\n[remote \"none\"]\n",
        );

        assert_eq!(file.value("core", None, "bare"), Some("false"));
        assert_eq!(file.value("core", None, "worktree"), None);
        let remotes: Vec<(String, String)> = file.remotes().into_iter().collect();
        let expected = [("old", "git@forge.example:acme/notes.git"), ("origin", "https://forge.example/a#b")];
        assert_eq!(remotes, expected.map(|(name, url)| (name.to_owned(), url.to_owned())));
    }

    #[test]
    fn a_file_that_is_not_there_has_no_settings() {
        assert_eq!(GitConfigFile::read(Path::new("/nowhere/config")), GitConfigFile::default());
    }
}
