//! Which files in the inbox are jobs, and when they are whole.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::time::Duration;

use domain::Timestamp;

use super::queue::FileStamp;
use super::reports;

/// A file that has not been written to for this long is complete: programs do not pause for longer between writes.
pub(super) const QUIET: Duration = Duration::from_secs(1);

/// The kind of a file in the inbox, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A job.
    Manifest,
    /// An editor's temporary file, or a report of ours.
    Ignored,
    /// A file that was probably dropped here on purpose.
    Odd(&'static str),
}

/// The kind of a name.
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
pub(super) struct UnstableFiles(BTreeMap<String, (FileStamp, Duration)>);

impl UnstableFiles {
    /// How much longer a file has to stay unchanged, seen at `now`; zero when it is complete. One that was moved here long
    /// after it was written is whole at once; a clock that differs from that of the file system only costs time.
    pub(super) fn wait_for(&mut self, name: &str, stamp: FileStamp, wall: Timestamp, now: Duration) -> Duration {
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

    const BEGIN: Timestamp = Timestamp::from_millis(1_767_225_600_000);

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// How much longer a file has to stay unchanged, seen after `now` ms, when it was written to after `written` ms.
    fn left(looks: &mut UnstableFiles, written: u64, now: u64) -> Duration {
        let stamp = FileStamp::written_at(BEGIN.after(ms(written)), written);
        looks.wait_for("a.md", stamp, BEGIN.after(ms(now)), ms(now))
    }

    #[test]
    fn a_file_is_whole_a_second_after_its_last_piece_and_not_after_its_first() {
        let mut looks = UnstableFiles::default();

        let waits = [(0, 10), (300, 310), (600, 610), (900, 910), (1_200, 1_210), (1_200, 2_199), (1_200, 2_200)];
        let waits = waits.map(|(written, now)| left(&mut looks, written, now));

        assert_eq!(waits, [ms(1_000), ms(1_000), ms(1_000), ms(1_000), ms(1_000), ms(11), ms(0)]);
    }

    #[test]
    fn a_file_that_was_written_long_ago_is_whole_at_once() {
        assert_eq!(left(&mut UnstableFiles::default(), 0, 1_000), Duration::ZERO);
    }

    #[test]
    fn a_file_system_whose_clock_is_ahead_costs_a_second_and_no_more() {
        let mut looks = UnstableFiles::default();

        let waits = [(60_000, 0), (60_000, 400), (60_000, 1_000)].map(|(written, now)| left(&mut looks, written, now));

        assert_eq!(waits, [ms(1_000), ms(600), ms(0)]);
    }

    #[test]
    fn a_file_of_the_same_name_that_came_later_is_waited_for_anew() {
        let mut looks = UnstableFiles::default();
        let first = left(&mut looks, 0, 0);

        looks.keep(|_| false);

        assert_eq!((first, left(&mut looks, 0, 900)), (ms(1_000), ms(1_000)));
    }

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
