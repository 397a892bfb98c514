//! The secret that a forge shares with the server and signs its webhooks with.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The secret that a forge signs its webhooks with. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookSecret(String);

impl WebhookSecret {
    /// This secret; `None` for an empty one, which would accept every sender.
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        (!text.is_empty()).then(|| Self(text.to_owned()))
    }

    /// Parses the signature of a webhook: `sha256=` and the digest in hexadecimal. `None` if it is malformed.
    pub(crate) fn signature(&self, text: &str) -> Option<Signature> {
        let digest = text.strip_prefix("sha256=").and_then(bytes_of).filter(|digest| digest.len() == DIGEST_LEN)?;
        let mac = Hmac::<Sha256>::new_from_slice(self.0.as_bytes()).ok()?;
        Some(Signature { mac, digest })
    }
}

/// Bytes of a digest.
const DIGEST_LEN: usize = 32;

/// A signature that is verified while its message is read.
pub(crate) struct Signature {
    mac: Hmac<Sha256>,
    digest: Vec<u8>,
}

impl Signature {
    /// Adds the next part of the message.
    pub(crate) fn update(&mut self, part: &[u8]) {
        self.mac.update(part);
    }

    /// Whether the message was signed with the secret. In constant time.
    pub(crate) fn verify(self) -> bool {
        self.mac.verify_slice(&self.digest).is_ok()
    }
}

impl fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebhookSecret(…)")
    }
}

fn bytes_of(hex: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = hex.chars().map(|c| c.to_digit(16).and_then(|digit| digit.try_into().ok())).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    // [attack: forged or repeated webhook]
    #[test]
    fn the_example_of_githubs_manual_verifies() {
        let secret = WebhookSecret::new("It's a Secret to Everybody\n").unwrap();
        let right = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";

        let has_signed = |parts: [&str; 2], signature: &str| {
            let Some(mut signature) = secret.signature(signature) else { return false };
            parts.into_iter().for_each(|part| signature.update(part.as_bytes()));
            signature.verify()
        };
        assert!(has_signed(["Hello, ", "World!"], right));
        assert!(!has_signed(["Hello, ", "World?"], right));
        for wrong in ["", "sha256=", "sha256=7571", "757107", &right[..right.len() - 1], &right.replace('7', "8")] {
            assert!(!has_signed(["Hello, ", "World!"], wrong), "{wrong}");
        }
    }

    #[test]
    fn an_empty_secret_is_none() {
        assert_eq!(WebhookSecret::new(" \n"), None);
    }
}
