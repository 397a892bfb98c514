//! Whether what lies in a job's room can be an operator's login that its engine has refreshed.
//!
//! The agent can write there too. So nothing is believed but what an engine changes by itself, and only of the login that
//! was there before: its tokens, of the same account, no older than they were.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

/// What of a login's file an engine changes by itself.
#[derive(Debug)]
pub(in crate::engine) struct Refreshes {
    /// The object that holds the tokens.
    pub(in crate::engine) object: &'static str,
    /// What is written beside it at the same time.
    pub(in crate::engine) beside: &'static [&'static str],
    /// The tokens in the object.
    pub(in crate::engine) tokens: &'static [&'static str],
    /// What grows with each refresh, as a JSON pointer.
    pub(in crate::engine) grows: &'static str,
}

/// Tokens are a few thousand characters each.
const BYTES_MAX: usize = 64 * 1024;

type Object = Map<String, Value>;

/// The operator's file with what was refreshed in it, or why that cannot be what happened.
pub(super) fn refreshed(outside: &[u8], inside: &[u8], login: &Refreshes) -> Result<Vec<u8>, &'static str> {
    if inside.len() > BYTES_MAX {
        return Err("it is too long");
    }
    let (Some(mut file), Some(found)) = (object(outside), object(inside)) else { return Err("it is no JSON object") };
    let (Some(before), Some(after)) = (held(&file, login), held(&found, login)) else { return Err("it has no tokens") };
    login_is_kept(&before, &after, login)?;
    file.extend(after);
    serde_json::to_vec(&Value::Object(file)).map_err(|_| "it cannot be written")
}

/// Whether two files hold the same login, whatever else is in them.
pub(super) fn is_same(one: &[u8], other: &[u8], login: &Refreshes) -> bool {
    let held = |bytes| object(bytes).and_then(|file| held(&file, login));
    one == other || held(one).is_some_and(|one| held(other).is_some_and(|other| one == other))
}

pub(super) fn object(bytes: &[u8]) -> Option<Object> {
    match serde_json::from_slice(bytes) {
        Ok(Value::Object(object)) => Some(object),
        _ => None,
    }
}

/// What of a file is refreshed, where it holds tokens.
fn held(file: &Object, login: &Refreshes) -> Option<Object> {
    file.get(login.object)?.as_object()?;
    let names = login.beside.iter().chain([&login.object]);
    Some(names.filter_map(|name| Some(((*name).to_owned(), file.get(*name)?.clone()))).collect())
}

fn login_is_kept(before: &Object, after: &Object, login: &Refreshes) -> Result<(), &'static str> {
    let token = |held: &Object, name: &str| held[login.object][name].as_str().is_some_and(|token| !token.is_empty());
    if login.tokens.iter().any(|name| token(before, name) && !token(after, name)) {
        return Err("a token is missing");
    }
    let (before, after) = (Value::Object(before.clone()), Value::Object(after.clone()));
    if !has_kinds_of(&before, &after) {
        return Err("its fields are of other kinds");
    }
    if !has_account_of(&before, &after) {
        return Err("it is of another account");
    }
    if has_shrunk(before.pointer(login.grows), after.pointer(login.grows)) {
        return Err("it is older");
    }
    Ok(())
}

/// Whether every field is still of its kind. One that was empty may be filled and the other way round, and plain ones may
/// be added.
fn has_kinds_of(before: &Value, after: &Value) -> bool {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => after.iter().all(|(name, value)| match before.get(name) {
            None | Some(Value::Null) => is_plain(value),
            Some(before) => has_kinds_of(before, value),
        }),
        (_, Value::Null) => true,
        (Value::Array(_), Value::Array(_)) => is_plain(after),
        (before, after) => std::mem::discriminant(before) == std::mem::discriminant(after),
    }
}

fn is_plain(value: &Value) -> bool {
    match value {
        Value::Array(values) => values.iter().all(|value| !value.is_array() && !value.is_object()),
        value => !value.is_object(),
    }
}

/// Whether everything that tells whose login it is says the same as before: fields, and claims of tokens that have some.
fn has_account_of(before: &Value, after: &Value) -> bool {
    match (before, after) {
        (Value::Object(before), _) => before.iter().all(|(name, value)| match after.get(name) {
            Some(after) if !tells_account(name) || value.is_null() => has_account_of(value, after),
            Some(after) => value == after,
            None => !tells_account(name) || value.is_null(),
        }),
        (Value::String(before), after) => claims(before)
            .is_none_or(|before| after.as_str().and_then(claims).is_some_and(|after| has_account_of(&before, &after))),
        _ => true,
    }
}

fn tells_account(name: &str) -> bool {
    const ENDINGS: [&str; 7] =
        ["accountid", "accountuuid", "organizationid", "organizationuuid", "orgid", "userid", "useruuid"];
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    name == "sub" || ENDINGS.iter().any(|ending| plain.ends_with(ending))
}

/// What a JSON Web Token says. Its signature is the service's to check.
fn claims(token: &str) -> Option<Value> {
    let mut parts = token.split('.');
    let (_, claims, _) = (parts.next()?, parts.next()?, parts.next()?);
    let claims = URL_SAFE_NO_PAD.decode(claims.trim_end_matches('=')).ok()?;
    serde_json::from_slice(&claims).ok().filter(Value::is_object)
}

fn has_shrunk(before: Option<&Value>, after: Option<&Value>) -> bool {
    match (before, after) {
        (Some(Value::Number(before)), Some(Value::Number(after))) => after.as_f64() < before.as_f64(),
        // Times are written in UTC by one program, so that their letters sort as they do.
        (Some(Value::String(before)), Some(Value::String(after))) => after < before,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const CLAUDE: &Refreshes = &crate::engine::claude::LOGIN.refreshes;
    const CODEX: &Refreshes = &crate::engine::codex::LOGIN.refreshes;

    fn after(before: &Value, after: &Value, login: &Refreshes) -> Result<Value, &'static str> {
        let bytes = refreshed(before.to_string().as_bytes(), after.to_string().as_bytes(), login)?;
        Ok(serde_json::from_slice(&bytes).unwrap())
    }

    fn jwt(claims: &Value) -> String {
        format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims.to_string()))
    }

    fn codex(account: &str, times: u32) -> Value {
        let claims =
            json!({"sub": "u-1", "iat": times, "https://api.openai.com/auth": {"chatgpt_account_id": account}});
        json!({
            "OPENAI_API_KEY": null,
            "tokens": {"id_token": jwt(&claims), "access_token": format!("a{times}"), "refresh_token": format!("r{times}"),
                "account_id": null},
            "last_refresh": format!("2026-11-1{times}T08:00:00.5Z"),
        })
    }

    #[test]
    fn a_refresh_that_adds_fields_or_fills_empty_ones_is_one() {
        let old = json!({"claudeAiOauth": {"accessToken": "a1", "refreshToken": "r1", "expiresAt": 1, "scopes": null}});
        let new = json!({"claudeAiOauth": {"accessToken": "a2", "refreshToken": "r2", "expiresAt": 2,
            "scopes": ["user:inference"], "subscriptionType": "max", "rateLimitTier": null}});
        assert_eq!(after(&old, &new, CLAUDE), Ok(new.clone()));
        assert_eq!(after(&new, &old, CLAUDE), Err("it is older"));

        let (old, mut new) = (codex("acme", 1), codex("acme", 2));
        new["tokens"]["account_id"] = json!("acme");
        assert_eq!(after(&old, &new, CODEX), Ok(new.clone()));
        let mut without_a_date = old;
        without_a_date.as_object_mut().unwrap().remove("last_refresh");
        assert_eq!(after(&without_a_date, &new, CODEX), Ok(new));
    }

    #[test]
    fn only_the_login_itself_is_taken_whatever_lies_beside_it() {
        let old = json!({"mcpOAuth": {"tracker": {"accessToken": "own"}}, "claudeAiOauth": {"accessToken": "a1"}});
        let new = json!({"mcpOAuth": {"tracker": {"accessToken": "planted"}}, "apiKeyHelper": "sh -c evil",
            "claudeAiOauth": {"accessToken": "a2"}});
        let expected = json!({"mcpOAuth": {"tracker": {"accessToken": "own"}}, "claudeAiOauth": {"accessToken": "a2"}});
        assert_eq!(after(&old, &new, CLAUDE), Ok(expected));

        let mut planted = codex("acme", 2);
        planted["OPENAI_API_KEY"] = json!("sk-of-somebody-else");
        planted["auth_mode"] = json!("apikey");
        assert_eq!(after(&codex("acme", 1), &planted, CODEX), Ok(codex("acme", 2)));
    }

    #[test]
    fn a_login_of_another_account_is_not_taken() {
        let old = codex("acme", 1);
        let mut named = codex("acme", 2);
        named["tokens"]["account_id"] = json!("acme");
        let mut renamed = named.clone();
        renamed["tokens"]["account_id"] = json!("evil");
        let mut unnamed = named.clone();
        unnamed["tokens"].as_object_mut().unwrap().remove("account_id");
        let mut opaque = codex("acme", 2);
        opaque["tokens"]["id_token"] = json!("tells-nothing");
        let org = |org: &str| json!({"claudeAiOauth": {"accessToken": "a", "organizationUuid": org}});

        for (before, planted, login) in [
            (&old, &codex("evil", 2), CODEX),
            (&old, &opaque, CODEX),
            (&named, &renamed, CODEX),
            (&named, &unnamed, CODEX),
            (&org("acme"), &org("evil"), CLAUDE),
        ] {
            assert_eq!(after(before, planted, login), Err("it is of another account"), "{planted}");
        }
    }

    #[test]
    fn what_is_no_login_any_more_is_not_taken() {
        let old = json!({"claudeAiOauth": {"accessToken": "a1", "refreshToken": "r1", "expiresAt": 5}});
        let with = |name: &str, value: Value| {
            let mut new = old.clone();
            new["claudeAiOauth"][name] = value;
            new
        };
        let made_up = [
            (json!({}), "it has no tokens"),
            (json!([]), "it is no JSON object"),
            (json!({"claudeAiOauth": "a2"}), "it has no tokens"),
            (json!({"primaryApiKey": "sk-planted"}), "it has no tokens"),
            (json!({"claudeAiOauth": {"accessToken": "a2", "expiresAt": 6}}), "a token is missing"),
            (with("accessToken", json!("")), "a token is missing"),
            (with("accessToken", json!(["a2"])), "a token is missing"),
            (with("expiresAt", json!("6")), "its fields are of other kinds"),
            (with("hooks", json!({"command": "evil"})), "its fields are of other kinds"),
            (with("scopes", json!([{"command": "evil"}])), "its fields are of other kinds"),
            (with("expiresAt", json!(4)), "it is older"),
            (with("accessToken", json!("a".repeat(BYTES_MAX))), "it is too long"),
        ];
        for (new, why) in made_up {
            assert_eq!(after(&old, &new, CLAUDE), Err(why), "{new}");
        }

        let with_a_key = json!({"OPENAI_API_KEY": "sk-own"});
        assert_eq!(after(&with_a_key, &codex("evil", 1), CODEX), Err("it has no tokens"), "a key is never refreshed");
    }

    #[test]
    fn a_file_that_is_only_written_anew_holds_the_same_login() {
        let (one, other) =
            (br#"{"claudeAiOauth":{"a":1,"b":2}}"#, br#"{ "mcpOAuth":{}, "claudeAiOauth":{"b":2,"a":1}}"#);

        assert!(is_same(one, other, CLAUDE));
        assert!(!is_same(one, br#"{"claudeAiOauth":{"a":1}}"#, CLAUDE));
        assert!(!is_same(b"one", b"other", CLAUDE));
    }
}
