//! The reports beside a file: why it is no job, or the outcome of its job.

use std::fmt::Write;
use std::io;

use domain::{Finding, Run, RunOutcome};
use protocol::JobView;

use super::folder::Folder;
use super::queue::{NAME_BYTES_MAX, Queue, cut};
use crate::output::{clean, clean_lines};

/// The first line of every file that we write: a file without it is the user's, and is never changed.
const MARK: &str = "<!-- written by giga local -->";

const ERROR: &str = ".error.md";
const RESULT: &str = ".result.md";

/// The end of a command's output that is worth reading first.
const OUTPUT_CHARS_MAX: usize = 4_000;

/// Whether a name is that of a report.
pub(super) fn is_report(name: &str) -> bool {
    name.ends_with(ERROR) || name.ends_with(RESULT)
}

/// Writes a report beside a file in `failed/`: why it is no job.
pub(super) fn write_error(queue: &Queue, name: &str, why: &str) -> io::Result<()> {
    let text = format!(
        "{MARK}\n# `{}` is not a job yet\n\n{}\n\n## What to do\n\nFix the file and move it back to `inbox/`. `giga \
         schema` prints the JSON Schema of manifests, `giga submit --dry-run FILE` checks one.\n",
        domain::escape_for_terminal(name),
        clean_lines(why),
    );
    write(queue, Folder::Failed, &named(name, ERROR), &text)
}

/// The errors of a manifest, as a list.
pub(super) fn findings(findings: &[Finding]) -> String {
    findings.iter().map(|finding| format!("- {finding}")).collect::<Vec<_>>().join("\n")
}

/// The errors, in one line.
pub(super) fn in_one_line(why: &str) -> String {
    why.lines().map(|line| line.strip_prefix("- ").unwrap_or(line)).collect::<Vec<_>>().join("; ")
}

/// Writes a report beside a file: the outcome of its job. Nothing while it waits or runs.
pub(super) fn write_result(queue: &Queue, folder: Folder, name: &str, job: &JobView, runs: &[Run]) -> io::Result<()> {
    write(queue, folder, &named(name, RESULT), &result(queue, job, runs))
}

/// Whether a file has a report of its job beside it.
pub(super) fn has_result(queue: &Queue, folder: Folder, name: &str) -> bool {
    queue.path(folder, named(name, RESULT)).exists()
}

/// Removes the reports of a file that no longer exists.
pub(super) fn remove(queue: &Queue, folder: Folder, name: &str) {
    for ending in [ERROR, RESULT] {
        let report = named(name, ending);
        if is_ours(queue, folder, &report) {
            let _ = std::fs::remove_file(queue.path(folder, report));
        }
    }
}

fn result(queue: &Queue, job: &JobView, runs: &[Run]) -> String {
    let mut text = format!("{MARK}\n# {}: {}\n\n", clean(&job.title), job.stage);
    let mut fact = |what: &str, value: Option<String>| {
        if let Some(value) = value {
            let _ = writeln!(text, "- {what}: {}", clean(&value));
        }
    };
    fact("job", Some(format!("{} ({})", job.id.short(), job.id)));
    fact("why", job.reason.map(|reason| reason.to_string()));
    fact("message", job.message.clone());
    fact("failed", job.merge_failure.as_ref().map(ToString::to_string));
    fact("repository", job.repo.as_ref().map(ToString::to_string));
    fact("commit", job.completed_sha.as_ref().map(ToString::to_string));
    fact("at", Some(job.updated_at.to_string()));
    for run in runs {
        let _ = writeln!(text, "\n## Run {}: {}\n", run.n, outcome(run));
        figures(&mut text, run);
        if let Some(last) = run.evidence.iter().rev().find(|evidence| evidence.exit != Some(0)) {
            let skipped = last.output.chars().count().saturating_sub(OUTPUT_CHARS_MAX);
            let end: String = last.output.chars().skip(skipped).collect();
            let _ = writeln!(text, "\n`{}` failed:\n\n{}", clean(&last.command), indented(&clean_lines(&end)));
        }
    }
    let data = queue.root().join(".giga");
    let _ = writeln!(
        text,
        "\n## More\n\n    giga --data '{data}' logs {id}\n    giga --data '{data}' job {id}\n\nMove the file to `inbox/` to \
         have it tried again{ship}.",
        data = data.display(),
        id = job.id.short(),
        ship = if job.stage == domain::StageName::Testing { ", or to `shipped/` to have it merged" } else { "" },
    );
    text
}

fn outcome(run: &Run) -> String {
    match run.outcome {
        None => "not over yet".to_owned(),
        Some(RunOutcome::Failed(reason)) => format!("failed ({reason})"),
        Some(other) => {
            serde_json::to_value(other).ok().and_then(|word| Some(word.as_str()?.replace('_', " "))).unwrap_or_default()
        }
    }
}

fn figures(text: &mut String, run: &Run) {
    let insights = &run.insights;
    let figures = [
        run.engine.as_ref().map(|engine| format!("engine: {engine}")),
        run.message.as_deref().map(|message| format!("message: {}", clean(message))),
        insights.files.map(|files| format!("files changed: {files}")),
        insights.tokens_in.map(|tokens| format!("tokens in: {tokens}")),
        insights.tokens_out.map(|tokens| format!("tokens out: {tokens}")),
        run.started_at.map(|_| match insights.cost_usd {
            Some(cost) => format!("cost: {}", domain::dollars(cost)),
            None => "cost: unknown".to_owned(),
        }),
        insights.engine_ms.map(|ms| format!("engine time: {:.1} s", ms as f64 / 1_000.0)),
    ];
    for figure in figures.into_iter().flatten() {
        let _ = writeln!(text, "- {figure}");
    }
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

/// `a.error.md` for `a.md`, cut where the name would be too long.
fn named(name: &str, ending: &str) -> String {
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    format!("{}{ending}", cut(stem, NAME_BYTES_MAX - ending.len()))
}

fn write(queue: &Queue, folder: Folder, name: &str, text: &str) -> io::Result<()> {
    let is_free = std::fs::symlink_metadata(queue.path(folder, name)).is_err();
    if is_free || is_ours(queue, folder, name) { queue.write(folder, name, text) } else { Ok(()) }
}

fn is_ours(queue: &Queue, folder: Folder, name: &str) -> bool {
    queue.read(folder, name).is_ok_and(|found| found.bytes.starts_with(MARK.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    // [F8]
    #[test]
    fn a_persons_file_is_never_overwritten_or_removed() {
        let root = tempfile::tempdir().unwrap();
        let queue = Queue::open(root.path()).unwrap();
        queue.write(Folder::Failed, "a.error.md", "my notes").unwrap();

        write_error(&queue, "a.md", "no").unwrap();
        remove(&queue, Folder::Failed, "a.md");

        assert_eq!(queue.read(Folder::Failed, "a.error.md").unwrap().bytes, b"my notes");
    }

    #[test]
    fn a_report_fits_beside_the_longest_name_and_goes_with_it() {
        let root = tempfile::tempdir().unwrap();
        let queue = Queue::open(root.path()).unwrap();
        let name = format!("{}.md", "x".repeat(252));

        write_error(&queue, &name, "no").unwrap();
        assert_eq!(queue.names().unwrap().within(Folder::Failed).len(), 1);
        remove(&queue, Folder::Failed, &name);

        assert_eq!(queue.names().unwrap().within(Folder::Failed).len(), 0);
    }
}
