//! What a webhook has delivered: one document for each.

use std::collections::BTreeMap;

use domain::{Collection, Expected, Position, Revision, Versioned, WebhookName};
use protocol::WebhookAlert;
use serde::{Deserialize, Serialize};

use crate::commit::cas_documents::{PutOutcome, is_conflict};
use crate::coordinator::Coordinator;
use crate::error::Error;

/// The version of the documents.
const VERSION: u16 = 1;

/// What a webhook has delivered, as stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WebhookRecord {
    pub(crate) v: u16,
    /// The events up to here were delivered, or are not for this webhook.
    pub(crate) position: Position,
    /// The alerts that last, by their identity.
    #[serde(default)]
    pub(crate) alerts: BTreeMap<String, RaisedAlert>,
}

/// An alert that lasts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RaisedAlert {
    /// The id of the delivery; stored before it is sent, so that a repetition has the same one.
    pub(crate) id: String,
    /// Whether the receiver was told that it was raised.
    pub(crate) is_told: bool,
    pub(crate) alert: WebhookAlert,
}

/// The record of a webhook in memory.
pub(super) struct Cursor {
    pub(super) record: WebhookRecord,
    revision: Revision,
    /// The position that was reached; the stored one follows.
    pub(super) reached: Position,
}

impl Coordinator {
    /// Reads the record of a webhook. A new webhook starts at the end of the log.
    pub(super) async fn load_cursor(&self, name: &WebhookName) -> Result<Cursor, Error> {
        let end = self.log_end().await?;
        let found = self.ports.fleet.document(Collection::Webhooks, name.as_str()).await?;
        let known = found.and_then(|found| {
            let record = serde_json::from_value::<WebhookRecord>(found.value).ok()?;
            Some(Versioned { value: record, revision: found.revision })
        });
        let Some(found) = known else {
            let record = WebhookRecord { v: VERSION, position: end, alerts: BTreeMap::new() };
            let put = self.put_document(Collection::Webhooks, name.as_str(), Expected::Absent, Some(&record)).await?;
            return match put {
                PutOutcome::Written(revision) => Ok(Cursor { reached: end, record, revision }),
                PutOutcome::Lost(Some(found)) => {
                    let reached = found.value.position;
                    Ok(Cursor { reached, record: found.value, revision: found.revision })
                }
                PutOutcome::Lost(None) => Err(is_conflict()),
            };
        };
        // A restored store can be shorter than the log that the webhook knows.
        let is_beyond = found.value.position > end && !self.has_reached(found.value.position).await?;
        let reached = if is_beyond { end } else { found.value.position };
        Ok(Cursor { reached, record: found.value, revision: found.revision })
    }

    /// Writes the record of a webhook, with the position that was reached.
    pub(super) async fn keep_cursor(
        &self,
        name: &WebhookName,
        cursor: &mut Cursor,
        record: WebhookRecord,
    ) -> Result<(), Error> {
        let record = WebhookRecord { position: cursor.reached, ..record };
        let expected = Expected::At(cursor.revision);
        match self.put_document(Collection::Webhooks, name.as_str(), expected, Some(&record)).await? {
            PutOutcome::Written(revision) => {
                (cursor.record, cursor.revision) = (record, revision);
                Ok(())
            }
            PutOutcome::Lost(found) => {
                if let Some(found) = found {
                    cursor.reached = cursor.reached.max(found.value.position);
                    (cursor.record, cursor.revision) = (found.value, found.revision);
                }
                Err(is_conflict())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // [T6]
    #[test]
    fn a_record_of_version_1_loads() {
        let stored = r#"{"v":1,"position":42,"alerts":{"disk_full//":{"id":"00ff","isTold":true,"alert":{"code":"disk_full","message":"full","since":"2026-01-01T00:00:00.000Z"}}}}"#;

        let record: WebhookRecord = serde_json::from_str(stored).unwrap();

        assert_eq!((record.v, record.position.0, record.alerts["disk_full//"].is_told), (1, 42, true));
        let smallest: WebhookRecord = serde_json::from_str(r#"{"v":1,"position":0}"#).unwrap();
        assert!(smallest.alerts.is_empty());
    }
}
