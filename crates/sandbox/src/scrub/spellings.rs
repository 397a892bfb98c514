//! The encodings of a value.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;

/// Shorter parts of an encoding are too likely to be something else.
const ENCODED_BYTES_MIN: usize = 12;

/// A value as it is, inside JSON, inside a URL, and inside base64 at any offset.
pub(super) fn spellings(value: &str) -> Vec<Vec<u8>> {
    let mut spelled = vec![value.as_bytes().to_vec(), in_json(value), in_an_address(value)];
    spelled.extend((0..3).map(|offset| in_base64(value.as_bytes(), offset)).filter(|it| it.len() >= ENCODED_BYTES_MIN));
    spelled
}

fn in_json(value: &str) -> Vec<u8> {
    let quoted = serde_json::to_string(value).unwrap_or_default();
    quoted.trim_matches('"').as_bytes().to_vec()
}

fn in_an_address(value: &str) -> Vec<u8> {
    let mut spelled = Vec::with_capacity(value.len());
    for byte in value.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => spelled.push(byte),
            other => spelled.extend(format!("%{other:02X}").into_bytes()),
        }
    }
    spelled
}

/// The characters that depend only on the value, when `offset` bytes modulo three precede it.
fn in_base64(value: &[u8], offset: usize) -> Vec<u8> {
    let bytes: Vec<u8> = std::iter::repeat_n(0, offset).chain(value.iter().copied()).collect();
    let encoded = STANDARD_NO_PAD.encode(&bytes).into_bytes();
    // Six bits a character: those with bits of a neighbour are left out.
    let first = (offset * 8).div_ceil(6);
    let last = bytes.len() * 8 / 6;
    encoded.get(first..last).unwrap_or_default().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    // [attack: secrets in logs, events, artifacts]
    #[test]
    fn base64_of_a_value_is_found_wherever_it_begins() {
        let value = "hunter2-hunter2";
        for (before, after) in [("", ""), ("u:", "x"), ("me", "yz"), ("abc", "")] {
            let whole = STANDARD_NO_PAD.encode(format!("{before}{value}{after}"));

            let found = (0..3).any(|offset| {
                let spelled = in_base64(value.as_bytes(), offset);
                whole.contains(std::str::from_utf8(&spelled).unwrap())
            });

            assert!(found, "{before:?} {after:?}");
        }
    }
}
