//! Which files in the inbox are jobs, and when they are whole.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::time::Duration;

use domain::Timestamp;

use super::queue::Stamp;
use super::reports;

/// A file that nobody has written to for this long is whole: writers of prose do not pause for longer between pieces.
pub(super) const QUIET: Duration = Duration::from_secs(1);

/// What a name in the inbox says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A job.
    Manifest,
    /// Somebody's scratch file, or a report of ours.
    Ignored,
    /// Something that nobody drops here without wanting something.
    Odd(&'static str),
}

/// What a name says.
pub(super) fn kind(name: &OsStr) -> Kind {
    let Some(name) = name.to_str() else { return Kind::Odd("its name is not UTF-8: give it another") };
    let is_scratch = name.starts_with(['.', '~', '#']) || name.ends_with('~') || reports::is_report(name);
    let Some((stem, ending)) = name.rsplit_once('.') else { return Kind::Ignored };
    let ending = ending.to_ascii_lowercase();
    match ending.as_str() {
        _ if is_scratch || stem.is_empty() => Kind::Ignored,
        "md" | "markdown" => Kind::Manifest,
        "tmp" | "temp" | "part" | "partial" | "swp" | "swx" | "bak" | "crdownload" | "lock" | "unfinished" => {
            Kind::Ignored
        }
        _ => Kind::Odd("a job is a Markdown file: its name has to end with .md"),
    }
}

/// Files that may still be written to.
#[derive(Debug, Default)]
pub(super) struct Looks(BTreeMap<String, (Stamp, Duration)>);

impl Looks {
    /// How much longer a file has to be left alone, looked at `now`; zero when it is whole. One that was moved here long
    /// after it was written is whole at once; a clock that differs from that of the file system only costs time.
    pub(super) fn wait_for(&mut self, name: &str, stamp: Stamp, wall: Timestamp, now: Duration) -> Duration {
        let quiet_ms = i64::try_from(QUIET.as_millis()).unwrap_or(i64::MAX);
        let age_ms = wall.as_millis().saturating_sub(stamp.modified_ms());
        if age_ms >= quiet_ms {
            self.0.remove(name);
            return Duration::ZERO;
        }
        let (seen, since) = self.0.entry(name.to_owned()).or_insert((stamp, now));
        if *seen != stamp {
            (*seen, *since) = (stamp, now);
        }
        let left = QUIET.saturating_sub(now.saturating_sub(*since));
        if left.is_zero() {
            self.0.remove(name);
        }
        left
    }

    /// Forgets files that are gone.
    pub(super) fn keep(&mut self, is_there: impl Fn(&str) -> bool) {
        self.0.retain(|name, _| is_there(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_markdown_is_a_job_and_what_editors_leave_is_not() {
        let named = |name: &str| kind(OsStr::new(name));

        for name in ["a.md", "A.MD", "a b.md", "-rf.md", "$(touch x).md", "a\nb.md", "..md.md", "x.markdown"] {
            assert_eq!(named(name), if name.starts_with('.') { Kind::Ignored } else { Kind::Manifest }, "{name:?}");
        }
        for name in [".a.md.swp", ".a.md", "a.md~", "#a.md#", ".#a.md", "~$a.md", "4913", "a.md.part", "a.md.tmp"] {
            assert_eq!(named(name), Kind::Ignored, "{name}");
        }
        assert_eq!((named("a.error.md"), named("a.result.md")), (Kind::Ignored, Kind::Ignored));
        assert!(matches!(named("job.txt"), Kind::Odd(_)));
        let bytes = <OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"\xff.md");
        assert!(matches!(kind(bytes), Kind::Odd(_)));
    }
}
