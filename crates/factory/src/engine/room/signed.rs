//! Whether a file holds a login, and which.

use serde_json::Value;

use super::refreshed::object;
use crate::engine::registry::SignInMethod;

/// Whether the file of a login holds one to the engine itself: tokens, or a key. It may be there for other services alone.
pub(super) fn has_login(file: &[u8], login: &SignInMethod) -> bool {
    let Some(file) = object(file) else { return false };
    let is_filled = |value: Option<&Value>| value.and_then(Value::as_str).is_some_and(|token| !token.is_empty());
    let tokens = file.get(login.refreshes.object);
    let has_token = login.refreshes.tokens.iter().any(|name| is_filled(tokens.and_then(|tokens| tokens.get(name))));
    has_token || login.keys.iter().any(|key| is_filled(file.get(*key)))
}

/// What makes a file the login that it is, whatever else is in it: its tokens. A file without any is all that a job gets of
/// it, so that it is the same on either side.
pub(super) fn essence(file: &[u8], login: &SignInMethod) -> Vec<u8> {
    let found = object(file);
    let held = found.as_ref().and_then(|file| file.get(login.refreshes.object));
    let tokens = login.refreshes.tokens.iter().map(|name| held.and_then(|held| held.get(name)?.as_str()));
    let tokens: Vec<_> = tokens.collect();
    let is_login = tokens.iter().flatten().any(|token| !token.is_empty());
    Some(tokens)
        .filter(|_| is_login)
        .and_then(|tokens| serde_json::to_vec(&tokens).ok())
        .unwrap_or_else(|| without_withheld(file, login))
}

/// A login without what is of no use to a job: tokens of other services.
pub(super) fn without_withheld(file: &[u8], login: &SignInMethod) -> Vec<u8> {
    let Some(mut held) = object(file) else { return file.to_vec() };
    let count = held.len();
    held.retain(|name, _| !login.withheld.contains(&name.as_str()));
    if held.len() == count { file.to_vec() } else { serde_json::to_vec(&held).unwrap_or_default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{claude, codex};

    // [B9]
    #[test]
    fn only_tokens_or_a_key_of_the_engine_itself_are_a_login() {
        let files = [
            r#"{"claudeAiOauth":{"accessToken":"a1","expiresAt":1}}"#,
            r#"{"claudeAiOauth":{"accessToken":"","refreshToken":""}}"#,
            r#"{"mcpOAuth":{"tracker":{"accessToken":"a1"}}}"#,
            r#"{"OPENAI_API_KEY":null,"tokens":{"id_token":"i1"}}"#,
            r#"{"OPENAI_API_KEY":"sk-1","tokens":null}"#,
            r#"{"OPENAI_API_KEY":null,"tokens":null}"#,
            "[]",
            "",
        ];
        let found = |login: &SignInMethod| files.map(|file| has_login(file.as_bytes(), login));

        assert_eq!(found(&claude::LOGIN), [true, false, false, false, false, false, false, false]);
        assert_eq!(found(&codex::LOGIN), [false, false, false, true, true, false, false, false]);
    }

    #[test]
    fn a_login_is_what_its_tokens_are_whatever_is_written_beside_them() {
        let of = |file: &[u8]| essence(file, &claude::LOGIN);
        let one = br#"{"claudeAiOauth":{"accessToken":"a","refreshToken":"r"}}"#;
        let other = br#"{ "mcpOAuth":{}, "claudeAiOauth":{"refreshToken":"r","accessToken":"a","scopes":[]}}"#;

        assert_eq!(of(one), of(other));
        assert_ne!(of(one), of(br#"{"claudeAiOauth":{"accessToken":"a"}}"#));
        assert_ne!(of(br#"{"one":1}"#), of(br#"{"other":1}"#));
        assert_eq!(of(br#"{"mcpOAuth":{"t":"a"}}"#), of(b"{}"), "what a job does not get is no part of it");
    }
}
