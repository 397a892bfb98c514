//! Everything that is wrong with a `giga.toml`, at once and in the words of the file.

use std::ops::Range;
use std::path::Path;

use serde::de::DeserializeOwned;
use toml::de::{DeTable, Error};

use crate::failure::Failure;
use domain::suggest;

use super::file::line_at;

/// More findings than this are not read anyway.
const FINDINGS_MAX: usize = 20;

/// What is wrong at one place.
struct Finding {
    place: String,
    what: String,
    hint: Option<String>,
}

/// Reads the file as `T`, or returns all its errors.
pub(super) fn parse<T: DeserializeOwned>(path: &Path, text: &str) -> Result<T, Failure> {
    let (_, broken) = DeTable::parse_recoverable(text);
    if !broken.is_empty() {
        let found = broken.iter().take(FINDINGS_MAX).map(|error| finding(path, text, error));
        return Err(failure(found.collect()));
    }
    match toml::from_str(text) {
        Ok(content) => Ok(content),
        Err(error) => Err(failure(all_findings::<T>(path, text, error))),
    }
}

/// A reader stops at the first value that it cannot use: that one is blanked out, and the file is read again.
fn all_findings<T: DeserializeOwned>(path: &Path, text: &str, first: Error) -> Vec<Finding> {
    let mut rest = text.to_owned();
    let mut findings = Vec::new();
    let mut error = Some(first);
    while let Some(found) = error.take() {
        findings.push(finding(path, text, &found));
        let Some(span) = found.span().filter(|_| findings.len() < FINDINGS_MAX) else { break };
        let lines = statement(&rest, span);
        blank(&mut rest, lines);
        // Blanked at the wrong place the file would show faults that it does not have.
        if rest.parse::<toml::Table>().is_err() {
            break;
        }
        error = toml::from_str::<T>(&rest).err().filter(|next| next.span() != found.span());
    }
    findings
}

/// The lines that a fault is on; of a fault with a whole table, the table.
fn statement(text: &str, span: Range<usize>) -> Range<usize> {
    let start = text[..span.start.min(text.len())].rfind('\n').map_or(0, |at| at + 1);
    let line_end = |from: usize| text[from..].find('\n').map_or(text.len(), |at| from + at);
    if !text[start..].trim_start().starts_with('[') {
        return start..line_end(span.end.clamp(start, text.len()));
    }
    let body = line_end(start);
    let next = text[body..].find("\n[").map_or(text.len(), |at| body + at);
    start..next
}

fn blank(text: &mut String, range: Range<usize>) {
    let blanks: String = text[range.clone()].bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }).collect();
    text.replace_range(range, &blanks);
}

fn failure(mut findings: Vec<Finding>) -> Failure {
    if findings.len() == 1 {
        let Finding { place, what, hint } = findings.remove(0);
        let failure = Failure::usage(format!("{place}: {what}"));
        return match hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        };
    }
    let lines = findings.into_iter().map(|Finding { place, what, hint }| match hint {
        Some(hint) => format!("{place}: {what} ({hint})"),
        None => format!("{place}: {what}"),
    });
    Failure::usage(lines.collect::<Vec<_>>().join("\n"))
}

fn finding(path: &Path, text: &str, error: &Error) -> Finding {
    let place = match error.span() {
        Some(span) => format!("{}:{}", path.display(), line_at(text, span.start)),
        None => path.display().to_string(),
    };
    let message = error.message();
    let Some(rest) = message.strip_prefix("unknown field `") else {
        let what = plain(message);
        let is_bare = what.ends_with("expected a string");
        let hint =
            is_bare.then(|| "put it in quotes; times and sizes take a unit, such as \"90s\" or \"10GiB\"".to_owned());
        return Finding { place, what, hint };
    };
    // serde's own words: "unknown field `a`, expected one of `b`, `c`".
    let mut words = rest.split('`').step_by(2);
    let unknown = words.next().unwrap_or_default();
    let known: Vec<&str> = words.collect();
    let what = format!("unknown key `{}`", domain::escape_for_terminal(unknown));
    let hint = match suggest(unknown, known.iter().copied()) {
        Some(meant) => Some(format!("did you mean `{meant}`?")),
        None if known.is_empty() => None,
        None => Some(format!("known keys here: {}", known.join(", "))),
    };
    Finding { place, what, hint }
}

/// The words of the file for what the reader calls by the names of types.
fn plain(message: &str) -> String {
    let message = message.replace("missing field `", "missing key `").replace("duplicate field `", "duplicate key `");
    let Some((before, expected)) = message.rsplit_once("expected ") else { return message };
    let named = match expected {
        "u8" => "a whole number from 0 to 255",
        "u16" | "u32" | "u64" | "usize" => "a whole number, 0 or more",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a boolean" => "true or false",
        "a map" => "a table",
        "a sequence" => "a list",
        "string or table" => "a string",
        other if other.starts_with("struct ") || other.starts_with("internally tagged enum ") => "a table",
        other if other.starts_with("enum ") || other.starts_with("tuple ") || other.starts_with("newtype ") => {
            "another value"
        }
        other => other,
    };
    let before =
        before.replace("invalid type: ", "").replace("invalid value: ", "").replace("invalid length ", "length ");
    let before =
        before.replace("map,", "a table,").replace("sequence,", "a list,").replace("integer `", "the number `");
    let before = before.replace("string \"", "the text \"").replace("boolean `", "the value `");
    match before.strip_suffix(", ") {
        Some(found) if !found.contains("unknown variant") => format!("found {found}, expected {named}"),
        _ => format!("{before}expected {named}"),
    }
}

#[cfg(test)]
mod tests {
    use crate::config::of_file;

    fn message(text: &str) -> String {
        of_file(text).unwrap_err().message().to_owned()
    }

    #[test]
    fn all_faults_are_named_at_once() {
        let text = "dta = \"x\"\n[coordinator]\nlissten = \"127.0.0.1:1\"\nlease_ttl = \"soon\"\n\
                    [factory]\nseats = \"two\"\ncost = 7\nroute = 3\n[factory.repos.app]\nbase = \"main\"\n[log]\nlevel = 4\n";

        let lines: Vec<String> = message(text).lines().map(str::to_owned).collect();

        let places: Vec<&str> = lines.iter().map(|line| line.split(": ").next().unwrap()).collect();
        let mut sorted = places.clone();
        sorted.sort_unstable();
        let mut expected =
            ["giga.toml:1", "giga.toml:3", "giga.toml:4", "giga.toml:6", "giga.toml:8", "giga.toml:9", "giga.toml:12"];
        expected.sort_unstable();
        assert_eq!(sorted, expected, "{lines:#?}");
    }

    #[test]
    fn no_fault_is_told_in_the_names_of_types() {
        let text = "[factory]\nseats = \"two\"\nroute = 3\ncapabilities = \"x\"\ncost = -1\nengines = 4\nrepos = 5\n\
                    [factory.limits]\nwall = 5\n[factory.forge]\nkind = 3\n";

        let told = message(text);

        for name in ["u32", "u8", "struct", "Config", "enum", "sequence", "map", "invalid type", "boolean"] {
            assert!(!told.contains(name), "`{name}` in:\n{told}");
        }
        assert!(told.contains("giga.toml:2: found the text \"two\", expected a whole number, 0 or more"), "{told}");
    }

    #[test]
    fn every_broken_line_is_named() {
        let told = message("[factory\nseats = \n[log]\nlevel == 1\n");

        assert!(told.contains("giga.toml:1") && told.contains("giga.toml:4"), "{told}");
    }

    #[test]
    fn a_repository_can_be_one_line() {
        let config = of_file("[factory.repos]\napp = \"https://forge.example/app.git\"\n").unwrap();

        let (name, repo) = config.factory.repos.value.first_key_value().unwrap();
        assert_eq!((name.as_str(), repo.url.as_str()), ("app", "https://forge.example/app.git"));
    }
}
