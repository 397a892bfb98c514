//! Globs of files to attach: `dist/*.zip`, `coverage/**`.

use crate::names::is_terminal_safe;

/// A pattern of paths below the worktree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactGlob {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    /// `**`: any number of directories.
    Any,
    /// One name, with `*` and `?`.
    Name(Vec<char>),
}

impl ArtifactGlob {
    /// Reads a pattern.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if !text.chars().all(is_terminal_safe) || text.contains('\\') {
            return Err("must have no control characters and no backslash");
        }
        if text.starts_with('/') {
            return Err("must be relative to the top of the repository, without a leading `/`");
        }
        let mut parts = Vec::new();
        for part in text.split('/') {
            match part {
                "" => return Err("has an empty part between slashes"),
                "." | ".." => return Err("must not have `.` or `..` between slashes"),
                "**" if parts.last() == Some(&Part::Any) => {}
                "**" => parts.push(Part::Any),
                name if name.contains("**") => return Err("`**` must stand alone between slashes"),
                name => parts.push(Part::Name(name.chars().collect())),
            }
        }
        Ok(Self { parts })
    }

    /// Whether a path, relative and with `/`, matches. The time is bounded by the product of both lengths.
    pub fn matches(&self, path: &str) -> bool {
        let names: Vec<&str> = path.split('/').collect();
        // matched[n]: the parts so far match the first n names.
        let mut matched = vec![false; names.len() + 1];
        matched[0] = true;
        for part in &self.parts {
            match part {
                Part::Any => {
                    for n in 1..matched.len() {
                        matched[n] |= matched[n - 1];
                    }
                }
                Part::Name(pattern) => {
                    for n in (1..matched.len()).rev() {
                        matched[n] = matched[n - 1] && is_match(pattern, names[n - 1]);
                    }
                    matched[0] = false;
                }
            }
        }
        matched[names.len()]
    }
}

fn is_match(pattern: &[char], name: &str) -> bool {
    let name: Vec<char> = name.chars().collect();
    let (mut at, mut n) = (0, 0);
    // Where the last `*` was, and how far it reached.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, n));
                at += 1;
            }
            Some(c) if *c == '?' || *c == name[n] => (at, n) = (at + 1, n + 1),
            _ => {
                let Some((place, reached)) = star else { return false };
                star = Some((place, reached + 1));
                (at, n) = (place + 1, reached + 1);
            }
        }
    }
    pattern[at..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matching<'p>(glob: &str, paths: &[&'p str]) -> Vec<&'p str> {
        let glob = ArtifactGlob::parse(glob).unwrap();
        paths.iter().copied().filter(|path| glob.matches(path)).collect()
    }

    // [J8]
    #[test]
    fn a_glob_matches_whole_paths() {
        let paths = ["a.zip", "dist/a.zip", "dist/b/c.zip", "dist/b/c/d.txt", "dist", "xdist/a.zip"];

        assert_eq!(matching("*.zip", &paths), ["a.zip"]);
        assert_eq!(matching("dist/*.zip", &paths), ["dist/a.zip"]);
        assert_eq!(matching("**/*.zip", &paths), ["a.zip", "dist/a.zip", "dist/b/c.zip", "xdist/a.zip"]);
        assert_eq!(matching("dist/**", &paths), ["dist/a.zip", "dist/b/c.zip", "dist/b/c/d.txt", "dist"]);
        assert_eq!(matching("dist/**/?.txt", &paths), ["dist/b/c/d.txt"]);
        assert_eq!(matching("dist/*/c*", &paths), ["dist/b/c.zip"]);
    }

    // [J8] [attack: artifact path traversal, bombs]
    #[test]
    fn a_glob_stays_below_the_worktree() {
        for glob in ["", "/", "/etc/*", "..", "../*", "a/../../b", "./a", "a//b", "a/", "a\\..\\b", "a**/b", "a\0"] {
            assert!(ArtifactGlob::parse(glob).is_err(), "{glob:?}");
        }
    }

    // [J8] [attack: artifact path traversal, bombs]
    #[test]
    fn a_hostile_glob_takes_no_exponential_time() {
        let glob = ArtifactGlob::parse(&format!("{}b", "*a".repeat(90))).unwrap();
        let deep = ArtifactGlob::parse(&format!("{}b", "**/a/".repeat(30))).unwrap();

        assert!(!glob.matches(&"a".repeat(4_000)));
        assert!(!deep.matches(&"a/".repeat(2_000)));
    }
}
