//! Logins of factories: each may read its own queue and nothing else. The server checks them by their signature, so that it
//! needs no list of users.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use domain::{BrokerError, BrokerLogin, FactoryId, Timestamp};
use nkeys::{KeyPair, KeyPairType};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::names::{DISPATCH_STREAM, consumer_name, dead_letter_subject, dispatch_subject};

/// How long a login works. A factory asks for another one before that.
const VALID_FOR: Duration = Duration::from_hours(24);

/// Signs the logins of factories, for one account of a NATS server.
pub struct LoginSigner {
    key: KeyPair,
    /// The account's public key, if `key` is one of its signing keys.
    account: Option<String>,
}

impl LoginSigner {
    /// Reads the seed of an account, or of one of its signing keys; then `account` is the account's public key.
    pub fn new(seed: &str, account: Option<&str>) -> Result<Self, String> {
        let key = KeyPair::from_seed(seed.trim()).map_err(|error| format!("this is not a seed of a key: {error}"))?;
        if !matches!(key.key_pair_type(), KeyPairType::Account) {
            return Err("this is not the seed of an account (`SA…`)".to_owned());
        }
        let account = account.map(str::trim).filter(|account| *account != key.public_key());
        if account.is_some_and(|account| KeyPair::from_public_key(account).is_err() || !account.starts_with('A')) {
            return Err("this is not the public key of an account (`A…`)".to_owned());
        }
        Ok(Self { key, account: account.map(str::to_owned) })
    }

    /// Signs a new login.
    pub(super) fn login(&self, url: String, factory: &FactoryId, now: Timestamp) -> Result<BrokerLogin, BrokerError> {
        let user = KeyPair::new_user();
        let until = now.after(VALID_FOR);
        let token = self.token(factory, &user.public_key(), now, until).map_err(|error| unsigned(&error))?;
        let seed = user.seed().map_err(|error| unsigned(&error))?;
        let credentials = format!(
            "-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n\
             -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
        );
        Ok(BrokerLogin { url, credentials, until })
    }

    fn token(
        &self,
        factory: &FactoryId,
        user: &str,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<String, nkeys::error::Error> {
        let mut claims = json!({
            "iat": now.as_millis() / 1_000,
            "exp": until.as_millis() / 1_000,
            "iss": self.key.public_key(),
            "sub": user,
            "name": factory.as_str(),
            "nats": permissions(factory),
        });
        if let Some(account) = &self.account {
            claims["nats"]["issuer_account"] = account.as_str().into();
        }
        // The id is the digest of the rest.
        claims["jti"] = URL_SAFE_NO_PAD.encode(Sha256::digest(claims.to_string())).into();
        signed(&self.key, &claims)
    }
}

/// The text of a signed token.
fn signed(key: &KeyPair, claims: &Value) -> Result<String, nkeys::error::Error> {
    let header = json!({ "typ": "JWT", "alg": "ed25519-nkey" });
    let text = [header.to_string(), claims.to_string()].map(|part| URL_SAFE_NO_PAD.encode(part)).join(".");
    let signature = key.sign(text.as_bytes())?;
    Ok(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

/// The subjects of a factory: its consumer, its answers, its dead letters, its own replies.
fn permissions(factory: &FactoryId) -> Value {
    let (consumer, dispatches) = (consumer_name(factory), dispatch_subject(factory));
    let api = |request: &str| format!("$JS.API.CONSUMER.{request}.{DISPATCH_STREAM}.{consumer}");
    json!({
        "type": "user",
        "version": 2,
        "subs": -1,
        "data": -1,
        "payload": -1,
        "pub": { "allow": [
            format!("{}.{dispatches}", api("CREATE")),
            api("DELETE"),
            api("INFO"),
            api("MSG.NEXT"),
            format!("$JS.ACK.{DISPATCH_STREAM}.{consumer}.>"),
            dead_letter_subject(factory),
        ] },
        "sub": { "allow": [format!("{}.>", inbox_prefix(factory))] },
    })
}

/// The prefix of the subjects that answers to a factory are sent to.
pub(super) fn inbox_prefix(factory: &FactoryId) -> String {
    format!("_INBOX_{}", consumer_name(factory))
}

fn unsigned(error: &nkeys::error::Error) -> BrokerError {
    BrokerError::Unavailable(format!("a login cannot be signed: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_seed_of_an_account_signs_logins() {
        let (account, other) = (KeyPair::new_account(), KeyPair::new_account());
        let seed = account.seed().unwrap();

        assert!(LoginSigner::new(&format!("{seed}\n"), None).is_ok_and(|signer| signer.account.is_none()));
        assert!(LoginSigner::new(&seed, Some(&other.public_key())).is_ok_and(|signer| signer.account.is_some()));
        assert!(LoginSigner::new(&seed, Some(&account.public_key())).is_ok_and(|signer| signer.account.is_none()));
        assert!(LoginSigner::new(&KeyPair::new_user().seed().unwrap(), None).is_err());
        assert!(LoginSigner::new(&account.public_key(), None).is_err());
        assert!(LoginSigner::new(&seed, Some("x")).is_err());
    }

    // [D6]
    #[test]
    fn a_login_names_exactly_the_subjects_of_its_factory() {
        let allowed = permissions(&"east.2".parse().unwrap());

        let expected = json!([
            "$JS.API.CONSUMER.CREATE.fleet-dispatch.f_east=2e2.fleet.dispatch.east=2e2",
            "$JS.API.CONSUMER.DELETE.fleet-dispatch.f_east=2e2",
            "$JS.API.CONSUMER.INFO.fleet-dispatch.f_east=2e2",
            "$JS.API.CONSUMER.MSG.NEXT.fleet-dispatch.f_east=2e2",
            "$JS.ACK.fleet-dispatch.f_east=2e2.>",
            "fleet.dead-letter.east=2e2",
        ]);
        assert_eq!(allowed["pub"]["allow"], expected);
        assert_eq!(allowed["sub"]["allow"], json!(["_INBOX_f_east=2e2.>"]));
    }
}
