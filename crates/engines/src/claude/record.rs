//! Claude Code's own record of a session. The stream gives each message with the usage of its first event, which lacks
//! nearly all output tokens; only the result message has the total. The record has the total for each message, so that
//! a run without a result message is charged for what it used.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use sandbox::DirFd;
use serde_json::Value;

use super::result_message::{CostState, UsageSoFar};
use super::sessions::key;
use crate::home::is_plain;
use crate::stream::text_at;

/// The files of one session below an engine's home. An agent can write to them: they are read without following links,
/// and their metrics never lower those of the stream.
pub(super) struct SessionRecord {
    home: PathBuf,
    worktree: PathBuf,
    session: String,
    /// How far each file has been read.
    read_to: BTreeMap<PathBuf, u64>,
}

/// Bytes that are read of a file at once. A longer line is skipped: it holds a file's content, not only metrics.
const PART_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// What is read of a file at the end of a run.
const PARTS_MAX: usize = 128;

/// Subagents of one session whose records are read.
const SUBAGENTS_MAX: usize = 1_000;

impl SessionRecord {
    /// The record of `session` in `worktree`. Its present content belongs to earlier runs.
    pub(super) fn resuming(home: &Path, worktree: &Path, session: &str) -> Self {
        let mut record = Self {
            home: home.to_owned(),
            worktree: worktree.to_owned(),
            session: session.to_owned(),
            read_to: BTreeMap::new(),
        };
        for (name, file) in record.files() {
            let len = file.metadata().map_or(0, |found| found.len());
            record.read_to.insert(name, len);
        }
        record
    }

    /// Adds what was written since the last call: one chunk of each file.
    pub(super) fn read_on(&mut self, spent: &mut UsageSoFar) {
        self.read(spent, 1);
    }

    /// Adds everything that was written since the last call.
    pub(super) fn read_to_end(&mut self, spent: &mut UsageSoFar) {
        self.read(spent, PARTS_MAX);
    }

    fn read(&mut self, spent: &mut UsageSoFar, parts_max: usize) {
        for (name, mut file) in self.files() {
            let position = self.read_to.entry(name).or_default();
            for _ in 0..parts_max {
                let Some(part) = part(&mut file, *position) else { break };
                *position += u64::try_from(part.len()).unwrap_or(0);
                for line in String::from_utf8_lossy(&part).lines() {
                    take(line, &self.session, spent);
                }
            }
        }
    }

    /// The session's own file, and those of its subagents.
    fn files(&self) -> Vec<(PathBuf, File)> {
        self.open_files().unwrap_or_default()
    }

    fn open_files(&self) -> Option<Vec<(PathBuf, File)>> {
        if !is_plain(&self.session) {
            return None;
        }
        let project = key(&fs::canonicalize(&self.worktree).ok()?);
        let project = DirFd::open_named(&self.home).ok()?.enter("projects").ok()?.enter(project).ok()?;
        let name = format!("{}.jsonl", self.session);
        let own = project.file(&name).ok().map(|(file, _)| (PathBuf::from(name), file));
        let subagents = project.enter(&self.session).and_then(|folder| folder.enter("subagents")).ok();
        let names = subagents.as_ref().and_then(|folder| folder.names().ok()).unwrap_or_default();
        let names = names.into_iter().filter(|name| Path::new(name).extension().is_some_and(|found| found == "jsonl"));
        let of_subagents = names.take(SUBAGENTS_MAX).filter_map(|name| {
            let (file, _) = subagents.as_ref()?.file(&name).ok()?;
            Some((Path::new("subagents").join(name), file))
        });
        Some(own.into_iter().chain(of_subagents).collect())
    }
}

/// The complete lines from `position` on; a part of a line that is longer than a chunk; `None` if there is no new
/// complete line.
fn part(file: &mut File, position: u64) -> Option<Vec<u8>> {
    file.seek(SeekFrom::Start(position)).ok()?;
    let mut bytes = Vec::new();
    file.take(PART_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    match bytes.iter().rposition(|byte| *byte == b'\n') {
        Some(end) => bytes.truncate(end + 1),
        None if u64::try_from(bytes.len()) == Ok(PART_BYTES_MAX) => {}
        None => return None,
    }
    Some(bytes)
}

fn take(line: &str, session: &str, spent: &mut UsageSoFar) {
    let is_cost = line.contains("\"cost-state\"");
    if !is_cost && !line.contains("\"usage\"") {
        return;
    }
    let Ok(line) = serde_json::from_str::<Value>(line) else { return };
    match line.get("type").and_then(Value::as_str) {
        Some("assistant") => {
            if let (Some(id), Some(usage)) = (text_at(&line, "/message/id"), line.pointer("/message/usage")) {
                spent.record(id, usage);
            }
        }
        Some("cost-state") if text_at(&line, "/sessionId").as_deref() == Some(session) => {
            spent.cost_state = Some(CostState::read(&line));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Write;

    use serde_json::json;

    use super::*;
    use crate::prices::Tokens;

    fn message(id: &str, output: u64) -> String {
        let usage = json!({ "input_tokens": 100, "output_tokens": output });
        format!("{}\n", json!({ "type": "assistant", "message": { "id": id, "usage": usage } }))
    }

    fn append(file: &Path, text: &str) {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        OpenOptions::new().create(true).append(true).open(file).unwrap().write_all(text.as_bytes()).unwrap();
    }

    fn tokens(input: u64, output: u64) -> Tokens {
        Tokens { input, cached: 0, output }
    }

    #[test]
    fn a_record_completes_the_figures_of_the_stream() {
        let (home, tree) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let project = home.path().join("projects").join(key(&fs::canonicalize(tree.path()).unwrap()));
        let file = project.join("s-1.jsonl");
        append(&file, &message("m-0", 9_000));
        let mut record = SessionRecord::resuming(home.path(), tree.path(), "s-1");
        let mut spent = UsageSoFar::default();
        for id in ["m-1", "m-1", "m-2", "m-3"] {
            spent.count(&serde_json::from_str(&message(id, 1)).unwrap());
        }
        assert_eq!(spent.known(), tokens(300, 3));

        append(&file, &(message("m-1", 500) + &message("m-1", 500) + &message("m-2", 0)));
        append(&project.join("s-1/subagents/agent-a.jsonl"), &message("m-4", 70));
        append(&file, message("m-3", 600).trim_end());
        record.read_on(&mut spent);

        assert_eq!(spent.known(), tokens(400, 572), "the last line is not whole");
        append(&file, "\n");
        append(&file, &"x".repeat(5 << 20));
        append(&file, &format!("\n{}", message("m-5", 30)));
        record.read_to_end(&mut spent);
        assert_eq!(spent.known(), tokens(500, 1_201));
        assert_eq!(spent.total(), tokens(300, 3), "the stream's own figures stay apart");
    }

    #[test]
    fn a_cost_record_of_this_run_is_read_and_a_link_is_not() {
        let (home, tree) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let project = home.path().join("projects").join(key(&fs::canonicalize(tree.path()).unwrap()));
        let cost = |session: &str, usd: f64| {
            format!("{}\n", json!({ "type": "cost-state", "sessionId": session, "totalCostUSD": usd }))
        };
        append(&project.join("s-1.jsonl"), &cost("s-1", 0.5));
        let mut record = SessionRecord::resuming(home.path(), tree.path(), "s-1");
        let mut spent = UsageSoFar::default();
        record.read_to_end(&mut spent);
        assert_eq!(spent.cost_state, None);

        append(&project.join("s-1.jsonl"), &(cost("s-1", 0.75) + &cost("s-2", 9.0)));
        record.read_to_end(&mut spent);
        assert_eq!(spent.cost_state, Some(CostState { usd: 0.75, tokens: Tokens::default() }));

        std::os::unix::fs::symlink(project.join("s-1.jsonl"), project.join("s-3.jsonl")).unwrap();
        let mut spent = UsageSoFar::default();
        SessionRecord { session: "s-3".to_owned(), read_to: BTreeMap::new(), ..record }.read_to_end(&mut spent);
        assert_eq!(spent.cost_state, None);
    }
}
