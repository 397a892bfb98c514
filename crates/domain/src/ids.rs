//! Identifiers and counters. Each has its own type, so that the compiler rejects an epoch in place of a revision.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::names::ProductId;
use crate::time::Timestamp;

/// A text that is not a UUID.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an id: expected a UUID such as `0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6a`")]
pub struct IdError(pub String);

/// Accepts only the hyphenated form: one id has one spelling in documents, URLs, refs and directories.
fn hyphenated(text: &str) -> Result<Uuid, IdError> {
    match Uuid::try_parse(text) {
        Ok(id) if text.len() == 36 => Ok(id),
        _ => Err(IdError(crate::names::escape_for_terminal(text))),
    }
}

/// Deserialises an id.
struct Hyphenated;

impl serde::de::Visitor<'_> for Hyphenated {
    type Value = Uuid;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a UUID")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Uuid, E> {
        hyphenated(text).map_err(E::custom)
    }
}

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, utoipa::ToSchema)]
        #[serde(transparent)]
        #[schema(
            value_type = String, format = "uuid", min_length = 36, max_length = 36,
            example = "0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6a",
        )]
        pub struct $name(Uuid);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str(Hyphenated).map(Self)
            }
        }

        impl $name {
            /// A UUIDv7: ordered by creation time, made unique by ten random bytes.
            pub fn new(now: Timestamp, random: [u8; 10]) -> Self {
                let millis = u64::try_from(now.as_millis()).unwrap_or(0);
                Self(uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid())
            }

            /// The sixteen bytes of the id.
            pub fn as_bytes(&self) -> &[u8; 16] {
                self.0.as_bytes()
            }

            /// Builds the id from sixteen stored bytes.
            pub fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(Uuid::from_bytes(bytes))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.hyphenated().fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                hyphenated(text).map(Self)
            }
        }
    };
}

uuid_id! {
    /// A job. Ids are never reused.
    JobId
}
uuid_id! {
    /// One process of a factory. A restarted factory is a new instance of the same factory.
    InstanceId
}
uuid_id! {
    /// Random per attempt to accept a dispatch. The factory persists it, so that it can repeat a claim whose answer was
    /// lost.
    ClaimNonce
}
uuid_id! {
    /// Public id of a stored token, not its secret.
    TokenId
}
uuid_id! {
    /// Public id of a browser session, not its secrets.
    SessionId
}

impl JobId {
    /// The id derived from an idempotency key. The same product and key give the same id, so that "create if absent"
    /// deduplicates [J3].
    pub fn derived(product: &ProductId, key: &str) -> Self {
        let mut hash = Sha256::new();
        hash.update(product.as_str().as_bytes());
        hash.update([0]);
        hash.update(key.as_bytes());
        let digest = hash.finalize();
        let mut bytes = [0_u8; 16];
        bytes.copy_from_slice(&digest[..16]);
        Self(uuid::Builder::from_custom_bytes(bytes).into_uuid())
    }
}

macro_rules! counter {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, utoipa::ToSchema,
        )]
        #[serde(transparent)]
        #[schema(value_type = u64, minimum = 0, maximum = 9_007_199_254_740_991_u64)]
        pub struct $name(pub u64);

        impl $name {
            /// The successor.
            #[must_use]
            pub fn next(self) -> Self {
                Self(self.0 + 1)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

counter! {
    /// The fencing token of a job. It rises on every grant and on every write that clears a holder, and never falls
    /// [I2].
    Epoch
}
counter! {
    /// How often the store was restored from a backup: the high bits of every epoch (row 28).
    Generation
}
counter! {
    /// Number of a dispatch within its job. With the job's id it identifies a broker message [I5].
    DispatchSeq
}
counter! {
    /// Revision of a stored document, compared by every write.
    Revision
}
counter! {
    /// Sequence number of an event within its job, without gaps.
    EventSeq
}
counter! {
    /// A position in the store's commit order: the cursor of the fleet's event stream.
    Position
}

#[cfg(test)]
mod tests {
    use super::*;

    // [row 29]
    #[test]
    fn a_job_id_is_a_uuid_of_version_seven() {
        let id = JobId::new(Timestamp::from_millis(1_700_000_000_000), [7; 10]);

        assert_eq!(id.0.get_version_num(), 7);
        assert_eq!(id.to_string().parse::<JobId>(), Ok(id));
    }

    #[test]
    fn ids_made_later_sort_later() {
        let early = JobId::new(Timestamp::from_millis(1_000), [255; 10]);
        let late = JobId::new(Timestamp::from_millis(1_001), [0; 10]);

        assert!(early < late);
    }

    // [§9]
    #[test]
    fn one_idempotency_key_is_one_id_per_product() {
        let notes: ProductId = "notes".parse().unwrap();
        let tracker: ProductId = "tracker".parse().unwrap();

        assert_eq!(JobId::derived(&notes, "k"), JobId::derived(&notes, "k"));
        assert_ne!(JobId::derived(&notes, "k"), JobId::derived(&tracker, "k"));
    }

    #[test]
    fn only_hyphenated_ids_are_deserialised() {
        let id = JobId::new(Timestamp::from_millis(1_700_000_000_000), [7; 10]);
        let bare = id.to_string().replace('-', "");

        assert_eq!(serde_json::from_value::<JobId>(id.to_string().into()).ok(), Some(id));
        for spelling in [bare, format!("{{{id}}}"), format!("urn:uuid:{id}")] {
            assert!(serde_json::from_value::<JobId>(spelling.into()).is_err());
        }
    }

    #[test]
    fn only_hyphenated_ids_are_parsed() {
        assert!("0190f3a47c1e7b529d0a1f2e3d4c5b6a".parse::<JobId>().is_err());
        assert!("{0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6a}".parse::<JobId>().is_err());
        assert!("../etc/passwd".parse::<JobId>().is_err());
    }
}
