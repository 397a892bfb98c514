//! Removes secrets from program output before it leaves the factory [T8].
//!
//! Two kinds are known: values of this factory (its token, credentials that it passes to engines), in their encodings,
//! and shapes that only secrets have. A stream may be cut anywhere: whatever could still become a secret is held back
//! until the next bytes decide, so that the position of a cut changes nothing.

mod candidates;
mod shapes;
mod spellings;

use std::sync::Arc;

use serde_json::Value;

use candidates::Candidates;

use shapes::SecretTail;
use spellings::spellings;

/// The mask of a secret.
pub(crate) const MASK: &[u8] = b"[secret]";

/// Shorter values are ordinary words of a log.
const KNOWN_BYTES_MIN: usize = 8;

/// Finds secrets. Clones share its values.
#[derive(Clone)]
pub struct Scrubber {
    known: Arc<KnownSecrets>,
}

/// All encodings of the known values, the longest first, and where one of them or a shape can start.
struct KnownSecrets {
    values: Vec<Vec<u8>>,
    candidates: Candidates,
}

/// One stream of bytes being scrubbed.
pub struct ScrubStream {
    scrubber: Scrubber,
    /// What could still become a secret.
    pending: Vec<u8>,
    /// The two bytes before it.
    before: [u8; 2],
    /// The rest of a secret whose start is masked already.
    within: Option<SecretTail>,
}

/// Whether more bytes may come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StreamEnd {
    MayCome,
    No,
}

/// What starts at a byte.
#[derive(Debug, PartialEq, Eq)]
enum MatchStart {
    /// Nothing: the byte is plain.
    Plain,
    /// The next bytes decide.
    Unsure,
    /// A secret: so many bytes are shown, so many more are masked, and perhaps more follow.
    Secret { shown: usize, hidden: usize, within: Option<SecretTail> },
    /// More of a secret whose start is masked already; the last part when `within` is none.
    Rest { hidden: usize, within: Option<SecretTail> },
}

impl Scrubber {
    /// A scrubber with these values, and the shapes of others.
    pub fn new<S: AsRef<str>>(secrets: impl IntoIterator<Item = S>) -> Self {
        let mut known: Vec<Vec<u8>> = secrets
            .into_iter()
            .filter(|secret| secret.as_ref().trim().len() >= KNOWN_BYTES_MIN)
            .flat_map(|secret| spellings(secret.as_ref().trim()))
            .collect();
        known.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        known.dedup();
        let candidates = Candidates::new(known.iter().map(Vec::as_slice).chain(shapes::beginnings()));
        Self { known: Arc::new(KnownSecrets { values: known, candidates }) }
    }

    /// A whole text without secrets.
    pub fn text(&self, text: &str) -> String {
        let mut stream = self.stream();
        let mut scrubbed = stream.push(text.as_bytes());
        scrubbed.extend(stream.finish());
        String::from_utf8_lossy(&scrubbed).into_owned()
    }

    /// Scrubs every text in a document, whatever the document is.
    pub fn document(&self, document: &mut Value) {
        match document {
            Value::String(text) => *text = self.text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.document(item)),
            Value::Object(fields) => fields.values_mut().for_each(|field| self.document(field)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Starts a stream.
    pub fn stream(&self) -> ScrubStream {
        ScrubStream { scrubber: self.clone(), pending: Vec::new(), before: *b"\n\n", within: None }
    }

    /// The longest known value that starts here.
    fn known(&self, rest: &[u8], more: StreamEnd) -> MatchStart {
        for value in &self.known.values {
            if rest.starts_with(value) {
                return MatchStart::Secret { shown: 0, hidden: value.len(), within: None };
            }
            // The longest come first, so a complete shorter one must wait for this one.
            if more == StreamEnd::MayCome && value.starts_with(rest) {
                return MatchStart::Unsure;
            }
        }
        MatchStart::Plain
    }
}

/// Without values, with all shapes.
impl Default for Scrubber {
    fn default() -> Self {
        Self::new(std::iter::empty::<&str>())
    }
}

/// The number of its values, and none of them.
impl std::fmt::Debug for Scrubber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Scrubber({} spellings)", self.known.values.len())
    }
}

impl ScrubStream {
    /// Takes the next bytes, and returns those that are decided.
    #[must_use]
    pub fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.pending.extend_from_slice(bytes);
        self.decide(StreamEnd::MayCome)
    }

    /// Returns what was held back: nothing follows it.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        self.decide(StreamEnd::No)
    }

    /// Like [`ScrubStream::finish`], for a stream that is followed by another.
    pub fn flush(&mut self) -> Vec<u8> {
        self.decide(StreamEnd::No)
    }

    fn decide(&mut self, more: StreamEnd) -> Vec<u8> {
        let input = std::mem::take(&mut self.pending);
        let mut output = Vec::with_capacity(input.len());
        let mut at = 0;
        while at < input.len() {
            if self.within.is_none() {
                let plain = self.scrubber.known.candidates.plain(&input[at..], more);
                output.extend_from_slice(&input[at..at + plain]);
                self.pass(&input[at..at + plain]);
                at += plain;
            }
            let rest = &input[at..];
            if rest.is_empty() {
                break;
            }
            let taken = match self.look(rest, more) {
                MatchStart::Plain => {
                    output.push(rest[0]);
                    self.pass(&rest[..1]);
                    1
                }
                MatchStart::Unsure => break,
                MatchStart::Secret { shown, hidden, within } => {
                    output.extend_from_slice(&rest[..shown]);
                    output.extend_from_slice(MASK);
                    self.within = within;
                    // What follows is after the mask, not after what it hides.
                    self.before = [MASK[MASK.len() - 2], MASK[MASK.len() - 1]];
                    shown + hidden
                }
                MatchStart::Rest { hidden, within } => {
                    self.within = within;
                    hidden
                }
            };
            at += taken;
        }
        self.pending = input[at..].to_vec();
        output
    }

    /// Remembers the last two of these bytes, which are plain.
    fn pass(&mut self, bytes: &[u8]) {
        self.before = match bytes {
            [] => self.before,
            [only] => [self.before[1], *only],
            [.., one, last] => [*one, *last],
        };
    }

    fn look(&self, rest: &[u8], more: StreamEnd) -> MatchStart {
        if let Some(within) = self.within {
            let sight = within.look(rest, more);
            if sight != MatchStart::Plain {
                return sight;
            }
            return MatchStart::Rest { hidden: 0, within: None };
        }
        match self.scrubber.known(rest, more) {
            MatchStart::Plain => shapes::look(self.before, rest, more),
            sight => sight,
        }
    }
}

/// Secret values. `Debug` shows how many there are.
#[derive(Clone, Default)]
pub struct Secrets(Vec<String>);

impl Secrets {
    /// These values.
    pub fn new(values: impl IntoIterator<Item = String>) -> Self {
        Self(values.into_iter().collect())
    }

    /// The secrets themselves.
    pub fn values(&self) -> &[String] {
        &self.0
    }
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secrets({})", self.0.len())
    }
}

/// The values of variables whose names denote secrets. A path is none.
pub fn secret_variables<'a>(variables: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<String> {
    let secret = variables.into_iter().filter(|(name, value)| is_secret_name(name) && !value.starts_with('/'));
    secret.map(|(_, value)| value.to_owned()).collect()
}

/// Whether a variable's name denotes a secret.
pub fn is_secret_name(name: &str) -> bool {
    const PARTS: [&str; 8] = ["TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "APIKEY", "AUTH", "PRIVATE"];
    let name = name.to_ascii_uppercase();
    name.ends_with("KEY") || PARTS.iter().any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TOKEN: &str = "canary+hunter2/\"quoted\"";

    fn scrubber() -> Scrubber {
        Scrubber::new([TOKEN, "two\nlines of one", "two\nlines"])
    }

    /// Texts that are full of secrets, nearly secrets, and what stands around them.
    fn hostile_text() -> impl Strategy<Value = String> {
        let piece = prop::sample::select(vec![
            TOKEN,
            "canary+hunter2/",
            "canary+hunter2/\\\"quoted\\\"",
            "two\nlines",
            "two\nlines of one",
            "two\nlines of none",
            "ghp_0123456789abcdefghijABCDEFGHIJ456789",
            "ghp_short",
            "sk-ant-api03-abcdefghijklmnopqrstuvwxyz",
            "AKIAIOSFODNN7EXAMPLE",
            "https://me:hunter2@forge.example/a",
            "https://forge.example/a@b",
            "Authorization: Bearer abcdefghijklmnopqrstuvwxyz012345",
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
            "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA\nabc=\n-----END RSA PRIVATE KEY-----",
            "-----BEGIN PRIVATE KEY-----\\nMIIEow\\n-----END PRIVATE KEY-----",
            "-----BEGIN CERTIFICATE-----",
            "\n",
            " ",
            "\\n",
            "task-1",
            "é",
            "word",
            "{\"text\":\"",
            "\"}",
        ]);
        prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        // [attack: secrets in logs, events, artifacts]
        #[test]
        fn where_a_stream_is_cut_changes_nothing(text in hostile_text(), sizes in prop::collection::vec(1_usize..9, 1..40)) {
            let whole = scrubber().text(&text);

            let mut stream = scrubber().stream();
            let mut cut = Vec::new();
            let mut rest = text.as_bytes();
            for size in sizes.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (chunk, after) = rest.split_at((*size).min(rest.len()));
                cut.extend(stream.push(chunk));
                rest = after;
            }
            cut.extend(stream.finish());

            prop_assert_eq!(String::from_utf8(cut).unwrap(), whole);
        }

        // [attack: secrets in logs, events, artifacts]
        #[test]
        fn no_secret_survives_and_scrubbing_twice_is_scrubbing_once(text in hostile_text()) {
            let once = scrubber().text(&text);

            for secret in [TOKEN, "two\nlines", "0123456789abcdefghijABCDEFGHIJ", "me:hunter2@", "MIIEow", "dozjgNry"] {
                prop_assert!(!once.contains(secret), "{once:?} holds {secret:?}");
            }
            prop_assert_eq!(scrubber().text(&once), once);
        }
    }

    #[test]
    fn a_key_that_begins_where_something_like_a_token_ends_is_a_key() {
        let text = "ghp_shorttask-1-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA\n-----END RSA PRIVATE KEY-----";

        assert_eq!(scrubber().text(text), "ghp_shorttask-1[secret]");
    }

    #[test]
    fn ordinary_text_passes_at_once() {
        let mut stream = scrubber().stream();

        let shown = stream.push(b"error: task-0123456789abcdef0123456789abcdef failed at src/lib.rs:7\n");

        assert_eq!(shown, b"error: task-0123456789abcdef0123456789abcdef failed at src/lib.rs:7\n");
    }

    // [attack: secrets in logs, events, artifacts]
    #[test]
    fn a_known_value_is_found_in_the_spellings_it_travels_in() {
        use base64::Engine as _;
        let header = base64::engine::general_purpose::STANDARD.encode(format!("x-access-token:{TOKEN}"));
        let escaped = serde_json::to_string(TOKEN).unwrap();

        for text in [TOKEN, &escaped, "canary%2Bhunter2%2F%22quoted%22", &header] {
            let shown = scrubber().text(text);
            assert!(shown.contains("[secret]"), "{shown}");
            assert!(!shown.contains("hunter2"), "{shown}");
        }
    }

    #[test]
    fn a_line_of_json_stays_one() {
        let line = r#"{"text":"key:\n-----BEGIN PRIVATE KEY-----\nMIIEow==\n-----END PRIVATE KEY-----\n\nghp_0123456789abcdefghijABCDEFGHIJ45 is \"it\""}"#;

        let shown: serde_json::Value = serde_json::from_str(&scrubber().text(line)).unwrap();

        assert_eq!(shown["text"], "key:\n[secret]\n\nghp_[secret] is \"it\"");
    }

    // [attack: secrets in logs, events, artifacts]
    #[test]
    fn a_document_is_scrubbed_to_its_leaves() {
        let mut document = serde_json::json!({"a": [{"b": format!("x {TOKEN} y")}], "n": 7});

        scrubber().document(&mut document);

        assert_eq!(document, serde_json::json!({"a": [{"b": "x [secret] y"}], "n": 7}));
    }

    #[test]
    fn a_key_that_never_ends_does_not_swallow_the_log() {
        let text = format!("-----BEGIN PRIVATE KEY-----\n{}\nthe end.", "A".repeat(64 * 1024));

        let shown = scrubber().text(&text);

        assert!(shown.ends_with("the end."), "{} bytes", shown.len());
    }

    // [attack: secrets in logs, events, artifacts]
    #[test]
    fn variables_are_secret_by_their_names() {
        let variables = [("GH_TOKEN", "a"), ("SSH_AUTH_SOCK", "/run/agent"), ("ANTHROPIC_API_KEY", "b"), ("CI", "1")];

        assert_eq!(secret_variables(variables), ["a", "b"]);
    }
}
