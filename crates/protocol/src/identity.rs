//! How a coordinator proves that it issued a token, before a client sends the token.
//!
//! The store keeps the SHA-256 of every token and nothing else of it. That digest is the key of the proof: the coordinator
//! finds it in its store, the client computes it from the token. A process without the store cannot answer, and learns from
//! the challenge nothing that it could use.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use utoipa::ToSchema;

/// Separates the proof from everything else that a digest of a token may ever be the key of.
const PROOF_PURPOSE: &[u8] = b"gigafactory coordinator identity v1";

/// The same for the name that a digest is looked up by.
const LOOKUP_PURPOSE: &[u8] = b"gigafactory token lookup v1";

/// The bytes of a lookup name: enough that no two tokens share one.
const LOOKUP_LEN: usize = 16;

/// Asks a coordinator to prove that it issued a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct IdentityChallenge {
    /// Random: an old proof is worthless.
    pub nonce: String,
    /// Which token: a name derived from it, never the token.
    pub token: String,
    /// The address that the client dialled. A coordinator proves nothing for an address that is not its own.
    pub address: String,
}

/// The answer to a challenge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct IdentityProof {
    /// HMAC-SHA-256 of purpose, nonce and address, with the digest of the token as its key.
    pub proof: String,
}

/// The SHA-256 of a token: what its coordinator stores, and the key of the proof.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenDigest([u8; 32]);

impl TokenDigest {
    /// The digest of a token.
    pub fn of(token: &str) -> Self {
        Self(Sha256::digest(token.as_bytes()).into())
    }

    /// A digest as [`TokenDigest::to_text`] writes it.
    pub fn from_text(text: &str) -> Option<Self> {
        URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok().map(Self)
    }

    /// The digest in the form that stores keep it in.
    pub fn to_text(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.0)
    }

    /// The name that a challenge calls this token by.
    pub fn lookup(&self) -> String {
        let name = self.mac(LOOKUP_PURPOSE, &[]).finalize().into_bytes();
        URL_SAFE_NO_PAD.encode(&name[..LOOKUP_LEN])
    }

    /// The coordinator's answer to a challenge.
    pub fn prove(&self, challenge: &IdentityChallenge) -> IdentityProof {
        let proof = self.answer(challenge).finalize().into_bytes();
        IdentityProof { proof: URL_SAFE_NO_PAD.encode(proof) }
    }

    /// Whether an answer is from a process that has this digest.
    pub fn is_proven(&self, challenge: &IdentityChallenge, answer: &IdentityProof) -> bool {
        URL_SAFE_NO_PAD.decode(&answer.proof).is_ok_and(|proof| self.answer(challenge).verify_slice(&proof).is_ok())
    }

    fn answer(&self, challenge: &IdentityChallenge) -> Hmac<Sha256> {
        self.mac(PROOF_PURPOSE, &[&challenge.nonce, &challenge.address])
    }

    /// Each part with its length, so that no two lists of parts read the same.
    fn mac(&self, purpose: &[u8], parts: &[&str]) -> Hmac<Sha256> {
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) else {
            unreachable!("HMAC takes keys of any length");
        };
        for part in std::iter::once(purpose).chain(parts.iter().map(|part| part.as_bytes())) {
            mac.update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
            mac.update(part);
        }
        mac
    }
}

impl std::fmt::Debug for TokenDigest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TokenDigest(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn challenge(digest: &TokenDigest, nonce: &str, address: &str) -> IdentityChallenge {
        IdentityChallenge { nonce: nonce.to_owned(), token: digest.lookup(), address: address.to_owned() }
    }

    #[test]
    fn only_the_holder_of_the_digest_can_answer() {
        let (ours, other) = (TokenDigest::of("giga_adm_a"), TokenDigest::of("giga_adm_b"));
        let asked = challenge(&ours, "n1", "http://127.0.0.1:7878");

        assert!(ours.is_proven(&asked, &ours.prove(&asked)));
        assert!(!ours.is_proven(&asked, &other.prove(&asked)));
        assert!(!ours.is_proven(&asked, &IdentityProof { proof: asked.token.clone() }));
    }

    #[test]
    fn a_proof_is_for_one_nonce_and_one_address() {
        let ours = TokenDigest::of("giga_adm_a");
        let asked = challenge(&ours, "n1", "http://127.0.0.1:7878");
        let proof = ours.prove(&asked);

        for other in [
            challenge(&ours, "n2", "http://127.0.0.1:7878"),
            challenge(&ours, "n1", "http://127.0.0.1:9999"),
            challenge(&ours, "n1h", "ttp://127.0.0.1:7878"),
        ] {
            assert!(!ours.is_proven(&other, &proof), "{other:?}");
        }
    }

    #[test]
    fn a_digest_reads_back_and_its_lookup_name_is_not_part_of_it() {
        let ours = TokenDigest::of("giga_adm_a");

        assert_eq!(TokenDigest::from_text(&ours.to_text()), Some(ours.clone()));
        assert!(!ours.to_text().contains(&ours.lookup()));
        assert_eq!(TokenDigest::from_text("short"), None);
    }
}
