//! A subscription's credential, and the endpoint that refreshes it.

use serde_json::{Value, json};

use crate::http::Answer;

/// `{"alg":"none"}`, and `acct-1` as the account of the user `u-1`.
const ID_TOKEN: &str = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJ1LTEiLCJodHRwczovL2FwaS5vcGVuYWkuY29tL2F1dGgiOnsiY2hhdGdwdF9hY2Nvd\
    W50X2lkIjoiYWNjdC0xIiwiY2hhdGdwdF91c2VyX2lkIjoidS0xIiwiY2hhdGdwdF9wbGFuX3R5cGUiOiJwcm8ifX0.c2ln";
/// Tokens of the same user: one that expired at Unix time 1, and one that expires in 2100.
const EXPIRED: &str = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJ1LTEiLCJleHAiOjF9.c2ln";
const FRESH: &str = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJ1LTEiLCJleHAiOjQxMDI0NDQ4MDB9.c2ln";

/// The content of codex's `auth.json`: an expired credential that codex refreshes before it sends a request.
pub fn expired_codex_login() -> Value {
    let tokens =
        json!({ "id_token": ID_TOKEN, "access_token": EXPIRED, "refresh_token": "first", "account_id": "acct-1" });
    json!({ "OPENAI_API_KEY": null, "tokens": tokens, "last_refresh": "2025-01-01T00:00:00Z" })
}

/// Refreshes a credential once: a used refresh token is rejected.
pub(crate) fn refresh(body: &Value) -> Answer {
    match body["refresh_token"].as_str() {
        Some("first") => {
            let tokens = json!({ "id_token": ID_TOKEN, "access_token": FRESH, "refresh_token": "second" });
            Answer::json(200, &tokens)
        }
        _ => Answer::json(401, &json!({ "error": { "code": "refresh_token_reused" } })),
    }
}
