//! Proof that a coordinator issued a token, before a client sends the token.
//!
//! The store keeps only the SHA-256 of each token. That digest is the key of the proof: the coordinator reads it from
//! its store, the client computes it from the token. A process without the store cannot answer, and the challenge
//! reveals nothing useful to it.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use utoipa::ToSchema;

/// Domain separation of the proof from other uses of the digest as a key.
const PROOF_PURPOSE: &[u8] = b"gigafactory coordinator identity v1";

/// Domain separation of the lookup name.
const LOOKUP_PURPOSE: &[u8] = b"gigafactory token lookup v1";

/// Length of a lookup name: long enough to be unique.
const LOOKUP_LEN: usize = 16;

/// Asks a coordinator to prove that it issued a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct IdentityChallenge {
    /// Random, to prevent replay.
    pub nonce: String,
    /// Lookup name of the token, derived from it; never the token itself.
    pub token: String,
    /// The address that the client dialled. A coordinator gives a proof only for its own addresses.
    pub address: String,
}

/// The answer to a challenge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct IdentityProof {
    /// HMAC-SHA-256 of purpose, nonce and address, with the digest of the token as its key.
    pub proof: String,
}

/// The SHA-256 of a token: stored by the coordinator, and the key of the proof.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenDigest([u8; 32]);

impl TokenDigest {
    /// The digest of a token.
    pub fn of(token: &str) -> Self {
        Self(Sha256::digest(token.as_bytes()).into())
    }

    /// Parses a digest written by [`TokenDigest::to_text`].
    pub fn from_text(text: &str) -> Option<Self> {
        URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok().map(Self)
    }

    /// The digest as stored.
    pub fn to_text(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.0)
    }

    /// The lookup name of this token in a challenge.
    pub fn lookup(&self) -> String {
        let name = self.mac(LOOKUP_PURPOSE, &[]).finalize().into_bytes();
        URL_SAFE_NO_PAD.encode(&name[..LOOKUP_LEN])
    }

    /// Computes the proof for a challenge.
    pub fn prove(&self, challenge: &IdentityChallenge) -> IdentityProof {
        let proof = self.answer(challenge).finalize().into_bytes();
        IdentityProof { proof: URL_SAFE_NO_PAD.encode(proof) }
    }

    /// Whether a proof is valid for this digest.
    pub fn is_proven(&self, challenge: &IdentityChallenge, answer: &IdentityProof) -> bool {
        URL_SAFE_NO_PAD.decode(&answer.proof).is_ok_and(|proof| self.answer(challenge).verify_slice(&proof).is_ok())
    }

    fn answer(&self, challenge: &IdentityChallenge) -> Hmac<Sha256> {
        self.mac(PROOF_PURPOSE, &[&challenge.nonce, &challenge.address])
    }

    /// Each part with its length, so that different parts never give the same input.
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

/// The SHA-256 of a certificate, for pinning.
pub fn fingerprint(certificate: &[u8]) -> [u8; 32] {
    Sha256::digest(certificate).into()
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
    fn a_digest_round_trips_and_its_lookup_does_not_leak_it() {
        let ours = TokenDigest::of("giga_adm_a");

        assert_eq!(TokenDigest::from_text(&ours.to_text()), Some(ours.clone()));
        assert!(!ours.to_text().contains(&ours.lookup()));
        assert_eq!(TokenDigest::from_text("short"), None);
    }
}
