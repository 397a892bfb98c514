//! The nonce of claims: on disk before it is sent, and reused until it has won something.

use std::fs;
use std::path::PathBuf;

use domain::{ClaimNonce, InstanceId};
use parking_lot::Mutex;
use sandbox::{remove_file, replace_file};
use serde::{Deserialize, Serialize};
use tracing::warn;
use workspace::Error;

use super::run_journal::off_thread;

/// The current nonce. An idle factory that polls writes nothing: a nonce that has won nothing is reused.
pub(super) struct Nonce {
    path: PathBuf,
    current: Mutex<Option<ClaimNonce>>,
}

/// A claim that may have been answered when its process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ClaimNote {
    v: u32,
    /// The process that claimed.
    pub(super) instance: InstanceId,
    /// The nonce of the claim.
    pub(super) nonce: ClaimNonce,
}

impl Nonce {
    pub(super) fn at(path: PathBuf) -> Self {
        Self { path, current: Mutex::default() }
    }

    /// The current nonce, or a new one, once it is on disk; `None` on an I/O error.
    pub(super) async fn current(&self, instance: InstanceId, fresh: ClaimNonce) -> Option<ClaimNonce> {
        if let Some(nonce) = *self.current.lock() {
            return Some(nonce);
        }
        let (path, note) = (self.path.clone(), ClaimNote { v: 1, instance, nonce: fresh });
        let written = off_thread(move || {
            let bytes = serde_json::to_vec(&note).map_err(|error| Error::disk("write", &path)(error.into()))?;
            replace_file(&path, &bytes).map_err(Error::disk("write", &path))
        });
        match written.await {
            Ok(()) => {
                *self.current.lock() = Some(fresh);
                Some(fresh)
            }
            Err(error) => {
                warn!(%error, "Cannot write down what work is claimed under: nothing is claimed");
                None
            }
        }
    }

    /// The nonce has won something, or can never win anything: the next claim uses another.
    pub(super) fn spent(&self) {
        *self.current.lock() = None;
    }

    /// The claim that an earlier process left behind.
    pub(super) async fn left_behind(&self) -> Option<ClaimNote> {
        let path = self.path.clone();
        let read = off_thread(move || Ok(fs::read(&path).ok())).await;
        serde_json::from_slice(&read.ok().flatten()?).ok()
    }

    /// Nothing was left behind, or it is settled.
    pub(super) async fn forget(&self) {
        let path = self.path.clone();
        if let Err(error) = off_thread(move || remove_file(&path).map_err(Error::disk("remove", &path))).await {
            warn!(%error, "Cannot remove the note on an old claim: it will be looked at again");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nonce(n: u8) -> ClaimNonce {
        ClaimNonce::from_bytes([n; 16])
    }

    // [F6]
    #[tokio::test]
    async fn a_nonce_is_used_until_it_is_spent_and_outlives_its_process() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("claim.json");
        let (kept, instance) = (Nonce::at(path.clone()), InstanceId::from_bytes([9; 16]));

        let first = kept.current(instance, nonce(1)).await;
        let again = kept.current(instance, nonce(2)).await;
        kept.spent();
        let next = kept.current(instance, nonce(3)).await;

        assert_eq!((first, again, next), (Some(nonce(1)), Some(nonce(1)), Some(nonce(3))));
        let later = Nonce::at(path);
        assert_eq!(later.left_behind().await, Some(ClaimNote { v: 1, instance, nonce: nonce(3) }));
        later.forget().await;
        assert_eq!(later.left_behind().await, None);
    }

    #[tokio::test]
    async fn nothing_is_claimed_under_a_nonce_that_cannot_be_written_down() {
        let kept = Nonce::at("/nowhere/at/all/claim.json".into());

        assert_eq!(kept.current(InstanceId::from_bytes([9; 16]), nonce(1)).await, None);
    }
}
