//! JSON-RPC, line by line.

use agent_client_protocol_schema::v1::{Error, RequestId};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// A message of the agent.
pub(super) enum Incoming {
    /// A request.
    Request { id: RequestId, method: String, params: Params },
    /// A notification.
    Notification { method: String, params: Params },
    /// An answer to our request of this number.
    Answer { number: i64, outcome: Result<Params, Error> },
}

/// Parameters or a result, not decoded yet.
pub(super) struct Params(Option<Box<RawValue>>);

impl Params {
    /// Decodes it. Absent reads like `null`.
    pub(super) fn read<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.0.as_deref().map_or("null", RawValue::get))
    }
}

/// Reads a line. `None` for one that is no message, such as other output of the program.
pub(super) fn hear(line: &str) -> Option<Incoming> {
    let Envelope { id, method, params, result, error } = serde_json::from_str(line).ok()?;
    match (method, id) {
        (Some(method), Some(id)) => Some(Incoming::Request { id, method, params: Params(params) }),
        (Some(method), None) => Some(Incoming::Notification { method, params: Params(params) }),
        (None, Some(RequestId::Number(number))) => {
            let outcome = error.map_or(Ok(Params(result)), Err);
            Some(Incoming::Answer { number, outcome })
        }
        (None, _) => None,
    }
}

#[derive(Deserialize)]
struct Envelope {
    #[serde(default)]
    id: Option<RequestId>,
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    params: Option<Box<RawValue>>,
    #[serde(default)]
    result: Option<Box<RawValue>>,
    #[serde(default)]
    error: Option<Error>,
}

/// A request line.
pub(super) fn request(number: i64, method: &str, params: &impl Serialize) -> Vec<u8> {
    line(&json!({ "jsonrpc": "2.0", "id": number, "method": method, "params": value(params) }))
}

/// A notification line.
pub(super) fn notification(method: &str, params: &impl Serialize) -> Vec<u8> {
    line(&json!({ "jsonrpc": "2.0", "method": method, "params": value(params) }))
}

/// An answer line.
pub(super) fn answer(id: &RequestId, outcome: Result<Value, Error>) -> Vec<u8> {
    match outcome {
        Ok(result) => line(&json!({ "jsonrpc": "2.0", "id": value(id), "result": result })),
        Err(error) => line(&json!({ "jsonrpc": "2.0", "id": value(id), "error": value(&error) })),
    }
}

/// A message as a value. A path that is not UTF-8 becomes `null`, which the agent rejects.
pub(super) fn value(message: &impl Serialize) -> Value {
    serde_json::to_value(message).unwrap_or_default()
}

fn line(message: &Value) -> Vec<u8> {
    let mut line = message.to_string().into_bytes();
    line.push(b'\n');
    line
}
