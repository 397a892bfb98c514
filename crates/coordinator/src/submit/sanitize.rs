//! Limits and escaping for text that factories and users send: the coordinator stores it, forwards it and shows it.

use domain::{
    CONFLICT_FILES_MAX, Checkpoint, ENGINE_MS_MAX, Evidence, MergeConflict, PullRequest, RunInsights, ValueOutOfRange,
};

use crate::error::Error;
use crate::submit::invalid;

/// A message is truncated to this: it is a summary, the log has the rest.
const MESSAGE_CHARS_MAX: usize = 2_000;

/// Verify commands of one run: more than any manifest has.
const EVIDENCE_MAX: usize = 64;

/// The end of one command's output: a few screens, the log has the rest.
const OUTPUT_BYTES_MAX: usize = 16 * 1024;

/// The outputs of one run together: they are part of the job's document, which is read and written whole.
const OUTPUTS_BYTES_MAX: usize = 64 * 1024;

/// The path of a file in conflict is truncated to this.
const FILE_CHARS_MAX: usize = 400;

/// Git supports no longer ref on every file system.
const REF_LEN_MAX: usize = 250;

/// Engines use ids or paths as session names.
const SESSION_LEN_MAX: usize = 1_000;

/// The longest URL that all browsers support.
const URL_LEN_MAX: usize = 2_000;

/// A message escaped for terminals and truncated.
pub(crate) fn cut(message: &str) -> String {
    short(message, MESSAGE_CHARS_MAX)
}

/// The beginning of a text, escaped for terminals.
pub(crate) fn short(text: &str, chars_max: usize) -> String {
    text.chars().filter(is_text).take(chars_max).collect()
}

/// Text escaped for terminals.
pub(crate) fn escaped(text: &str) -> String {
    text.chars().filter(is_text).collect()
}

/// Evidence truncated to fit into a job's document: the ends of outputs, in order.
pub(crate) fn bounded(evidence: &[Evidence]) -> Vec<Evidence> {
    let mut left = OUTPUTS_BYTES_MAX;
    let bound = |one: &Evidence| {
        let output = end_of(&one.output, left.min(OUTPUT_BYTES_MAX));
        left -= output.len();
        Evidence {
            step: one.step,
            command: cut(&one.command),
            exit: one.exit,
            stopped: one.stopped.as_deref().map(cut),
            output,
            took_ms: one.took_ms.min(ENGINE_MS_MAX),
        }
    };
    evidence.iter().take(EVIDENCE_MAX).map(bound).collect()
}

/// A merge conflict truncated to fit into a job's document.
pub(crate) fn bounded_conflict(conflict: &MergeConflict) -> MergeConflict {
    let files = conflict.files.iter().take(CONFLICT_FILES_MAX).map(|file| short(file, FILE_CHARS_MAX)).collect();
    MergeConflict { base: conflict.base.clone(), base_sha: conflict.base_sha.clone(), files }
}

/// Checks that a checkpoint's names can be passed to git and to an engine.
pub(crate) fn check(checkpoint: &Checkpoint) -> Result<(), Error> {
    check_name("checkpoint.ref", &checkpoint.git_ref, REF_LEN_MAX)?;
    checkpoint.session.as_deref().map_or(Ok(()), |session| check_name("checkpoint.session", session, SESSION_LEN_MAX))
}

/// Checks that the metrics of a run can be stored and added up.
pub(crate) fn check_insights(insights: &RunInsights) -> Result<(), Error> {
    insights.check().map_err(|error| out_of_range(&error))
}

/// The error for a metric that no run can have.
pub(crate) fn out_of_range(error: &ValueOutOfRange) -> Error {
    invalid(error.field, error.to_string())
}

/// A pull request whose URL can be shown and opened.
pub(crate) fn readable(request: &PullRequest) -> Result<PullRequest, Error> {
    let url = &request.url;
    let is_web = url.starts_with("https://") || url.starts_with("http://");
    if !is_web || url.len() > URL_LEN_MAX || !url.chars().all(|c| domain::is_terminal_safe(c) && !c.is_whitespace()) {
        return Err(invalid("pullRequest.url", format!("expected an http URL of at most {URL_LEN_MAX} bytes")));
    }
    Ok(request.clone())
}

pub(crate) fn check_name(what: &'static str, name: &str, max: usize) -> Result<(), Error> {
    if name.is_empty() || name.len() > max {
        return Err(invalid(what, format!("1 to {max} bytes, found {}", name.len())));
    }
    if name.starts_with('-') || !name.chars().all(domain::is_terminal_safe) {
        return Err(invalid(what, "a leading `-` and control characters are not allowed".to_owned()));
    }
    Ok(())
}

fn end_of(text: &str, bytes_max: usize) -> String {
    let mut start = text.len().saturating_sub(bytes_max);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    text[start..].chars().filter(is_text).collect()
}

fn is_text(c: &char) -> bool {
    matches!(c, '\n' | '\t') || domain::is_terminal_safe(*c)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evidence(output: String) -> Evidence {
        Evidence { command: "make test".to_owned(), exit: Some(0), output, took_ms: 1, ..Evidence::default() }
    }

    // [J6]
    #[test]
    fn evidence_is_truncated_by_count_length_and_total() {
        let huge = vec![evidence(format!("{}\u{1b}[2Jthe end", "é".repeat(20_000))); 1_000];

        let kept = bounded(&huge);

        assert_eq!(kept.len(), EVIDENCE_MAX);
        assert!(kept[0].output.len() <= OUTPUT_BYTES_MAX && kept[0].output.ends_with("é[2Jthe end"));
        assert!(kept.iter().map(|one| one.output.len()).sum::<usize>() <= OUTPUTS_BYTES_MAX);
    }

    #[test]
    fn ordinary_evidence_is_unchanged() {
        let ordinary = vec![evidence("one\n\ttwo\n".to_owned()), evidence(String::new())];

        assert_eq!(bounded(&ordinary), ordinary);
    }

    // [attack: hostile names]
    #[test]
    fn a_checkpoint_with_an_unsafe_name_is_rejected() {
        let checkpoint = |git_ref: &str, session: Option<&str>| Checkpoint {
            git_ref: git_ref.to_owned(),
            sha: "0".repeat(40).parse().unwrap(),
            session: session.map(str::to_owned),
            epoch: domain::Epoch(1),
            repository: None,
        };

        assert!(check(&checkpoint("aq/wip/1", Some("a-session"))).is_ok());
        for git_ref in ["", "--upload-pack=x", "a\nb", &"x".repeat(REF_LEN_MAX + 1)] {
            assert!(check(&checkpoint(git_ref, None)).is_err(), "{git_ref:?}");
        }
        for session in ["", "-x", "\u{1b}[2J", &"x".repeat(SESSION_LEN_MAX + 1)] {
            assert!(check(&checkpoint("aq/wip/1", Some(session))).is_err(), "{session:?}");
        }
    }
}
