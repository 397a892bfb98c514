//! Shapes that only secrets have.

use super::{MatchStart, StreamEnd};

/// Unique prefixes, and how many characters must follow for a token.
const UNMISTAKABLE: [(&[u8], usize); 19] = [
    (b"giga_adm_", 20),
    (b"giga_opr_", 20),
    (b"giga_vwr_", 20),
    (b"giga_fac_", 20),
    (b"giga_join_", 20),
    (b"github_pat_", 20),
    (b"ghp_", 20),
    (b"gho_", 20),
    (b"ghu_", 20),
    (b"ghs_", 20),
    (b"ghr_", 20),
    (b"glpat-", 16),
    (b"sk-ant-", 16),
    (b"sk-proj-", 16),
    (b"xoxb-", 10),
    (b"xoxp-", 10),
    (b"xapp-", 10),
    (b"pypi-", 40),
    (b"dop_v1_", 40),
];

/// Prefixes that are also ends of words, so that a token must start at a word boundary.
const AMBIGUOUS: [(&[u8], usize); 9] = [
    (b"sk-", 32),
    (b"AKIA", 16),
    (b"ASIA", 16),
    (b"AIza", 30),
    (b"npm_", 30),
    (b"hf_", 30),
    (b"Bearer ", 20),
    (b"bearer ", 20),
    (b"Basic ", 20),
];

const KEY_BEGIN: &[u8] = b"-----BEGIN ";
const KEY_END: &[u8] = b"-----END ";
const DASHES: &[u8] = b"-----";
/// `ENCRYPTED PRIVATE KEY`, `OPENSSH PRIVATE KEY`, `PGP PRIVATE KEY BLOCK`.
const LABEL_BYTES_MAX: usize = 48;
/// The longest key in use, 16,384 bits of RSA, takes 13 kB.
const KEY_BYTES_MAX: usize = 16 * 1024;

/// A user and a password in a URL.
const PASSWORD_BEGIN: &[u8] = b"://";
const USERINFO_BYTES_MAX: usize = 512;

/// Each of the first two parts of a signed token.
const SIGNED_BEGIN: &[u8] = b"eyJ";
const JWT_PART_BYTES_MAX: usize = 4 * 1024;
const JWT_PART_BYTES_MIN: usize = 10;

/// The rest of a secret whose start is masked already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SecretTail {
    /// A token: up to the first character that is in none.
    Token,
    /// A private key: up to its last line, or this many more bytes.
    Key { left: usize },
}

impl SecretTail {
    /// What the next bytes are, [`Sight::Plain`] if they no longer belong to it.
    pub(super) fn look(self, rest: &[u8], more: StreamEnd) -> MatchStart {
        match self {
            // A key may start where a token ends.
            Self::Token if rest.starts_with(DASHES) => MatchStart::Plain,
            Self::Token if more == StreamEnd::MayCome && DASHES.starts_with(rest) => MatchStart::Unsure,
            Self::Token if is_token(rest[0]) => MatchStart::Rest { hidden: 1, within: Some(self) },
            Self::Token => MatchStart::Plain,
            Self::Key { left } => key_goes_on(rest, left, more),
        }
    }
}

/// The prefixes of everything that [`look`] finds.
pub(super) fn beginnings<'b>() -> impl Iterator<Item = &'b [u8]> {
    let tokens = UNMISTAKABLE.iter().chain(&AMBIGUOUS).map(|(prefix, _)| *prefix);
    tokens.chain([KEY_BEGIN, PASSWORD_BEGIN, SIGNED_BEGIN])
}

/// What starts here, after the two bytes `before`.
pub(super) fn look(before: [u8; 2], rest: &[u8], more: StreamEnd) -> MatchStart {
    match rest[0] {
        b'-' => key(rest, more),
        b':' => password(rest, more),
        first if first.is_ascii_alphabetic() => {
            let rules = [token(&UNMISTAKABLE, rest, more), signed(rest, more)];
            let ambiguous = || if is_boundary(before) { token(&AMBIGUOUS, rest, more) } else { MatchStart::Plain };
            rules.into_iter().find(|sight| *sight != MatchStart::Plain).unwrap_or_else(ambiguous)
        }
        _ => MatchStart::Plain,
    }
}

/// Whether a word starts after these bytes. An escape inside JSON is no part of the word after it.
fn is_boundary(before: [u8; 2]) -> bool {
    let is_escape = before[0] == b'\\' && matches!(before[1], b'n' | b'r' | b't');
    is_escape || !(before[1].is_ascii_alphanumeric() || before[1] == b'_')
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'+' | b'/' | b'=' | b'~')
}

fn token(beginnings: &[(&[u8], usize)], rest: &[u8], more: StreamEnd) -> MatchStart {
    for &(prefix, length_min) in beginnings {
        if !rest.starts_with(prefix) {
            if more == StreamEnd::MayCome && prefix.starts_with(rest) {
                return MatchStart::Unsure;
            }
            continue;
        }
        let tail = &rest[prefix.len()..];
        let mut length = 0;
        while length < length_min && length < tail.len() {
            let here = &tail[length..];
            // A key may start where a token ends.
            if here.starts_with(DASHES) || !is_token(here[0]) {
                break;
            }
            if more == StreamEnd::MayCome && DASHES.starts_with(here) {
                return MatchStart::Unsure;
            }
            length += 1;
        }
        if length == length_min {
            return MatchStart::Secret { shown: prefix.len(), hidden: length, within: Some(SecretTail::Token) };
        }
        if length == tail.len() && more == StreamEnd::MayCome {
            return MatchStart::Unsure;
        }
    }
    MatchStart::Plain
}

/// `eyJ….eyJ….…`: a JSON Web Token. Its readable parts are no secret; its signature is.
fn signed(rest: &[u8], more: StreamEnd) -> MatchStart {
    let mut at = 0;
    for _ in 0..2 {
        let part = &rest[at..];
        let head = &part[..part.len().min(SIGNED_BEGIN.len())];
        if !SIGNED_BEGIN.starts_with(head) {
            return MatchStart::Plain;
        }
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        let length = part.iter().take(JWT_PART_BYTES_MAX).take_while(|byte| is_part(byte)).count();
        match part.get(length) {
            Some(b'.') if length >= JWT_PART_BYTES_MIN => at += length + 1,
            None if more == StreamEnd::MayCome && length < JWT_PART_BYTES_MAX => return MatchStart::Unsure,
            _ => return MatchStart::Plain,
        }
    }
    MatchStart::Secret { shown: 0, hidden: at, within: Some(SecretTail::Token) }
}

/// `://user:password@`
fn password(rest: &[u8], more: StreamEnd) -> MatchStart {
    if !rest.starts_with(PASSWORD_BEGIN) {
        let is_unsure = more == StreamEnd::MayCome && PASSWORD_BEGIN.starts_with(rest);
        return if is_unsure { MatchStart::Unsure } else { MatchStart::Plain };
    }
    let tail = &rest[PASSWORD_BEGIN.len()..];
    let is_inside = |byte: &u8| {
        !(byte.is_ascii_whitespace() || matches!(byte, b'/' | b'@' | b'"' | b'\'' | b'<' | b'>' | b'\\' | b'?' | b'#'))
    };
    let length = tail.iter().take(USERINFO_BYTES_MAX).take_while(|byte| is_inside(byte)).count();
    match tail.get(length) {
        Some(b'@') if tail[..length].contains(&b':') => {
            MatchStart::Secret { shown: PASSWORD_BEGIN.len(), hidden: length, within: None }
        }
        None if more == StreamEnd::MayCome && length < USERINFO_BYTES_MAX => MatchStart::Unsure,
        _ => MatchStart::Plain,
    }
}

fn key(rest: &[u8], more: StreamEnd) -> MatchStart {
    let may_come = more == StreamEnd::MayCome;
    if !rest.starts_with(KEY_BEGIN) {
        return if may_come && KEY_BEGIN.starts_with(rest) { MatchStart::Unsure } else { MatchStart::Plain };
    }
    let tail = &rest[KEY_BEGIN.len()..];
    let is_label = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b' ';
    let length = tail.iter().take(LABEL_BYTES_MAX).take_while(|byte| is_label(byte)).count();
    let (label, close) = tail.split_at(length);
    if close.starts_with(DASHES) {
        let is_private = label.windows(11).any(|word| word == b"PRIVATE KEY");
        let hidden = KEY_BEGIN.len() + length + DASHES.len();
        let within = Some(SecretTail::Key { left: KEY_BYTES_MAX });
        return if is_private { MatchStart::Secret { shown: 0, hidden, within } } else { MatchStart::Plain };
    }
    if may_come && length < LABEL_BYTES_MAX && DASHES.starts_with(close) {
        MatchStart::Unsure
    } else {
        MatchStart::Plain
    }
}

fn key_goes_on(rest: &[u8], left: usize, more: StreamEnd) -> MatchStart {
    let may_come = more == StreamEnd::MayCome;
    if rest.starts_with(KEY_END) {
        return key_ends(rest, may_come);
    }
    if may_come && KEY_END.starts_with(rest) {
        return MatchStart::Unsure;
    }
    let hidden = match rest {
        // The line breaks of a key inside JSON.
        [b'\\', b'n' | b'r' | b't', ..] => 2,
        [b'\\'] if may_come => return MatchStart::Unsure,
        [byte, ..] if byte.is_ascii_alphanumeric() || byte.is_ascii_whitespace() => 1,
        [b'+' | b'/' | b'=' | b':' | b',' | b'-', ..] => 1,
        _ => return MatchStart::Plain,
    };
    if left == 0 {
        return MatchStart::Plain;
    }
    MatchStart::Rest { hidden, within: Some(SecretTail::Key { left: left.saturating_sub(hidden) }) }
}

fn key_ends(rest: &[u8], may_come: bool) -> MatchStart {
    let tail = &rest[KEY_END.len()..];
    let length = tail.iter().take(LABEL_BYTES_MAX).take_while(|byte| **byte != b'-').count();
    let close = &tail[length..];
    if close.starts_with(DASHES) {
        return MatchStart::Rest { hidden: KEY_END.len() + length + DASHES.len(), within: None };
    }
    if may_come && length < LABEL_BYTES_MAX && DASHES.starts_with(close) {
        return MatchStart::Unsure;
    }
    MatchStart::Rest { hidden: KEY_END.len(), within: None }
}
