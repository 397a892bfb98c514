//! Parses a manifest: Markdown with YAML front matter in, a [`Spec`] or all findings out [J1].

mod decode;
mod duration;
mod fields;
mod finding;
mod front_matter;
mod path;
mod profile;
mod schema;
mod suggest;
mod tree;

pub use duration::duration_millis;
pub use finding::{Finding, Severity};
pub use profile::ProfileUse;
pub use schema::manifest_schema;
pub use suggest::suggest;

use crate::spec::Spec;

use decode::Decoder;
use front_matter::FrontMatter;
use tree::Tree;

/// Maximum size of a manifest. A page of prose is a few kilobytes, and a batch of 1,000 still fits in memory.
const MANIFEST_BYTES_MAX: usize = 1024 * 1024;
/// Maximum size of the front matter. 1,000 dependencies by id take about 40 KiB.
const FRONT_MATTER_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of listed findings; the rest is counted.
const FINDINGS_MAX: usize = 100;

/// A parsed manifest.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// The job's specification.
    pub spec: Spec,
    /// Findings that do not reject the manifest, by line.
    pub warnings: Vec<Finding>,
    /// What it leaves to its profile, if it names one.
    pub profile: Option<ProfileUse>,
}

/// How the parser treats unknown keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strictness {
    /// Kept in [`Spec::extra`], with a warning.
    Lenient,
    /// An error.
    Strict,
}

impl Manifest {
    /// Parses a manifest. An error lists every finding, by line.
    ///
    /// The result does not contain the text: the caller stores it byte for byte.
    pub fn parse(text: &str, strictness: Strictness) -> Result<Self, Vec<Finding>> {
        check_size("the manifest", text.len(), MANIFEST_BYTES_MAX)?;
        let front_matter = FrontMatter::split(text).map_err(|unclosed| vec![unclosed])?;
        check_size("the front matter", front_matter.yaml.len(), FRONT_MATTER_BYTES_MAX)?;

        let tree = Tree::read(front_matter.yaml, front_matter.lines_before);
        let mut findings = tree.findings;
        let (mut spec, mut profile) = (Spec::default(), None);
        if let Some(entries) = tree.entries {
            let form = Decoder::fill(&entries, front_matter.prompt, strictness);
            findings.extend(form.findings);
            spec = form.spec;
            profile = spec.profile.is_some().then(|| decode::profile_use(&entries));
        }
        let refused = findings.iter().any(|finding| finding.severity == Severity::Error);
        let findings = in_reading_order(findings);
        if refused { Err(findings) } else { Ok(Self { spec, warnings: findings, profile }) }
    }

    /// The Markdown after the front matter: the agent's prompt.
    ///
    /// The whole text if the front matter is absent or not closed.
    pub fn prompt(text: &str) -> &str {
        FrontMatter::split(text).map_or(text, |front_matter| front_matter.prompt)
    }
}

fn check_size(what: &str, bytes: usize, bytes_max: usize) -> Result<(), Vec<Finding>> {
    if bytes <= bytes_max {
        return Ok(());
    }
    Err(vec![Finding::error(1, None, format!("{what} has {bytes} bytes; at most {bytes_max} are allowed"))])
}

fn in_reading_order(mut findings: Vec<Finding>) -> Vec<Finding> {
    let listed = findings.len().min(FINDINGS_MAX);
    if listed < findings.len() {
        // Sort errors first, so that truncation drops only warnings.
        findings.sort_by_key(|finding| (finding.severity, finding.line));
        let left_out = findings.split_off(listed);
        let severity = findings.first().map_or(Severity::Error, |finding| finding.severity);
        let line = left_out.first().map_or(1, |finding| finding.line);
        let message = format!("{} more findings are not listed", left_out.len());
        findings.sort_by_key(|finding| finding.line);
        findings.push(Finding { line, key: None, message, severity });
    } else {
        findings.sort_by_key(|finding| finding.line);
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(findings: &[Finding]) -> Vec<String> {
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_oversized_manifest_is_rejected_without_parsing() {
        let text = "x".repeat(MANIFEST_BYTES_MAX + 1);

        let findings = Manifest::parse(&text, Strictness::Lenient).unwrap_err();

        assert_eq!(texts(&findings), ["line 1: the manifest has 1048577 bytes; at most 1048576 are allowed"]);
    }

    #[test]
    fn oversized_front_matter_is_rejected_without_parsing() {
        let text = format!("---\ntitle: {}\n---\n", "x".repeat(FRONT_MATTER_BYTES_MAX));

        let findings = Manifest::parse(&text, Strictness::Lenient).unwrap_err();

        assert_eq!(texts(&findings), ["line 1: the front matter has 65544 bytes; at most 65536 are allowed"]);
    }

    #[test]
    fn many_warnings_do_not_hide_an_error() {
        let unknown: String = (0..150).map(|n| format!("unknown-{n}: x\n")).collect();
        let text = format!("---\n{unknown}title: ''\n---\n");

        let findings = Manifest::parse(&text, Strictness::Lenient).unwrap_err();

        assert_eq!(findings.len(), FINDINGS_MAX + 1);
        assert_eq!(findings.iter().filter(|finding| finding.key.as_deref() == Some("title")).count(), 1);
        assert_eq!(findings[FINDINGS_MAX].message, "51 more findings are not listed");
    }
}
