//! Names used in git, paths and command lines. An allow-list validates them once, at the boundary [T8].

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// An invalid name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{shown}` is not a valid {what} name: {why}")]
pub struct NameError {
    /// The kind of name: "product", "repository", …
    pub what: &'static str,
    /// The name, escaped for terminals.
    pub shown: String,
    /// The violated rule.
    pub why: &'static str,
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $what:literal, $check:path, $len_max:tt, $pattern:tt, $example:tt) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, utoipa::ToSchema)]
        #[serde(try_from = "String")]
        #[schema(value_type = String, min_length = 1, max_length = $len_max, pattern = $pattern, example = $example)]
        pub struct $name(Arc<str>);

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = NameError;

            fn from_str(text: &str) -> Result<Self, NameError> {
                match $check(text) {
                    Ok(()) => Ok(Self(text.into())),
                    Err(why) => Err(NameError { what: $what, shown: escape_for_terminal(text), why }),
                }
            }
        }

        impl TryFrom<String> for $name {
            type Error = NameError;

            fn try_from(text: String) -> Result<Self, NameError> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0.as_ref().to_owned()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name! {
    /// The tenant: the scope of billing, budgets, tokens and visibility. Never the routing key.
    ProductId, "product", check_plain_name, 64,
    "^[A-Za-z0-9](\\.?[A-Za-z0-9_-])*\\.?$", "notes"
}
name! {
    /// A factory: a generic worker host.
    FactoryId, "factory", check_plain_name, 64,
    "^[A-Za-z0-9](\\.?[A-Za-z0-9_-])*\\.?$", "mac-1"
}
name! {
    /// A repository, by the name that factories advertise: `notes` or `acme/notes`.
    RepoName, "repository", check_path, 200,
    "^(?!.*[^/]{65})(?!.*\\.lock(/|$))[A-Za-z0-9](\\.?[A-Za-z0-9_-])*(/[A-Za-z0-9](\\.?[A-Za-z0-9_-])*)*$", "acme/notes"
}
name! {
    /// The identity of a repository: the normalised URL of its remote, `github.com/acme/notes`, or `file://` with
    /// machine and path for a local one.
    RepoIdentity, "repository identity", check_identity, 300,
    "^[A-Za-z0-9._~:/+%\\[\\]-]+$", "github.com/acme/notes"
}
name! {
    /// A branch that work starts from and merges into.
    BranchName, "branch", check_path, 200,
    "^(?!.*[^/]{65})(?!.*\\.lock(/|$))[A-Za-z0-9](\\.?[A-Za-z0-9_-])*(/[A-Za-z0-9](\\.?[A-Za-z0-9_-])*)*$", "main"
}
name! {
    /// An agent engine: `claude`, `codex`, `command`, …
    EngineName, "engine", check_plain_name, 64,
    "^[A-Za-z0-9](\\.?[A-Za-z0-9_-])*\\.?$", "claude"
}
name! {
    /// A profile: a persona with defaults.
    ProfileName, "profile", check_plain_name, 64,
    "^[A-Za-z0-9](\\.?[A-Za-z0-9_-])*\\.?$", "ux-designer"
}
name! {
    /// A pool: factories that are started on demand. Short, because it is the first part of their names.
    PoolName, "pool", check_plain_name, 48,
    "^[A-Za-z0-9](\\.?[A-Za-z0-9_-])*\\.?$", "linux-claude"
}
name! {
    /// A tracker whose items become jobs: `github`, or a name of `giga.toml`.
    TrackerName, "tracker", check_plain_name, 64,
    "^[A-Za-z0-9](\\.?[A-Za-z0-9_-])*\\.?$", "github"
}
name! {
    /// A receiver of outgoing webhooks: a name of `giga.toml`.
    WebhookName, "webhook", check_plain_name, 64,
    "^[A-Za-z0-9](\\.?[A-Za-z0-9_-])*\\.?$", "ops"
}
name! {
    /// A capability that a factory advertises and a job may require: `os:linux`, `has:docker`, `repo:notes`.
    Capability, "capability", check_capability, 200,
    "^(?!.*[^/:]{65})(?!.*\\.lock(/|$))[A-Za-z0-9](\\.?[A-Za-z0-9_-])*\\.?:[A-Za-z0-9](\\.?[A-Za-z0-9_-])*(/[A-Za-z0-9](\\.?[A-Za-z0-9_-])*)*$", "os:linux"
}
name! {
    /// A label on a job, for people.
    Tag, "tag", check_plain_name, 64,
    "^[A-Za-z0-9](\\.?[A-Za-z0-9_-])*\\.?$", "urgent"
}
name! {
    /// The full hash of a commit, in lower-case hexadecimal.
    CommitSha, "commit", check_sha, 64,
    "^([0-9a-f]{40}|[0-9a-f]{64})$", "0123456789abcdef0123456789abcdef01234567"
}

name! {
    /// The name of an artifact for people, such as `coverage/report.html`. It is shown, and never used as a path of the
    /// coordinator.
    ArtifactName, "artifact", check_artifact, 200,
    "^(?!/)(?!.*//)(?!.*/$)(?!(.*/)?[.]{1,2}(/|$))[^\\\\\\u0000-\\u001f\\u007f-\\u009f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069\\ufeff]+$",
    "coverage/report.html"
}
name! {
    /// A content type without parameters.
    ContentType, "content type", check_content_type, 121,
    "^[a-z0-9][a-z0-9.+-]{0,59}/[a-z0-9][a-z0-9.+-]{0,59}$", "text/html"
}
name! {
    /// A SHA-256 digest, in lower-case hexadecimal.
    Sha256, "SHA-256 digest", check_sha256, 64,
    "^[0-9a-f]{64}$", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
}

impl ProductId {
    /// The built-in product [T1].
    pub fn default_product() -> Self {
        Self("default".into())
    }
}

impl ArtifactName {
    /// The part behind the last slash.
    pub fn file_name(&self) -> &str {
        self.as_str().rsplit('/').next().unwrap_or_default()
    }
}

impl ContentType {
    /// Bytes of an unknown type.
    pub fn unknown() -> Self {
        Self("application/octet-stream".into())
    }

    /// The type that a name's ending suggests.
    pub fn of_name(name: &ArtifactName) -> Self {
        let ending = name.file_name().rsplit_once('.').map_or("", |(_, ending)| ending).to_ascii_lowercase();
        Self(
            match ending.as_str() {
                "txt" | "log" => "text/plain",
                "md" => "text/markdown",
                "csv" => "text/csv",
                "html" | "htm" => "text/html",
                "json" => "application/json",
                "xml" => "application/xml",
                "pdf" => "application/pdf",
                "png" => "image/png",
                "jpg" | "jpeg" => "image/jpeg",
                "gif" => "image/gif",
                "svg" => "image/svg+xml",
                "zip" => "application/zip",
                "gz" | "tgz" => "application/gzip",
                "tar" => "application/x-tar",
                _ => return Self::unknown(),
            }
            .into(),
        )
    }
}

impl Sha256 {
    /// The text of a digest.
    pub fn of(digest: [u8; 32]) -> Self {
        Self(digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into())
    }
}

impl EngineName {
    /// The engine that runs a configured command line.
    pub fn command() -> Self {
        Self("command".into())
    }
}

impl Capability {
    /// The capability to run an engine.
    pub fn engine(engine: &EngineName) -> Self {
        Self(format!("engine:{engine}").into())
    }

    /// The capability for a repository.
    pub fn repo(repo: &RepoName) -> Self {
        Self(format!("repo:{repo}").into())
    }

    /// The canonical spelling: `os:macos` and `os:darwin` become `os:mac`, `os:ubuntu` becomes `os:linux` [F1].
    #[must_use]
    pub fn canonical(self) -> Self {
        match self.as_str() {
            "os:macos" | "os:darwin" => Self("os:mac".into()),
            "os:ubuntu" => Self("os:linux".into()),
            _ => self,
        }
    }
}

/// Longer than names in use, and short enough for every file system and table.
const WORD_LEN_MAX: usize = 64;
/// A few words separated by slashes.
const PATH_LEN_MAX: usize = 200;

fn check_identity(text: &str) -> Result<(), &'static str> {
    check_length(text, 300, "it is longer than 300 characters")?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._~:/+%[]-".contains(c);
    if !text.chars().all(is_plain) {
        return Err("only letters, digits and `._~:/+%[]-` are allowed");
    }
    Ok(())
}

fn check_plain_name(text: &str) -> Result<(), &'static str> {
    check_length(text, WORD_LEN_MAX, "it is longer than 64 characters")?;
    if text.contains("..") {
        return Err("it contains `..`");
    }
    check_first(text)?;
    if !text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')) {
        return Err("only letters, digits, `.`, `_` and `-` are allowed");
    }
    Ok(())
}

fn check_path(text: &str) -> Result<(), &'static str> {
    check_length(text, PATH_LEN_MAX, "it is longer than 200 characters")?;
    for part in text.split('/') {
        if part.is_empty() {
            return Err("a part between slashes is empty");
        }
        check_plain_name(part)?;
        if part.ends_with('.') || part.ends_with(".lock") {
            return Err("a part ends with `.` or `.lock`, which git refuses");
        }
    }
    Ok(())
}

fn check_capability(text: &str) -> Result<(), &'static str> {
    check_length(text, PATH_LEN_MAX, "it is longer than 200 characters")?;
    let Some((family, value)) = text.split_once(':') else {
        return Err("expected `family:value`, such as `os:linux` or `has:docker`");
    };
    check_plain_name(family)?;
    check_path(value)
}

fn check_sha(text: &str) -> Result<(), &'static str> {
    let hexadecimal = text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    if hexadecimal && matches!(text.len(), 40 | 64) { Ok(()) } else { Err("expected 40 or 64 hexadecimal digits") }
}

fn check_sha256(text: &str) -> Result<(), &'static str> {
    let hexadecimal = text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    if hexadecimal && text.len() == 64 { Ok(()) } else { Err("expected 64 hexadecimal digits in lower case") }
}

fn check_artifact(text: &str) -> Result<(), &'static str> {
    if text.is_empty() {
        return Err("it is empty");
    }
    if text.chars().count() > PATH_LEN_MAX {
        return Err("it is longer than 200 characters");
    }
    if !text.chars().all(is_terminal_safe) {
        return Err("it has control characters");
    }
    if text.contains('\\') {
        return Err("it has a backslash: write `/` between directories");
    }
    for part in text.split('/') {
        match part {
            "" => return Err("a part between slashes is empty"),
            "." | ".." => return Err("`.` and `..` are not allowed between slashes"),
            _ => {}
        }
    }
    Ok(())
}

fn check_content_type(text: &str) -> Result<(), &'static str> {
    let is_part = |part: &str| {
        (1..=60).contains(&part.len())
            && part.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
            && part.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'+' | b'-'))
    };
    match text.split_once('/') {
        Some((kind, subtype)) if is_part(kind) && is_part(subtype) => Ok(()),
        _ => Err("expected a type such as `text/html`, in lower case and without parameters"),
    }
}

fn check_length(text: &str, max: usize, too_long: &'static str) -> Result<(), &'static str> {
    match text.len() {
        0 => Err("it is empty"),
        length if length > max => Err(too_long),
        _ => Ok(()),
    }
}

fn check_first(text: &str) -> Result<(), &'static str> {
    if text.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        Ok(())
    } else {
        Err("it must begin with a letter or a digit")
    }
}

/// Escapes text for a terminal: control and bidirectional characters become `�`, long text is truncated.
pub fn escape_for_terminal(text: &str) -> String {
    const SHOWN_MAX: usize = 80;
    let mut shown: String = text.chars().take(SHOWN_MAX).map(terminal_safe).collect();
    if text.chars().count() > SHOWN_MAX {
        shown.push('…');
    }
    shown
}

/// The characters of a text that are safe on a terminal. Line breaks and tabs are not among them.
pub fn terminal_chars(text: &str) -> impl Iterator<Item = char> {
    text.chars().filter(|c| is_terminal_safe(*c))
}

/// The character, or `�` if it is not safe on a terminal.
pub fn terminal_safe(c: char) -> char {
    if is_terminal_safe(c) { c } else { '\u{fffd}' }
}

/// Whether a character is safe on a terminal: it moves no cursor, changes no direction and starts no escape sequence.
pub fn is_terminal_safe(c: char) -> bool {
    !c.is_control()
        && !matches!(c, '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}' | '\u{feff}')
}

/// An amount of US dollars with at least two significant digits: `$1.25`, `$0.004`, `<$0.0001`.
pub fn dollars(usd: f64) -> String {
    const SMALLEST: f64 = 0.0001;
    if usd > 0.0 && usd < SMALLEST {
        return format!("<${SMALLEST}");
    }
    if !(SMALLEST..0.1).contains(&usd) {
        return format!("${usd:.2}");
    }
    let decimals = if usd < 0.001 {
        5
    } else if usd < 0.01 {
        4
    } else {
        3
    };
    let digits = format!("{usd:.decimals$}");
    let shortest = digits.trim_end_matches('0').len().max("0.00".len());
    format!("${}", &digits[..shortest])
}

/// A number with its digits in groups of three: `6,000`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number with its noun: `1 seat`, `2 seats`.
pub fn counted(count: impl TryInto<u64>, noun: &str) -> String {
    match count.try_into().unwrap_or(u64::MAX) {
        1 => format!("1 {noun}"),
        count => format!("{count} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_have_groups_of_three_digits() {
        let shown = [0, 999, 1_000, 12_345, 1_234_567].map(grouped);
        assert_eq!(shown, ["0", "999", "1,000", "12,345", "1,234,567"]);
    }

    #[test]
    fn small_amounts_of_money_are_not_zero() {
        let amounts = [0.0, 0.000_01, 0.000_94, 0.001, 0.004, 0.0045, 0.0123, 0.02, 0.099_96, 0.1, 1.254, 12.0];
        let shown = [
            "$0.00", "<$0.0001", "$0.00094", "$0.001", "$0.004", "$0.0045", "$0.012", "$0.02", "$0.10", "$0.10",
            "$1.25", "$12.00",
        ];

        assert_eq!(amounts.map(dollars), shown);
    }

    const HOSTILE: [&str; 16] = [
        "",
        "..",
        "a..b",
        "-rf",
        "--upload-pack=touch",
        "$(touch canary)",
        "`touch canary`",
        "a;b",
        "a|b",
        "a b",
        "a\nb",
        "a\0b",
        "\u{1b}]52;c;eA==\u{7}",
        "../../etc",
        ".git",
        "é",
    ];

    // [T8] [attack: hostile names]
    #[test]
    fn hostile_names_are_rejected() {
        for name in HOSTILE {
            assert!(name.parse::<ProductId>().is_err(), "product {name:?}");
            assert!(name.parse::<FactoryId>().is_err(), "factory {name:?}");
            assert!(name.parse::<RepoName>().is_err(), "repo {name:?}");
            assert!(name.parse::<BranchName>().is_err(), "branch {name:?}");
            assert!(format!("has:{name}").parse::<Capability>().is_err(), "capability {name:?}");
        }
    }

    // [J8] [attack: artifact path traversal, bombs]
    #[test]
    fn no_name_of_an_artifact_leaves_its_directory() {
        let hostile = [
            "",
            "/",
            ".",
            "..",
            "/etc/passwd",
            "../x",
            "a/../b",
            "a/..",
            "./a",
            "a/./b",
            "a//b",
            "a/",
            "//x",
            "\\\\x\\y",
            "..\\x",
            "a\\..\\b",
            "C:\\x",
            "a\0b",
            "a\nb",
            "a\u{202e}gnp.exe",
            "\u{1b}[2Jx",
            "\u{feff}a",
        ];
        for name in hostile {
            assert!(name.parse::<ArtifactName>().is_err(), "{name:?}");
        }
        assert!("é".repeat(200).parse::<ArtifactName>().is_ok() && "é".repeat(201).parse::<ArtifactName>().is_err());
        for name in ["a", "...", "a..b", "..a", "coverage/report.html", "Übersicht (1).pdf", "-rf", "%2e%2e/x"] {
            assert!(name.parse::<ArtifactName>().is_ok(), "{name:?}");
        }
        assert_eq!("a/b/c.txt".parse::<ArtifactName>().unwrap().file_name(), "c.txt");
    }

    // [J8]
    #[test]
    fn a_content_type_has_no_parameters() {
        for kind in ["text/html", "application/vnd.api+json", "image/png"] {
            assert!(kind.parse::<ContentType>().is_ok(), "{kind}");
        }
        for kind in ["", "text", "text/html; charset=utf-8", "text/html\r\nX: y", "Text/html", "a/b/c", "/", "a/"] {
            assert!(kind.parse::<ContentType>().is_err(), "{kind}");
        }
    }

    #[test]
    fn ordinary_names_are_accepted() {
        for name in ["notes", "acme/notes", "feature/x-1", "v1.2", "a_b"] {
            assert_eq!(name.parse::<RepoName>().map(String::from), Ok(name.to_owned()));
        }
        assert!("os:linux".parse::<Capability>().is_ok());
        assert!("node:20".parse::<Capability>().is_ok());
    }

    #[test]
    fn parts_that_git_rejects_are_rejected() {
        assert!("a.lock".parse::<BranchName>().is_err());
        assert!("a/".parse::<BranchName>().is_err());
        assert!("/a".parse::<BranchName>().is_err());
    }

    #[test]
    fn a_name_error_contains_no_escape_sequence() {
        let error = "\u{1b}[2J".parse::<ProductId>().unwrap_err();

        assert!(!error.to_string().contains('\u{1b}'));
    }

    // [F1]
    #[test]
    fn spellings_of_one_os_are_one_capability() {
        let canonical = |text: &str| text.parse::<Capability>().unwrap().canonical().to_string();

        assert_eq!(canonical("os:darwin"), "os:mac");
        assert_eq!(canonical("os:macos"), "os:mac");
        assert_eq!(canonical("os:ubuntu"), "os:linux");
        assert_eq!(canonical("has:docker"), "has:docker");
    }

    #[test]
    fn a_number_agrees_with_its_noun() {
        let told = [0_u32, 1, 2].map(|count| counted(count, "seat"));

        assert_eq!(told, ["0 seats", "1 seat", "2 seats"]);
    }
}
