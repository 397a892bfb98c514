//! Tokens: created here, shown once, stored as hashes [I12][T3].

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use domain::{
    ClaimNonce, Collection, Expected, FactoryId, ProductId, Revision, Timestamp, Token, TokenId, TokenScope, Versioned,
    is_member_name, is_same_person,
};
use foldhash::HashMap;
use parking_lot::RwLock;
use protocol::{
    CreateTokenRequest, CreateTokenResponse, EnrolRequest, EnrolResponse, IdentityChallenge, IdentityProof,
    RotateTokenResponse, TokenDigest, TokenList, TokenView,
};
use sha2::{Digest, Sha256};
use tracing::{debug, info};

use crate::commit::cas_documents::{PutOutcome, is_conflict};
use crate::coordinator::Coordinator;
use crate::coordinator::purpose::Purpose;
use crate::error::Error;
use crate::fleet::principal::Principal;
use crate::submit::invalid;
use crate::work::review::check_person;

/// The default lifetime of a join token: long enough to set up the other machine.
const JOIN_TTL: Duration = Duration::from_hours(1);

/// The longest lifetime of a token: ten years. Longer is a typing mistake; without a lifetime it never expires.
const TTL_MAX: Duration = Duration::from_hours(24 * 3_650);

/// How long a used or expired join token is kept, so that a late factory gets the exact reason.
const JOIN_KEPT: Duration = Duration::from_hours(24 * 7);

/// Valid tokens of one factory: each rotation stores one more.
const FACTORY_TOKENS_MAX: usize = 8;

/// Ended tokens removed per pass: creating a token must not wait for a long clean-up.
const PURGED_MAX: usize = 32;

/// A secret that logs never show.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub(crate) fn new(secret: String) -> Self {
        Self(secret)
    }

    /// The secret itself, for the one time that it is shown.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// All tokens, by the hash of their secret. In memory, so that a request costs no store operation.
#[derive(Default)]
pub(crate) struct TokenBook {
    by_hash: RwLock<HashMap<String, Versioned<Token>>>,
    /// The digests of the same tokens, by the names that challenges use.
    by_lookup: RwLock<HashMap<String, TokenDigest>>,
    enrolling: tokio::sync::Mutex<()>,
}

impl TokenBook {
    pub(crate) fn load(&self, tokens: impl Iterator<Item = (String, Versioned<Token>)>) {
        for (hash, token) in tokens {
            self.know(&hash, Some(token));
        }
    }

    /// Records the stored token of this hash.
    fn know(&self, hash: &str, token: Option<Versioned<Token>>) {
        if let Some(digest) = TokenDigest::from_text(hash) {
            let mut digests = self.by_lookup.write();
            match &token {
                Some(_) => digests.insert(digest.lookup(), digest),
                None => digests.remove(&digest.lookup()),
            };
        }
        let mut tokens = self.by_hash.write();
        match token {
            Some(token) => tokens.insert(hash.to_owned(), token),
            None => tokens.remove(hash),
        };
    }

    pub(crate) fn find(&self, hash: &str) -> Option<Token> {
        self.by_hash.read().get(hash).map(|token| token.value.clone())
    }

    pub(crate) fn matching(&self, wanted: impl Fn(&Token) -> bool) -> Vec<(String, Revision, Token)> {
        let tokens = self.by_hash.read();
        let matches = tokens.iter().filter(|(_, token)| wanted(&token.value));
        matches.map(|(hash, token)| (hash.clone(), token.revision, token.value.clone())).collect()
    }
}

impl Coordinator {
    /// The principal of a bearer token. The look-up is by hash, so that timing reveals nothing about other tokens.
    pub fn authenticate(&self, secret: &str) -> Result<Principal, Error> {
        let token = self.tokens.find(&hash(secret)).ok_or(Error::Unauthenticated)?;
        if token.expires_at.is_some_and(|at| at <= self.now()) {
            return Err(Error::Unauthenticated);
        }
        Ok(Principal::of(&token))
    }

    /// Proves to a client that this coordinator's store has the digest of its token: only then does the client send the
    /// token. An expired token is proven too, so that its owner learns that it has expired.
    pub fn prove_identity(&self, challenge: &IdentityChallenge) -> Result<IdentityProof, Error> {
        let digests = self.tokens.by_lookup.read();
        let digest = digests.get(&challenge.token).ok_or(Error::Unauthenticated)?;
        Ok(digest.prove(challenge))
    }

    /// Whether a token and its browser session are still valid: open streams check it periodically.
    pub fn is_valid(&self, who: &Principal) -> bool {
        let now = self.now();
        if who.session.is_some_and(|session| !self.sessions.is_live(session, now)) {
            return false;
        }
        let is_it = |token: &Token| token.id == who.token && token.expires_at.is_none_or(|at| at > now);
        !self.tokens.matching(is_it).is_empty()
    }

    /// The first admin token; `None` if there are tokens already.
    pub async fn first_admin_token(&self) -> Result<Option<Secret>, Error> {
        if !self.tokens.by_hash.read().is_empty() {
            return Ok(None);
        }
        let token = self.make_token("admin".to_owned(), TokenScope::Admin, None, TokenOwner::default());
        let (_, secret) = Purpose::Start.scope(token).await?;
        Ok(Some(secret))
    }

    /// A new admin token for the owner of the data directory, who could write one into the store anyway.
    pub async fn local_admin_token(&self) -> Result<Secret, Error> {
        // The owner of the data directory has its first token too.
        let owner = TokenOwner { person: Some("admin".to_owned()), forge_login: None };
        let token = self.make_token("local admin".to_owned(), TokenScope::Admin, None, owner);
        let (_, secret) = Purpose::Start.scope(token).await?;
        Ok(secret)
    }

    /// Creates a token. The secret is only in the answer.
    pub async fn create_token(
        &self,
        who: &Principal,
        request: CreateTokenRequest,
    ) -> Result<CreateTokenResponse, Error> {
        who.require_admin()?;
        if request.name.is_empty() || request.name.len() > 100 || !request.name.chars().all(domain::is_terminal_safe) {
            return Err(invalid("name", "1 to 100 printable characters".to_owned()));
        }
        if matches!(request.grant, TokenScope::Factory { .. }) {
            return Err(invalid("grant", "a factory gets its token by enrolment: create a join token".to_owned()));
        }
        let is_join = matches!(request.grant, TokenScope::Join { .. });
        if let TokenScope::Join { pool: Some(pool), factory, .. } = &request.grant {
            if self.state.lock().pools().get(pool).is_none() {
                return Err(Error::NoSuchPool(pool.clone()));
            }
            if let Some(factory) = factory.as_ref().filter(|factory| !is_member_name(pool, factory)) {
                return Err(invalid("factory", format!("`{factory}` does not begin with `{pool}-`")));
            }
        }
        check_ttl(request.ttl_seconds)?;
        if is_join && (request.owner.is_some() || request.forge_login.is_some()) {
            return Err(invalid("owner", "a factory belongs to no person: it cannot vote".to_owned()));
        }
        request.owner.as_deref().map_or(Ok(()), |owner| check_person("owner", owner))?;
        let person = request.owner.as_deref().unwrap_or(&request.name);
        request.forge_login.as_deref().map_or(Ok(()), |login| self.check_forge_login(login, person))?;
        let owner = TokenOwner { person: request.owner, forge_login: request.forge_login };
        let ttl = request
            .ttl_seconds
            .map(Duration::from_secs)
            .or((is_join && !is_reusable(&request.grant)).then_some(JOIN_TTL));
        let (token, secret) = self.make_token(request.name, request.grant, ttl, owner).await?;
        info!(token.id = %token.id, by = %who.name, "`{}` created token `{}`", who.name, token.name);
        Ok(CreateTokenResponse { token: view(&token), secret: secret.0, coordinator: None })
    }

    /// A join token for one factory of the local fleet.
    pub async fn join_token(&self, factory: FactoryId) -> Result<Secret, Error> {
        let grant = TokenScope::Join {
            factory: Some(factory),
            products: BTreeSet::new(),
            capabilities: BTreeSet::new(),
            pool: None,
        };
        let token = self.make_token("local factory".to_owned(), grant, Some(JOIN_TTL), TokenOwner::default());
        let (_, secret) = Purpose::Start.scope(token).await?;
        Ok(secret)
    }

    pub(crate) async fn local_join_token(&self, grant: TokenScope) -> Result<Secret, Error> {
        let made = self.make_token("local factory".to_owned(), grant, Some(JOIN_TTL), TokenOwner::default()).await?;
        Ok(made.1)
    }

    /// Exchanges a join token, once, for a factory's own. With a nonce a lost answer is repeated.
    pub async fn enroll(&self, request: &EnrolRequest) -> Result<EnrolResponse, Error> {
        // One at a time, or two factories could both find the name free.
        let _turn = self.tokens.enrolling.lock().await;
        let join = hash(&request.join_token);
        let secret = request.nonce.map(|nonce| derived_secret(request, nonce));
        if let Some(secret) = secret.as_ref().filter(|secret| self.belongs_to(secret, &request.factory_id)) {
            // The factory has enrolled with this request before: at most the join token is left to remove.
            self.use_join(&join, &request.factory_id).await?;
            return Ok(EnrolResponse { factory_id: request.factory_id.clone(), token: secret.0.clone() });
        }
        let grant = self.joining_grant(&join, &request.factory_id)?;
        let secret = secret.unwrap_or_else(|| self.random_secret(&grant));
        // The factory's token first: after a crash in between, either the request can be repeated or the join token is
        // still valid.
        let name = format!("factory {}", request.factory_id);
        self.keep_token(name, grant, self.settings.factory_token_ttl, TokenOwner::default(), &secret).await?;
        if let JoinUse::Before(user) = self.use_join(&join, &request.factory_id).await? {
            self.remove_token(&hash(secret.reveal())).await?;
            return Err(user.map_or(Error::Unauthenticated, |by| Error::JoinTokenUsed { by }));
        }
        info!(factory.id = %request.factory_id, "Factory `{}` enrolled", request.factory_id);
        Ok(EnrolResponse { factory_id: request.factory_id.clone(), token: secret.0 })
    }

    /// The scope that a join token gives to a factory of this name.
    fn joining_grant(&self, join: &str, id: &FactoryId) -> Result<TokenScope, Error> {
        let token = self.tokens.find(join).ok_or(Error::Unauthenticated)?;
        let TokenScope::Join { factory, products, capabilities, pool } = token.grant else {
            return Err(Error::Unauthenticated);
        };
        if let Some(by) = token.used_by {
            return Err(Error::JoinTokenUsed { by });
        }
        if let Some(at) = token.expires_at.filter(|at| *at <= self.now()) {
            return Err(Error::JoinTokenExpired { at });
        }
        if factory.as_ref().is_some_and(|fixed| fixed != id) {
            return Err(Error::Forbidden("the join token is for another factory".to_owned()));
        }
        if factory.is_none() && self.is_taken(id) {
            return Err(Error::Forbidden(format!(
                "factory `{id}` already exists, and the join token is not for that name"
            )));
        }
        if let Some(pool) = &pool {
            self.check_membership(pool, id)?;
        }
        Ok(TokenScope::Factory { factory: id.clone(), products, capabilities, pool })
    }

    /// Records that a factory has used a join token. The token is invalid from then on.
    async fn use_join(&self, join: &str, factory: &FactoryId) -> Result<JoinUse, Error> {
        let Some((revision, token)) = self.tokens.by_hash.read().get(join).map(|t| (t.revision, t.value.clone()))
        else {
            return Ok(JoinUse::Before(None));
        };
        if token.used_by.is_some() {
            return Ok(JoinUse::Before(token.used_by));
        }
        if is_reusable(&token.grant) {
            return Ok(JoinUse::Now);
        }
        let used = Token { used_by: Some(factory.clone()), expires_at: Some(self.now()), ..token };
        match self.write_token(join, Expected::At(revision), used).await {
            Ok(()) => Ok(JoinUse::Now),
            Err(error) => match self.tokens.find(join) {
                // Another coordinator was first.
                Some(Token { used_by: Some(by), .. }) if by != *factory => Ok(JoinUse::Before(Some(by))),
                None => Ok(JoinUse::Before(None)),
                Some(_) => Err(error),
            },
        }
    }

    /// Whether a secret is a valid token of a factory.
    fn belongs_to(&self, secret: &Secret, factory: &FactoryId) -> bool {
        let now = self.now();
        let token = self.tokens.find(&hash(secret.reveal()));
        token.is_some_and(|token| is_of(&token, factory) && token.expires_at.is_none_or(|at| at > now))
    }

    /// Whether a factory uses this name, or has a token for it.
    fn is_taken(&self, factory: &FactoryId) -> bool {
        let now = self.now();
        let is_live = |token: &Token| is_of(token, factory) && token.expires_at.is_none_or(|at| at > now);
        self.state.lock().has_factory(factory) || !self.tokens.matching(is_live).is_empty()
    }

    /// A new token for a factory; the old ones stay valid for the overlap.
    pub async fn rotate_token(&self, who: &Principal, factory: &FactoryId) -> Result<RotateTokenResponse, Error> {
        who.factory_or_admin(factory)?;
        let old = self.tokens.matching(|token| is_of(token, factory));
        let Some((_, _, newest)) = old.iter().max_by_key(|(_, _, token)| token.created_at).cloned() else {
            return Err(Error::NoSuchFactory(factory.clone()));
        };
        let now = self.now();
        let live = old.iter().filter(|(_, _, token)| token.expires_at.is_none_or(|at| at > now)).count();
        if live >= FACTORY_TOKENS_MAX && who.require_admin().is_err() {
            return Err(Error::NotReady(format!(
                "factory `{factory}` has {FACTORY_TOKENS_MAX} valid tokens: wait until the older ones expire"
            )));
        }
        let old_until = self.now().after(self.settings.token_overlap);
        // The new one first: a factory is never left with only tokens that are about to expire.
        let ttl = self.settings.factory_token_ttl;
        let (_, secret) = self.make_token(newest.name, newest.grant, ttl, TokenOwner::default()).await?;
        for (hash, revision, token) in old {
            let ends = token.expires_at.map_or(old_until, |at| at.min(old_until));
            self.write_token(&hash, Expected::At(revision), Token { expires_at: Some(ends), ..token }).await?;
        }
        info!(factory.id = %factory, by = %who.name, "Rotated the token of factory `{factory}`");
        Ok(RotateTokenResponse { token: secret.0, old_until })
    }

    /// Revokes all tokens of a factory, and ends its open streams.
    pub async fn revoke_factory(&self, who: &Principal, factory: &FactoryId) -> Result<(), Error> {
        who.require_admin()?;
        self.revoke_factory_tokens(factory).await?;
        self.inboxes.close(factory);
        info!(factory.id = %factory, by = %who.name, "Revoked the tokens of factory `{factory}`");
        Ok(())
    }

    pub(crate) async fn revoke_factory_tokens(&self, factory: &FactoryId) -> Result<(), Error> {
        // A pool starts many factories: the join token of each goes with it.
        let is_its_join = |token: &Token| {
            matches!(token.grant, TokenScope::Join { pool: Some(_), .. }) && token.used_by.as_ref() == Some(factory)
        };
        for (hash, _, _) in self.tokens.matching(|token| is_of(token, factory) || is_its_join(token)) {
            self.remove_token(&hash).await?;
        }
        Ok(())
    }

    /// Revokes a token.
    pub async fn delete_token(&self, who: &Principal, id: TokenId) -> Result<(), Error> {
        who.require_admin()?;
        let found = self.tokens.matching(|token| token.id == id);
        let Some((hash, _, token)) = found.into_iter().next() else { return Err(Error::NoSuchToken) };
        if token.grant == TokenScope::Admin && self.valid_admins() == vec![token.id] {
            return Err(Error::LastAdminToken(token.name));
        }
        self.remove_token(&hash).await?;
        if let TokenScope::Factory { factory, .. } = &token.grant {
            self.inboxes.close(factory);
        }
        Ok(())
    }

    /// Checks that a login of the forge belongs to no other person.
    fn check_forge_login(&self, login: &str, person: &str) -> Result<(), Error> {
        check_person("forgeLogin", login)?;
        let is_taken = |token: &Token| {
            token.forge_login.as_deref().is_some_and(|known| known.eq_ignore_ascii_case(login))
                && !is_same_person(token.person(), person)
        };
        match self.tokens.matching(is_taken).first() {
            Some((_, _, token)) => {
                Err(invalid("forgeLogin", format!("`{login}` is the login of `{}`", token.person())))
            }
            None => Ok(()),
        }
    }

    /// The principal of a login of the forge that may vote on work of a product. A login of several people counts for none.
    pub(crate) fn forge_voter(&self, login: &str, product: &ProductId) -> Option<Principal> {
        let now = self.now();
        let is_its = |token: &Token| {
            token.forge_login.as_deref().is_some_and(|known| known.eq_ignore_ascii_case(login))
                && token.expires_at.is_none_or(|at| at > now)
        };
        let tokens = self.tokens.matching(is_its);
        let (_, _, first) = tokens.first()?;
        if tokens.iter().any(|(_, _, token)| !is_same_person(token.person(), first.person())) {
            return None;
        }
        let voters = tokens.iter().map(|(_, _, token)| Principal::of(token));
        voters.into_iter().find(|voter| voter.require_voter(product).is_ok())
    }

    fn valid_admins(&self) -> Vec<TokenId> {
        let now = self.now();
        let is_valid = |token: &Token| token.expires_at.is_none_or(|at| at > now);
        let admins = self.tokens.matching(|token| token.grant == TokenScope::Admin && is_valid(token));
        admins.into_iter().map(|(_, _, token)| token.id).collect()
    }

    /// All tokens, without their secrets.
    pub fn list_tokens(&self, who: &Principal) -> Result<TokenList, Error> {
        who.require_admin()?;
        let now = self.now();
        let is_listed = |token: &Token| !is_ended_join(token, now);
        let mut items: Vec<_> = self.tokens.matching(is_listed).iter().map(|(_, _, token)| view(token)).collect();
        items.sort_by_key(|token| (token.created_at, token.id));
        Ok(TokenList { items })
    }

    async fn make_token(
        &self,
        name: String,
        grant: TokenScope,
        ttl: Option<Duration>,
        owner: TokenOwner,
    ) -> Result<(Token, Secret), Error> {
        let secret = self.random_secret(&grant);
        let token = self.keep_token(name, grant, ttl, owner, &secret).await?;
        Ok((token, secret))
    }

    fn random_secret(&self, grant: &TokenScope) -> Secret {
        Secret(format!("giga_{}_{}", prefix(grant), URL_SAFE_NO_PAD.encode(self.ports.entropy.bytes::<32>())))
    }

    /// Stores a token by the hash of its secret.
    async fn keep_token(
        &self,
        name: String,
        grant: TokenScope,
        ttl: Option<Duration>,
        owner: TokenOwner,
        secret: &Secret,
    ) -> Result<Token, Error> {
        self.purge_tokens().await;
        let now = self.now();
        let id = TokenId::new(now, self.ports.entropy.bytes());
        let TokenOwner { person: owner, forge_login } = owner;
        let expires_at = ttl.map(|ttl| now.after(ttl));
        let token = Token { id, name, grant, created_at: now, expires_at, used_by: None, owner, forge_login };
        self.write_token(&hash(secret.reveal()), Expected::Absent, token.clone()).await?;
        Ok(token)
    }

    /// Removes some ended tokens. Admin tokens stay: a fleet that has had one never creates a first one again.
    pub(crate) async fn purge_tokens(&self) {
        let now = self.now();
        let has_ended = |token: &Token| {
            let kept = if matches!(token.grant, TokenScope::Join { .. }) { JOIN_KEPT } else { Duration::ZERO };
            token.grant != TokenScope::Admin && token.expires_at.is_some_and(|at| at.after(kept) <= now)
        };
        for (hash, _, token) in self.tokens.matching(has_ended).into_iter().take(PURGED_MAX) {
            if let Err(error) = self.remove_token(&hash).await {
                debug!(token.id = %token.id, %error, "Could not remove the expired token `{}`", token.id);
            }
        }
    }

    async fn write_token(&self, hash: &str, expected: Expected, token: Token) -> Result<(), Error> {
        match self.put_document(Collection::Tokens, hash, expected, Some(&token)).await? {
            PutOutcome::Written(revision) => {
                self.tokens.know(hash, Some(Versioned { value: token, revision }));
                Ok(())
            }
            PutOutcome::Lost(found) => {
                self.tokens.know(hash, found);
                Err(is_conflict())
            }
        }
    }

    async fn remove_token(&self, hash: &str) -> Result<TokenRemoval, Error> {
        let Some(revision) = self.tokens.by_hash.read().get(hash).map(|token| token.revision) else {
            return Ok(TokenRemoval::Before);
        };
        let expected = Expected::At(revision);
        match self.put_document::<Token>(Collection::Tokens, hash, expected, None).await? {
            PutOutcome::Written(_) => {
                self.tokens.know(hash, None);
                Ok(TokenRemoval::Now)
            }
            PutOutcome::Lost(None) => {
                self.tokens.know(hash, None);
                Ok(TokenRemoval::Before)
            }
            PutOutcome::Lost(found) => {
                self.tokens.know(hash, found);
                Err(is_conflict())
            }
        }
    }
}

/// The person that a token belongs to.
#[derive(Debug, Default)]
struct TokenOwner {
    person: Option<String>,
    forge_login: Option<String>,
}

/// The use of a join token.
#[derive(Debug, Clone, PartialEq, Eq)]
enum JoinUse {
    /// By this call.
    Now,
    /// By a factory before; unknown which one when the token is gone.
    Before(Option<FactoryId>),
}

fn is_ended_join(token: &Token, now: Timestamp) -> bool {
    matches!(token.grant, TokenScope::Join { .. }) && token.expires_at.is_some_and(|at| at <= now)
}

/// The removal of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TokenRemoval {
    /// By this call.
    Now,
    /// By an earlier call.
    Before,
}

fn is_of(token: &Token, wanted: &FactoryId) -> bool {
    matches!(&token.grant, TokenScope::Factory { factory, .. } if factory == wanted)
}

/// Whether a join token enrols any number of factories.
fn is_reusable(grant: &TokenScope) -> bool {
    matches!(grant, TokenScope::Join { pool: Some(_), factory: None, .. })
}

/// The token that an enrolment returns: as hard to guess as the join token, and the same on every repetition.
fn derived_secret(request: &EnrolRequest, nonce: ClaimNonce) -> Secret {
    let mut digest = Sha256::new();
    for part in [request.join_token.as_bytes(), nonce.as_bytes(), request.factory_id.as_str().as_bytes()] {
        digest.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
        digest.update(part);
    }
    Secret(format!("giga_fac_{}", URL_SAFE_NO_PAD.encode(digest.finalize())))
}

fn check_ttl(seconds: Option<u64>) -> Result<(), Error> {
    match seconds {
        Some(seconds) if !(1..=TTL_MAX.as_secs()).contains(&seconds) => {
            Err(invalid("ttlSeconds", format!("1 to {} (10 years), found {seconds}", TTL_MAX.as_secs())))
        }
        Some(_) | None => Ok(()),
    }
}

fn prefix(grant: &TokenScope) -> &'static str {
    match grant {
        TokenScope::Admin => "adm",
        TokenScope::Operator { .. } => "opr",
        TokenScope::Viewer { .. } => "vwr",
        TokenScope::Factory { .. } => "fac",
        TokenScope::Join { .. } => "join",
    }
}

fn view(token: &Token) -> TokenView {
    TokenView {
        id: token.id,
        name: token.name.clone(),
        grant: token.grant.clone(),
        created_at: token.created_at,
        expires_at: token.expires_at,
        owner: token.owner.clone(),
        forge_login: token.forge_login.clone(),
    }
}

pub(crate) fn hash(secret: &str) -> String {
    TokenDigest::of(secret).to_text()
}
