//! Codex's own record of a thread. It has what the stream lacks: usage during a turn, the number of model answers, and
//! rejected calls.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::refusals::Refusals;
use super::threads::file_of;
use crate::prices::Tokens;
use crate::stream::{number_at, text_at};

/// The records below one engine directory.
pub(super) struct Rollout {
    folder: PathBuf,
    followed: Option<OpenRollout>,
}

/// A record that is still being written.
struct OpenRollout {
    thread: String,
    file: File,
    read_to: u64,
    total: Option<Tokens>,
    /// Answers of the model since the run began.
    answers: u32,
    refusals: Refusals,
}

/// Usage follows every answer of the model; the lines between two of them are shorter than this.
const PART_BYTES_MAX: u64 = 4 * 1024 * 1024;

impl Rollout {
    pub(super) fn below(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), followed: None }
    }

    /// The same for a run that resumes a thread: the present content of its record is not the run's own.
    pub(super) fn resuming(mut self, thread: Option<&str>) -> Self {
        if let Some(thread) = thread {
            self.tokens_so_far(thread);
        }
        if let Some(followed) = &mut self.followed {
            (followed.answers, followed.refusals) = (0, Refusals::default());
        }
        self
    }

    /// The model's answers in this run, as far as its record was read.
    pub(super) fn answers(&self) -> Option<u32> {
        self.followed.as_ref().map(|followed| followed.answers).filter(|answers| *answers > 0)
    }

    /// What was refused to the agent in this run, as far as its record was read.
    pub(super) fn refused(&self) -> &[String] {
        self.followed.as_ref().map_or(&[], |followed| followed.refusals.standing())
    }

    /// Whether a thread has left a record.
    pub(super) fn holds(&self, thread: &str) -> bool {
        file_of(&self.folder, thread).is_some()
    }

    /// A thread's usage so far. Incremental: what was read before is not read again.
    pub(super) fn tokens_so_far(&mut self, thread: &str) -> Option<Tokens> {
        if self.followed.as_ref().is_none_or(|followed| followed.thread != thread) {
            let file = file_of(&self.folder, thread)?;
            let (thread, refusals) = (thread.to_owned(), Refusals::default());
            self.followed = Some(OpenRollout { thread, file, read_to: 0, total: None, answers: 0, refusals });
        }
        let followed = self.followed.as_mut()?;
        followed.read_on();
        followed.total
    }

    /// A thread's usage since its start, as last recorded.
    pub(super) fn tokens_of(&self, thread: &str) -> Option<Tokens> {
        let tail = part_of(file_of(&self.folder, thread)?, |len| len.saturating_sub(PART_BYTES_MAX))?;
        last_total(&tail)
    }

    /// The model that a thread started with, if the job named none.
    pub(super) fn model_of(&self, thread: &str) -> Option<String> {
        let head = part_of(file_of(&self.folder, thread)?, |_| 0)?;
        let mut lines = head.lines().filter(|line| line.contains("\"turn_context\""));
        lines.find_map(|line| text_at(&serde_json::from_str(line).ok()?, "/payload/model"))
    }
}

impl OpenRollout {
    /// Takes the lines that are complete by now.
    fn read_on(&mut self) -> Option<()> {
        let len = self.file.metadata().ok()?.len();
        let start = self.read_to.max(len.saturating_sub(PART_BYTES_MAX));
        self.file.seek(SeekFrom::Start(start)).ok()?;
        let mut bytes = Vec::new();
        (&self.file).take(PART_BYTES_MAX).read_to_end(&mut bytes).ok()?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        self.read_to = start + u64::try_from(whole).ok()?;
        for line in String::from_utf8_lossy(&bytes[..whole]).lines() {
            self.take(line);
        }
        Some(())
    }

    fn take(&mut self, line: &str) {
        if !["\"token_count\"", "\"function_call"].iter().any(|kind| line.contains(kind)) {
            return;
        }
        let Ok(line) = serde_json::from_str::<Value>(line) else { return };
        // The same usage is reported more than once; each answer adds to it.
        if let Some(total) = total(&line).filter(|total| self.total != Some(*total)) {
            self.total = Some(total);
            self.answers = self.answers.saturating_add(1);
        }
        self.refusals.take(&line);
    }
}

/// The last usage in a part of a record.
fn last_total(part: &str) -> Option<Tokens> {
    let mut lines = part.lines().rev().filter(|line| line.contains("\"token_count\""));
    lines.find_map(|line| total(&serde_json::from_str(line).ok()?))
}

fn total(line: &Value) -> Option<Tokens> {
    let usage = line.pointer("/payload/info/total_token_usage").filter(|usage| usage.is_object())?;
    Some(Tokens {
        input: number_at(usage, "/input_tokens"),
        cached: number_at(usage, "/cached_input_tokens"),
        output: number_at(usage, "/output_tokens"),
    })
}

fn part_of(mut file: File, start: impl Fn(u64) -> u64) -> Option<String> {
    let len = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(start(len))).ok()?;
    let mut bytes = Vec::new();
    file.take(PART_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;

    // [J6]
    #[test]
    fn the_last_figures_of_a_thread_count_and_a_link_in_its_place_tells_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let day = folder.path().join("sessions/2026/11/16");
        fs::create_dir_all(&day).unwrap();
        let count = |input: u64| {
            let usage = format!("{{\"input_tokens\":{input},\"cached_input_tokens\":10,\"output_tokens\":5}}");
            let info = format!("{{\"type\":\"token_count\",\"info\":{{\"total_token_usage\":{usage}}}}}");
            format!("{{\"type\":\"event_msg\",\"payload\":{info}}}\n")
        };
        let empty = "{\"type\":\"event_msg\",\"payload\":{\"type\":\"token_count\",\"info\":null}}\n";
        let context = "{\"type\":\"turn_context\",\"payload\":{\"model\":\"gpt-5.3-codex\"}}\n";
        let record = format!("{{\"type\":\"session_meta\"}}\n{context}{}{}{empty}{{\"torn\":", count(100), count(250));
        fs::write(day.join("rollout-2026-11-16T02-42-10-thread-1.jsonl"), record).unwrap();
        let link = day.join("rollout-2026-11-16T02-42-11-thread-2.jsonl");
        std::os::unix::fs::symlink(day.join("rollout-2026-11-16T02-42-10-thread-1.jsonl"), link).unwrap();
        let mut rollout = Rollout::below(folder.path());

        assert_eq!(rollout.tokens_so_far("thread-1"), Some(Tokens { input: 250, cached: 10, output: 5 }));
        assert_eq!(rollout.tokens_so_far("thread-2"), None);
        assert_eq!(rollout.tokens_of("thread-1"), Some(Tokens { input: 250, cached: 10, output: 5 }));
        assert_eq!(rollout.model_of("thread-1").as_deref(), Some("gpt-5.3-codex"));
        assert_eq!((rollout.tokens_of("thread-2"), rollout.model_of("thread-2")), (None, None));
        assert_eq!(rollout.tokens_of("../x"), None);
    }

    #[test]
    fn answers_and_refusals_are_those_of_the_run_that_goes_on_with_a_thread() {
        let folder = tempfile::tempdir().unwrap();
        let day = folder.path().join("sessions/2026/11/16");
        fs::create_dir_all(&day).unwrap();
        let file = day.join("rollout-2026-11-16T02-42-10-thread-1.jsonl");
        let recorded = include_str!("../../tests/golden/codex-records/real-refused.jsonl");
        fs::write(&file, recorded).unwrap();
        let mut whole = Rollout::below(folder.path());
        whole.tokens_so_far("thread-1");
        let mut resumed = Rollout::below(folder.path()).resuming(Some("thread-1"));
        assert_eq!((whole.answers(), whole.refused()), (Some(3), &["Shell (curl http://127.0.0.1:9/)".to_owned()][..]));
        assert_eq!((resumed.answers(), resumed.refused()), (None, &[][..]));

        let again = recorded.replace("\"input_tokens\":", "\"input_tokens\":1");
        File::options().append(true).open(&file).unwrap().write_all(again.as_bytes()).unwrap();
        resumed.tokens_so_far("thread-1");

        assert_eq!((resumed.answers(), resumed.refused().len()), (Some(3), 1));
    }

    // [J6] [F2]
    #[test]
    fn a_record_is_followed_line_by_line_while_it_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let day = folder.path().join("sessions/2026/11/16");
        fs::create_dir_all(&day).unwrap();
        let mut record = File::create(day.join("rollout-2026-11-16T02-42-10-thread-1.jsonl")).unwrap();
        let mut rollout = Rollout::below(folder.path());
        let line = |input: u64| {
            format!(
                "{{\"payload\":{{\"type\":\"token_count\",\"info\":{{\"total_token_usage\":{{\"input_tokens\":{input}}}}}}}}}\n"
            )
        };
        let mut after = |written: &str| {
            record.write_all(written.as_bytes()).unwrap();
            rollout.tokens_so_far("thread-1").map(|tokens| tokens.input)
        };
        let (second, third) = (line(20), line(30));
        let (half, rest) = third.split_at(40);

        let seen = [after(""), after(&line(10)), after(&second), after("{\"other\":1}\n"), after(half), after(rest)];

        assert_eq!(seen, [None, Some(10), Some(20), Some(20), Some(20), Some(30)]);
    }
}
