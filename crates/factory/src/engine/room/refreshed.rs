//! Whether what lies in a job's room can be an operator's login that its engine has refreshed.
//!
//! The agent can write there too. So nothing is believed but what an engine changes by itself, at the time at which it
//! does, and only of the login that was there before: its tokens, of the same account, no older than they were.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use domain::Timestamp;
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
    /// What grows with each refresh.
    pub(in crate::engine) grows: Grows,
}

/// What grows with each refresh, as JSON pointers.
#[derive(Debug)]
pub(in crate::engine) enum Grows {
    /// When the login expires, in milliseconds.
    Expiry(&'static str),
    /// When it was refreshed, as a text. A token tells when it expires.
    Date {
        /// The date.
        refreshed_at: &'static str,
        /// The token.
        expires: &'static str,
    },
}

/// When a login is looked at, and what its service has said of the one that was carried.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    pub(super) now: Timestamp,
    pub(super) service: Service,
}

/// What a service says of a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Service {
    /// Nothing that we know of.
    Silent,
    /// It did not take it, which an engine answers with a refresh whatever the time is.
    Refused,
}

/// Engines refresh a login in its last minutes. Clocks differ, and an engine may know something of its service.
const SOON: Duration = Duration::from_hours(1);

/// Codex refreshes a login after eight days, whenever it expires.
const OLD_AFTER: Duration = Duration::from_hours(7 * 24);

/// Services give a login for hours or days. One that claimed years would have every later one look older.
const LASTS_MAX: Duration = Duration::from_hours(30 * 24);

/// Tokens are a few thousand characters each.
const BYTES_MAX: usize = 64 * 1024;

type Object = Map<String, Value>;

/// The operator's file with what was refreshed in it, or why that cannot be what happened.
pub(super) fn refreshed(
    outside: &[u8],
    inside: &[u8],
    login: &Refreshes,
    moment: Moment,
) -> Result<Vec<u8>, &'static str> {
    if inside.len() > BYTES_MAX {
        return Err("it is too long");
    }
    let (Some(mut file), Some(found)) = (object(outside), object(inside)) else { return Err("it is no JSON object") };
    let (Some(before), Some(after)) = (held(&file, login), held(&found, login)) else { return Err("it has no tokens") };
    login_is_kept(&before, &after, login, moment)?;
    file.extend(after);
    serde_json::to_vec(&Value::Object(file)).map_err(|_| "it cannot be written")
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

fn login_is_kept(before: &Object, after: &Object, login: &Refreshes, moment: Moment) -> Result<(), &'static str> {
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
    login.grows.allows(&before, &after, moment)
}

impl Grows {
    /// Whether a login may have been refreshed by now, and says a time of it that can be true.
    fn allows(&self, before: &Value, after: &Value, moment: Moment) -> Result<(), &'static str> {
        let (was, is) = (self.time(before), self.time(after).ok_or("it does not say when it was made")?);
        let now = moment.now.as_millis();
        let is_due = match self {
            Self::Expiry(_) => was.is_none_or(|expires_at| expires_at <= now + millis(SOON)),
            Self::Date { expires, .. } => {
                let expires_at = before.pointer(expires).and_then(Value::as_str).and_then(expiry);
                was.is_none_or(|at| at <= now - millis(OLD_AFTER))
                    || expires_at.is_none_or(|at| at <= now + millis(SOON))
            }
        };
        let latest = match self {
            Self::Expiry(_) => now + millis(LASTS_MAX),
            Self::Date { .. } => now + millis(SOON),
        };
        if was.is_some_and(|was| is < was) {
            return Err("it is older");
        }
        if is > latest {
            return Err("it is too far ahead of its time");
        }
        if !is_due && moment.service == Service::Silent {
            return Err("the one before was still good for long");
        }
        Ok(())
    }

    /// The time that grows, in milliseconds.
    fn time(&self, held: &Value) -> Option<i64> {
        match self {
            Self::Expiry(pointer) => whole(held.pointer(pointer)?),
            Self::Date { refreshed_at, .. } => {
                let date: jiff::Timestamp = held.pointer(refreshed_at)?.as_str()?.parse().ok()?;
                Some(date.as_millisecond())
            }
        }
    }
}

fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

/// A number without its fraction, if it can be a time at all.
fn whole(number: &Value) -> Option<i64> {
    let text = format!("{:.0}", number.as_f64()?);
    Some(number.as_i64().or_else(|| text.parse().ok()).unwrap_or(i64::MAX))
}

/// When a token expires, in milliseconds, if it says so.
fn expiry(token: &str) -> Option<i64> {
    Some(whole(claims(token)?.get("exp")?)?.saturating_mul(1000))
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const CLAUDE: &Refreshes = &crate::engine::claude::LOGIN.refreshes;
    const CODEX: &Refreshes = &crate::engine::codex::LOGIN.refreshes;

    /// 2026-11-20.
    const NOW: i64 = 1_795_132_800_000;
    const HOUR: i64 = 3_600_000;

    fn after(before: &Value, after: &Value, login: &Refreshes) -> Result<Value, &'static str> {
        told(before, after, login, Service::Silent)
    }

    fn told(before: &Value, after: &Value, login: &Refreshes, service: Service) -> Result<Value, &'static str> {
        let moment = Moment { now: Timestamp::from_millis(NOW), service };
        let bytes = refreshed(before.to_string().as_bytes(), after.to_string().as_bytes(), login, moment)?;
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
        let login = |token: &str| json!({"accessToken": token, "expiresAt": 1});
        let old = json!({"mcpOAuth": {"tracker": {"accessToken": "own"}}, "claudeAiOauth": login("a1")});
        let new = json!({"mcpOAuth": {"tracker": {"accessToken": "planted"}}, "apiKeyHelper": "sh -c evil",
            "claudeAiOauth": login("a2")});
        let expected = json!({"mcpOAuth": {"tracker": {"accessToken": "own"}}, "claudeAiOauth": login("a2")});
        assert_eq!(after(&old, &new, CLAUDE), Ok(expected));

        let mut planted = codex("acme", 2);
        planted["OPENAI_API_KEY"] = json!("sk-of-somebody-else");
        planted["auth_mode"] = json!("apikey");
        assert_eq!(after(&codex("acme", 1), &planted, CODEX), Ok(codex("acme", 2)));
    }

    // [T8]
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
            (with("expiresAt", json!(NOW + 31 * 24 * HOUR)), "it is too far ahead of its time"),
            (with("expiresAt", json!(1e18)), "it is too far ahead of its time"),
            (with("expiresAt", json!(null)), "it does not say when it was made"),
            (with("accessToken", json!("a".repeat(BYTES_MAX))), "it is too long"),
        ];
        for (new, why) in made_up {
            assert_eq!(after(&old, &new, CLAUDE), Err(why), "{new}");
        }

        let with_a_key = json!({"OPENAI_API_KEY": "sk-own"});
        assert_eq!(after(&with_a_key, &codex("evil", 1), CODEX), Err("it has no tokens"), "a key is never refreshed");
    }

    // [T8]
    #[test]
    fn a_login_that_is_good_for_long_is_refreshed_only_after_a_refusal() {
        let claude = |token: &str, expires_at: i64| json!({"claudeAiOauth": {"accessToken": token, "refreshToken": token, "expiresAt": expires_at}});
        let new = claude("a2", NOW + 8 * HOUR);
        let early = Err("the one before was still good for long");
        assert_eq!(after(&claude("a1", NOW + 2 * HOUR), &new, CLAUDE), early);
        assert_eq!(told(&claude("a1", NOW + 2 * HOUR), &new, CLAUDE, Service::Refused), Ok(new.clone()));
        assert_eq!(after(&claude("a1", NOW + HOUR / 12), &new, CLAUDE), Ok(new.clone()), "its last minutes");
        assert_eq!(after(&claude("a1", NOW - 9 * HOUR), &new, CLAUDE), Ok(new), "after a night");

        let codex = |name: &str, expires_at: i64, refreshed_at: &str| {
            let access = jwt(&json!({"name": name, "exp": expires_at / 1000}));
            json!({"tokens": {"access_token": access, "refresh_token": name}, "last_refresh": refreshed_at})
        };
        let new = codex("second", NOW + 240 * HOUR, "2026-11-20T00:00:00Z");
        assert_eq!(after(&codex("first", NOW + 99 * HOUR, "2026-11-17T00:00:00Z"), &new, CODEX), early);
        assert_eq!(after(&codex("first", NOW, "2026-11-17T00:00:00Z"), &new, CODEX), Ok(new.clone()));
        assert_eq!(after(&codex("first", NOW + 99 * HOUR, "2026-11-12T00:00:00.25Z"), &new, CODEX), Ok(new.clone()));
        let ahead = codex("second", NOW + 240 * HOUR, "2026-11-21T00:00:00Z");
        assert_eq!(after(&new, &ahead, CODEX), Err("it is too far ahead of its time"));
    }
}
