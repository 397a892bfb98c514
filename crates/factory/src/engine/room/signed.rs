//! Whether a file holds a login.

use serde_json::Value;

use super::refreshed::object;
use crate::engine::bench::Login;

/// Whether the file of a login holds one to the engine itself: tokens, or a key. It may be there for other services alone.
pub(super) fn has_login(file: &[u8], login: &Login) -> bool {
    let Some(file) = object(file) else { return false };
    let is_filled = |value: Option<&Value>| value.and_then(Value::as_str).is_some_and(|token| !token.is_empty());
    let tokens = file.get(login.refreshes.object);
    let has_token = login.refreshes.tokens.iter().any(|name| is_filled(tokens.and_then(|tokens| tokens.get(name))));
    has_token || login.keys.iter().any(|key| is_filled(file.get(*key)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{claude, codex};

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
        let found = |login: &Login| files.map(|file| has_login(file.as_bytes(), login));

        assert_eq!(found(&claude::LOGIN), [true, false, false, false, false, false, false, false]);
        assert_eq!(found(&codex::LOGIN), [false, false, false, true, true, false, false, false]);
    }
}
