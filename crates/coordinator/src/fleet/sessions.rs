//! Browser sessions: a cookie and a value that the page keeps, both stored as hashes; and one-time codes to begin one.
//!
//! Cookies have no port: a page that an agent serves on the same host gets the session's cookie too. Without the other
//! half it is worth nothing.

use std::collections::VecDeque;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use domain::{Collection, Expected, Generation, Session, SessionId, Timestamp, Token, TokenScope, Versioned};
use foldhash::HashMap;
use parking_lot::{Mutex, RwLock};
use tracing::{debug, info};

use crate::commit::cas_documents::{PutOutcome, is_conflict};
use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::fleet::principal::Principal;
use crate::fleet::tokens::{Secret, hash};
use crate::submit::invalid;

/// The fixed life of a session: use does not prolong it, so that it costs no write.
const SESSION_TTL: Duration = Duration::from_hours(12);

/// Sessions of one token; a further one ends the oldest.
const PER_TOKEN_MAX: usize = 32;

/// All sessions; a further one ends the oldest.
const SESSIONS_MAX: usize = 1_024;

/// Ended sessions removed per sign-in.
const PURGED_MAX: usize = 32;

/// Unused codes of one token, and of all; a further one replaces the oldest.
const CODES_PER_TOKEN_MAX: usize = 8;
const CODES_MAX: usize = 256;

/// The lifetime of a code.
const CODE_TTL: Duration = Duration::from_mins(5);
const CODE_TTL_MIN: Duration = Duration::from_mins(1);
const CODE_TTL_MAX: Duration = Duration::from_mins(10);

/// How a browser signs in.
#[derive(Clone, Copy)]
pub enum SignIn<'a> {
    /// With the secret of a token.
    Token(&'a str),
    /// With a one-time code.
    Code(&'a str),
}

/// A session that has begun. Its secrets are only here.
pub struct NewSession {
    /// The half for the cookie.
    pub cookie: Secret,
    /// The half for the page.
    pub page: Secret,
    /// The caller.
    pub principal: Principal,
    /// When the session ends.
    pub expires_at: Timestamp,
}

/// All sessions, by the hash of their cookie. In memory, so that a request costs no store operation.
#[derive(Default)]
pub(crate) struct SessionBook {
    by_hash: RwLock<HashMap<String, Versioned<Session>>>,
    codes: Mutex<VecDeque<Code>>,
    /// One sign-in at a time, or two could both find a place.
    signing_in: tokio::sync::Mutex<()>,
}

/// An unused code.
struct Code {
    hash: String,
    token_hash: String,
    /// On the monotonic clock.
    expires: Duration,
}

impl SessionBook {
    /// Sessions of another generation are from before a restore, and have ended.
    pub(crate) fn load(&self, sessions: impl Iterator<Item = (String, Versioned<Session>)>, generation: Generation) {
        let ended = |(hash, mut session): (String, Versioned<Session>)| {
            if session.value.generation != generation {
                session.value.expires_at = session.value.created_at;
            }
            (hash, session)
        };
        self.by_hash.write().extend(sessions.map(ended));
    }

    /// Whether a session exists and has not ended.
    pub(crate) fn is_live(&self, id: SessionId, now: Timestamp) -> bool {
        self.find(id).is_some_and(|(_, session)| session.expires_at > now)
    }

    fn find(&self, id: SessionId) -> Option<(String, Session)> {
        let sessions = self.by_hash.read();
        let found = sessions.iter().find(|(_, session)| session.value.id == id);
        found.map(|(hash, session)| (hash.clone(), session.value.clone()))
    }

    fn matching(&self, wanted: impl Fn(&Session) -> bool) -> Vec<(String, Session)> {
        let sessions = self.by_hash.read();
        let matches = sessions.iter().filter(|(_, session)| wanted(&session.value));
        matches.map(|(hash, session)| (hash.clone(), session.value.clone())).collect()
    }

    /// The token of a code, once.
    fn redeem(&self, code: &str, now: Duration) -> Option<String> {
        let hash = hash(code);
        let mut codes = self.codes.lock();
        codes.retain(|code| code.expires > now);
        let at = codes.iter().position(|code| code.hash == hash)?;
        codes.remove(at).map(|code| code.token_hash)
    }

    fn keep_code(&self, new: Code, now: Duration) {
        let mut codes = self.codes.lock();
        codes.retain(|code| code.expires > now);
        let own = codes.iter().filter(|code| code.token_hash == new.token_hash).count();
        if own >= CODES_PER_TOKEN_MAX
            && let Some(oldest) = codes.iter().position(|code| code.token_hash == new.token_hash)
        {
            codes.remove(oldest);
        }
        if codes.len() >= CODES_MAX {
            codes.pop_front();
        }
        codes.push_back(new);
    }
}

impl Coordinator {
    /// Begins a browser session. It has the scope of its token and ends with it.
    pub async fn sign_in(&self, with: SignIn<'_>) -> Result<NewSession, Error> {
        let token_hash = match with {
            SignIn::Token(secret) => hash(secret),
            SignIn::Code(code) => {
                let redeemed = self.sessions.redeem(code, self.ports.clock.monotonic());
                redeemed.ok_or(Error::Unauthenticated)?
            }
        };
        let token = self.valid_token(&token_hash).ok_or(Error::Unauthenticated)?;
        require_person(&token.grant)?;
        let _turn = self.sessions.signing_in.lock().await;
        self.make_room(&token_hash).await?;
        let (cookie, page) = (self.session_secret("ses"), self.session_secret("tab"));
        let now = self.now();
        let end = now.after(SESSION_TTL);
        let session = Session {
            id: SessionId::new(now, self.ports.entropy.bytes()),
            page_hash: hash(page.reveal()),
            token_hash,
            created_at: now,
            expires_at: token.expires_at.map_or(end, |at| at.min(end)),
            generation: self.generation,
        };
        let principal = Principal { session: Some(session.id), ..Principal::of(&token) };
        let expires_at = session.expires_at;
        self.write_session(&hash(cookie.reveal()), session).await?;
        info!(token.id = %token.id, "`{}` signed in with a browser", token.name);
        Ok(NewSession { cookie, page, principal, expires_at })
    }

    /// The principal of a session. Both halves are needed.
    pub fn authenticate_session(&self, cookie: &str, page: &str) -> Result<Principal, Error> {
        let session = self.sessions.by_hash.read().get(&hash(cookie)).map(|session| session.value.clone());
        let is_whole = |session: &Session| session.page_hash == hash(page) && session.expires_at > self.now();
        let session = session.filter(is_whole).ok_or(Error::Unauthenticated)?;
        let token = self.valid_token(&session.token_hash).ok_or(Error::Unauthenticated)?;
        Ok(Principal { session: Some(session.id), ..Principal::of(&token) })
    }

    /// When the authority of a caller ends: with its session, or with its token.
    pub fn authority_expires_at(&self, who: &Principal) -> Option<Timestamp> {
        match who.session {
            Some(id) => self.sessions.find(id).map(|(_, session)| session.expires_at),
            None => self.tokens.matching(|token| token.id == who.token).pop()?.2.expires_at,
        }
    }

    /// Signs a browser out.
    pub async fn sign_out(&self, who: &Principal) -> Result<(), Error> {
        let Some(id) = who.session else {
            let why = "a bearer token has no session to end: revoke it with `giga token revoke`";
            return Err(Error::Forbidden(why.to_owned()));
        };
        match self.sessions.find(id) {
            Some((hash, _)) => self.remove_session(&hash).await,
            None => Ok(()),
        }
    }

    /// A one-time code that signs a browser in with the caller's token, and when it expires. It is kept in memory only.
    pub fn create_sign_in_code(&self, who: &Principal, ttl_seconds: Option<u64>) -> Result<(Secret, Timestamp), Error> {
        if !matches!(who.grant, TokenScope::Admin | TokenScope::Operator { .. }) {
            return Err(Error::Forbidden("an operator or admin token is needed".to_owned()));
        }
        if who.session.is_some() {
            return Err(Error::Forbidden("a sign-in code needs the token itself, not a browser session".to_owned()));
        }
        let ttl = ttl_seconds.map_or(CODE_TTL, Duration::from_secs);
        if !(CODE_TTL_MIN..=CODE_TTL_MAX).contains(&ttl) {
            let (min, max) = (CODE_TTL_MIN.as_secs(), CODE_TTL_MAX.as_secs());
            return Err(invalid("ttlSeconds", format!("{min} to {max}, found {}", ttl.as_secs())));
        }
        let found = self.tokens.matching(|token| token.id == who.token).pop();
        let (token_hash, _, _) = found.ok_or(Error::Unauthenticated)?;
        let (code, now) = (self.session_secret("code"), self.ports.clock.monotonic());
        self.sessions.keep_code(Code { hash: hash(code.reveal()), token_hash, expires: now + ttl }, now);
        Ok((code, self.now().after(ttl)))
    }

    fn valid_token(&self, hash: &str) -> Option<Token> {
        let token = self.tokens.find(hash)?;
        token.expires_at.is_none_or(|at| at > self.now()).then_some(token)
    }

    fn session_secret(&self, kind: &str) -> Secret {
        Secret::new(format!("giga_{kind}_{}", URL_SAFE_NO_PAD.encode(self.ports.entropy.bytes::<32>())))
    }

    /// Removes some ended sessions, and the oldest where there are too many.
    async fn make_room(&self, token_hash: &str) -> Result<(), Error> {
        let now = self.now();
        let has_ended =
            |session: &Session| session.expires_at <= now || self.tokens.find(&session.token_hash).is_none();
        for (hash, session) in self.sessions.matching(has_ended).into_iter().take(PURGED_MAX) {
            if let Err(error) = self.remove_session(&hash).await {
                debug!(session.id = %session.id, %error, "Could not remove the ended session `{}`", session.id);
            }
        }
        self.end_oldest(PER_TOKEN_MAX, |session| session.token_hash == token_hash).await?;
        self.end_oldest(SESSIONS_MAX, |_| true).await
    }

    /// Ends the oldest of these sessions if there is no place for one more.
    async fn end_oldest(&self, max: usize, wanted: impl Fn(&Session) -> bool) -> Result<(), Error> {
        let sessions = self.sessions.matching(wanted);
        if sessions.len() < max {
            return Ok(());
        }
        match sessions.into_iter().min_by_key(|(_, session)| (session.created_at, session.id)) {
            Some((hash, _)) => self.remove_session(&hash).await,
            None => Ok(()),
        }
    }

    async fn write_session(&self, hash: &str, session: Session) -> Result<(), Error> {
        match self.put_document(Collection::Sessions, hash, Expected::Absent, Some(&session)).await? {
            PutOutcome::Written(revision) => {
                self.sessions.by_hash.write().insert(hash.to_owned(), Versioned { value: session, revision });
                Ok(())
            }
            PutOutcome::Lost(_) => Err(is_conflict()),
        }
    }

    async fn remove_session(&self, hash: &str) -> Result<(), Error> {
        let Some(revision) = self.sessions.by_hash.read().get(hash).map(|session| session.revision) else {
            return Ok(());
        };
        self.put_document::<Session>(Collection::Sessions, hash, Expected::At(revision), None).await?;
        // A session is written once: another writer can only have removed it.
        self.sessions.by_hash.write().remove(hash);
        Ok(())
    }
}

fn require_person(scope: &TokenScope) -> Result<(), Error> {
    match scope {
        TokenScope::Admin | TokenScope::Operator { .. } | TokenScope::Viewer { .. } => Ok(()),
        TokenScope::Factory { .. } | TokenScope::Join { .. } => {
            Err(Error::Forbidden("a browser signs in with an admin, operator or viewer token".to_owned()))
        }
    }
}
