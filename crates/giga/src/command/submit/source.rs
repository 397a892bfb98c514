//! Manifests as files: read and checked here, so that errors are reported without a round trip.

use std::io::Read;
use std::path::{Path, PathBuf};

use domain::{Finding, Manifest, Severity, Strictness};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output::Output;

/// The maximum size of a manifest; a larger file was given by mistake.
const SOURCE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// One manifest.
#[derive(Debug)]
pub(in crate::command) struct Source {
    /// The file, as it was named.
    pub(in crate::command) name: String,
    /// Its text.
    pub(in crate::command) text: String,
}

/// Manifests, those that can be submitted and those that cannot.
#[derive(Debug, Default)]
pub(super) struct CheckedManifests {
    pub(super) good: Vec<Source>,
    pub(super) bad: Vec<(String, Vec<Finding>)>,
}

/// Reads and checks manifests, and reports their errors as a compiler would: `file:line: key: message`.
pub(super) fn check_all(out: &Output, files: &[PathBuf], strict: bool) -> Result<CheckedManifests, Failure> {
    let strictness = if strict { Strictness::Strict } else { Strictness::Lenient };
    let mut checked = CheckedManifests::default();
    for file in files {
        let source = read(file)?;
        match Manifest::parse(&source.text, strictness) {
            Ok(manifest) => {
                print(out, &source.name, &manifest.warnings);
                checked.good.push(source);
            }
            Err(findings) => {
                print(out, &source.name, &findings);
                checked.bad.push((source.name, findings));
            }
        }
    }
    Ok(checked)
}

impl CheckedManifests {
    /// The failure if any of them cannot be submitted.
    pub(super) fn failure(&self, dry_run: bool) -> Option<Failure> {
        if self.bad.is_empty() {
            return None;
        }
        let names: Vec<&str> = self.bad.iter().map(|(name, _)| name.as_str()).collect();
        let (verb, done) = if names.len() == 1 { ("has", "") } else { ("have", " all") };
        let nothing = if dry_run { "" } else { ": nothing was submitted" };
        let failure = Failure::failed(format!("{}{done} {verb} errors{nothing}", names.join(", ")));
        Some(failure.hint("`giga schema` prints the JSON Schema of manifests").problem("bad_manifest", self.findings()))
    }

    /// What is wrong, for programs.
    pub(super) fn findings(&self) -> Value {
        let findings = self.bad.iter().flat_map(|(name, findings)| {
            findings.iter().map(move |finding| {
                json!({"file": name, "line": finding.line, "key": finding.key,
                       "message": finding.message, "severity": finding.severity})
            })
        });
        json!({"findings": findings.collect::<Vec<_>>()})
    }
}

/// Reads one file, or standard input for `-`.
pub(in crate::command) fn read(file: &Path) -> Result<Source, Failure> {
    let (name, bytes) = if file == Path::new("-") {
        ("<stdin>".to_owned(), bounded(std::io::stdin().lock()))
    } else {
        (file.display().to_string(), std::fs::File::open(file).and_then(bounded))
    };
    let bytes = bytes.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            Failure::not_found(format!("no file {name}")).hint("`giga init` writes a sample, job.md")
        }
        std::io::ErrorKind::IsADirectory => Failure::failed(format!("{name} is a directory"))
            .hint("pass its manifests one by one; `giga local DIR` runs a folder queue"),
        _ => Failure::failed(format!("cannot read {name}: {error}")),
    })?;
    let text = String::from_utf8(bytes);
    let text = text.map_err(|_| Failure::failed(format!("{name} is not text: manifests are Markdown in UTF-8")))?;
    Ok(Source { name, text })
}

fn bounded(source: impl Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(SOURCE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Prints findings as a compiler would.
pub(in crate::command) fn print(out: &Output, name: &str, findings: &[Finding]) {
    if out.is_json() {
        return;
    }
    for finding in findings {
        let warning = if finding.severity == Severity::Warning { " warning:" } else { "" };
        let key = finding.key.as_deref().map_or_else(String::new, |key| format!(" {key}:"));
        out.finding(&format!("{name}:{}:{warning}{key} {}", finding.line, finding.message));
    }
}
