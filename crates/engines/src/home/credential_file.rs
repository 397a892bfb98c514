//! The content of an engine's credential file, and whether one is a refresh of another.
//!
//! The agent can write the file in its home too. So only the tokens are taken from it, and only if they are of the same
//! account and newer.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use domain::Timestamp;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::registry::SignInMethod;

/// The part of a credential file that an engine refreshes.
#[derive(Debug)]
pub(crate) struct RefreshedFields {
    /// The object that holds the tokens.
    pub(crate) object: &'static str,
    /// Other fields that are written with it.
    pub(crate) beside: &'static [&'static str],
    /// The tokens in the object.
    pub(crate) tokens: &'static [&'static str],
    /// A JSON pointer to a time that grows with each refresh: when the credential expires, in milliseconds, or the date
    /// of the refresh where the file has no expiry.
    pub(crate) time: &'static str,
    /// How far in the future that time may be. A forged one in years would make every later credential look older.
    pub(crate) ahead_max: Duration,
}

/// Tokens are a few thousand characters each.
const BYTES_MAX: usize = 64 * 1024;

type Object = Map<String, Value>;

/// Whether the file holds a credential of the engine itself: tokens or a key. It may hold those of other services only.
pub(super) fn has_credential(file: &[u8], method: &SignInMethod) -> bool {
    let Some(file) = object(file) else { return false };
    let has_token = method.refreshes.tokens.iter().any(|name| token(&file, method, name).is_some());
    has_token || method.keys.iter().any(|key| file.get(*key).and_then(Value::as_str).is_some_and(|key| !key.is_empty()))
}

/// The file without the tokens of other services, which are of no use to a job.
pub(super) fn without_withheld(file: &[u8], method: &SignInMethod) -> Vec<u8> {
    let Some(mut fields) = object(file) else { return file.to_vec() };
    let count = fields.len();
    fields.retain(|name, _| !method.withheld.contains(&name.as_str()));
    if fields.len() == count { file.to_vec() } else { serde_json::to_vec(&fields).unwrap_or_default() }
}

/// Identifies the tokens of a file without revealing them.
pub(super) fn token_digest(file: &[u8], method: &SignInMethod) -> String {
    let file = object(file).unwrap_or_default();
    let tokens: Vec<_> = method.refreshes.tokens.iter().map(|name| token(&file, method, name)).collect();
    let digest = Sha256::digest(serde_json::to_vec(&tokens).unwrap_or_default());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The operator's file with the tokens of a refreshed one. `None` if the tokens are the same or older, an error if the file
/// is no refresh of the operator's. `copied` is the digest of the tokens that the engine started with.
pub(super) fn refreshed(
    operators: &[u8],
    found: &[u8],
    copied: &str,
    (method, now): (&SignInMethod, Timestamp),
) -> Result<Option<Vec<u8>>, &'static str> {
    if found.len() > BYTES_MAX {
        return Err("it is too long");
    }
    let (current, fields) = (token_digest(operators, method), &method.refreshes);
    if token_digest(found, method) == current {
        return Ok(None);
    }
    let (Some(mut merged), Some(found)) = (object(operators), object(found)) else {
        return Err("it is no JSON object");
    };
    if fields.tokens.iter().all(|name| token(&merged, method, name).is_none()) {
        return Err("the operator's file has no tokens");
    }
    if fields.tokens.iter().any(|name| token(&merged, method, name).is_some() && token(&found, method, name).is_none())
    {
        return Err("a token is missing");
    }
    let (before, after) = (refreshed_part(&merged, fields), refreshed_part(&found, fields));
    if !has_account_of(&before, &after) || (current != copied && !names_account(&before)) {
        return Err("it may be of another account");
    }
    let (was, is) = (time(&before, fields), time(&after, fields).ok_or("it has no time of its refresh")?);
    if is > now.as_millis().saturating_add(i64::try_from(fields.ahead_max.as_millis()).unwrap_or(i64::MAX)) {
        return Err("its time is too far in the future");
    }
    if was.is_some_and(|was| is <= was) {
        return Ok(None);
    }
    let Value::Object(after) = after else { return Err("it has no tokens") };
    merged.extend(after);
    serde_json::to_vec(&merged).map(Some).map_err(|_| "it cannot be written")
}

fn object(bytes: &[u8]) -> Option<Object> {
    serde_json::from_slice(bytes).ok()
}

fn token<'a>(file: &'a Object, method: &SignInMethod, name: &str) -> Option<&'a str> {
    file.get(method.refreshes.object)?.get(name)?.as_str().filter(|token| !token.is_empty())
}

fn refreshed_part(file: &Object, fields: &RefreshedFields) -> Value {
    let names = fields.beside.iter().chain([&fields.object]);
    Value::Object(names.filter_map(|name| Some(((*name).to_owned(), file.get(*name)?.clone()))).collect())
}

/// The time that grows with each refresh, in milliseconds.
fn time(part: &Value, fields: &RefreshedFields) -> Option<i64> {
    match part.pointer(fields.time)? {
        Value::String(date) => Some(date.parse::<jiff::Timestamp>().ok()?.as_millisecond()),
        number => number.as_i64(),
    }
}

/// Whether all fields that identify the account have the same values as before, and the claims of tokens that have some.
fn has_account_of(before: &Value, after: &Value) -> bool {
    match (before, after) {
        (Value::Object(before), _) => before.iter().all(|(name, value)| match after.get(name) {
            Some(after) if !identifies_account(name) || value.is_null() => has_account_of(value, after),
            Some(after) => value == after,
            None => !identifies_account(name) || value.is_null(),
        }),
        (Value::String(before), after) => claims(before)
            .is_none_or(|before| after.as_str().and_then(claims).is_some_and(|after| has_account_of(&before, &after))),
        _ => true,
    }
}

/// Whether a credential identifies its account at all.
fn names_account(part: &Value) -> bool {
    match part {
        Value::Object(fields) => {
            fields.iter().any(|(name, value)| (identifies_account(name) && !value.is_null()) || names_account(value))
        }
        Value::String(token) => claims(token).is_some_and(|claims| names_account(&claims)),
        _ => false,
    }
}

fn identifies_account(name: &str) -> bool {
    const ENDINGS: [&str; 7] =
        ["accountid", "accountuuid", "organizationid", "organizationuuid", "orgid", "userid", "useruuid"];
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    name == "sub" || ENDINGS.iter().any(|ending| plain.ends_with(ending))
}

/// The claims of a JSON Web Token. Only the service can verify its signature.
fn claims(token: &str) -> Option<Value> {
    let mut parts = token.split('.');
    let (_, claims, _) = (parts.next()?, parts.next()?, parts.next()?);
    let claims = URL_SAFE_NO_PAD.decode(claims.trim_end_matches('=')).ok()?;
    serde_json::from_slice(&claims).ok().filter(Value::is_object)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::claude::LOGIN as CLAUDE;
    use crate::codex::LOGIN as CODEX;

    /// 2026-11-20.
    const NOW: i64 = 1_795_132_800_000;
    const DAY: i64 = 24 * 3_600_000;

    fn refresh(before: &Value, after: &Value, method: &SignInMethod) -> Result<Option<Value>, &'static str> {
        let (before, after) = (before.to_string(), after.to_string());
        let copied = token_digest(before.as_bytes(), method);
        let now = Timestamp::from_millis(NOW);
        let merged = refreshed(before.as_bytes(), after.as_bytes(), &copied, (method, now))?;
        Ok(merged.map(|bytes| serde_json::from_slice(&bytes).unwrap()))
    }

    fn claude(token: &str, expires_at: i64) -> Value {
        json!({"claudeAiOauth": {"accessToken": token, "refreshToken": token, "expiresAt": expires_at}})
    }

    fn codex(account: &str, times: u32) -> Value {
        let claims = json!({"sub": "u-1", "https://api.openai.com/auth": {"chatgpt_account_id": account}});
        let id_token = format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims.to_string()));
        json!({
            "OPENAI_API_KEY": null,
            "tokens": {"id_token": id_token, "access_token": format!("a{times}"), "refresh_token": format!("r{times}")},
            "last_refresh": format!("2026-11-1{times}T08:00:00.5Z"),
        })
    }

    #[test]
    fn only_tokens_or_a_key_of_the_engine_are_a_credential() {
        let files = [
            r#"{"claudeAiOauth":{"accessToken":"a1","expiresAt":1}}"#,
            r#"{"mcpOAuth":{"tracker":{"accessToken":"a1"}}}"#,
            r#"{"OPENAI_API_KEY":null,"tokens":{"id_token":"i1"}}"#,
            r#"{"OPENAI_API_KEY":"sk-1","tokens":null}"#,
            r#"{"OPENAI_API_KEY":"","tokens":null}"#,
            "[]",
        ];
        let found = |method: &SignInMethod| files.map(|file| has_credential(file.as_bytes(), method));

        assert_eq!(found(&CLAUDE), [true, false, false, false, false, false]);
        assert_eq!(found(&CODEX), [false, false, true, true, false, false]);
    }

    #[test]
    fn only_a_newer_credential_is_a_refresh() {
        let (old, new) = (claude("a1", 1), claude("a2", 2));
        assert_eq!(refresh(&old, &new, &CLAUDE), Ok(Some(new.clone())));
        assert_eq!(refresh(&new, &old, &CLAUDE), Ok(None));
        assert_eq!(refresh(&codex("acme", 1), &codex("acme", 2), &CODEX), Ok(Some(codex("acme", 2))));
        assert_eq!(refresh(&codex("acme", 2), &codex("acme", 1), &CODEX), Ok(None));
    }

    #[test]
    fn only_the_tokens_are_taken_from_the_file_of_a_job() {
        let mut old = claude("a1", 1);
        old["mcpOAuth"] = json!("own");
        let (mut planted, mut expected) = (claude("a2", 2), claude("a2", 2));
        (planted["mcpOAuth"], planted["apiKeyHelper"]) = (json!("planted"), json!("sh -c evil"));
        expected["mcpOAuth"] = json!("own");
        assert_eq!(refresh(&old, &planted, &CLAUDE), Ok(Some(expected)));

        let mut planted = codex("acme", 2);
        planted["OPENAI_API_KEY"] = json!("sk-planted");
        assert_eq!(refresh(&codex("acme", 1), &planted, &CODEX), Ok(Some(codex("acme", 2))));
    }

    #[test]
    fn another_accounts_credential_is_rejected() {
        let mut opaque = codex("acme", 2);
        opaque["tokens"]["id_token"] = json!("opaque");
        let org = |org: &str, at: i64| json!({"claudeAiOauth": {"accessToken": at.to_string(), "organizationUuid": org, "expiresAt": at}});

        let other = Err("it may be of another account");
        assert_eq!(refresh(&codex("acme", 1), &codex("evil", 2), &CODEX), other);
        assert_eq!(refresh(&codex("acme", 1), &opaque, &CODEX), other);
        assert_eq!(refresh(&org("acme", 1), &org("evil", 2), &CLAUDE), other);
        assert_eq!(refresh(&org("acme", 1), &org("acme", 2), &CLAUDE), Ok(Some(org("acme", 2))));
    }

    #[test]
    fn a_malformed_credential_is_rejected() {
        let old = claude("a1", 5);
        let with = |name: &str, value: Value| {
            let mut new = claude("a2", 6);
            new["claudeAiOauth"][name] = value;
            new
        };
        for (new, why) in [
            (json!([]), "it is no JSON object"),
            (json!({"claudeAiOauth": "a2"}), "a token is missing"),
            (with("refreshToken", json!("")), "a token is missing"),
            (with("expiresAt", json!("soon")), "it has no time of its refresh"),
            (with("expiresAt", json!(NOW + 31 * DAY)), "its time is too far in the future"),
            (with("scopes", json!("x".repeat(BYTES_MAX))), "it is too long"),
        ] {
            assert_eq!(refresh(&old, &new, &CLAUDE), Err(why), "{new}");
        }
        let key = json!({"OPENAI_API_KEY": "sk-own"});
        assert_eq!(refresh(&key, &codex("evil", 1), &CODEX), Err("the operator's file has no tokens"));
    }
}
