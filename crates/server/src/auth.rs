//! Authentication: the principal of the bearer token or of the browser session, and the client's address.

use std::net::IpAddr;
use std::time::Duration;

use axum::extract::{FromRequestParts, MatchedPath};
use coordinator::{Error, Principal};
use domain::{TokenId, TokenScope};
use http::request::Parts;
use http::{HeaderMap, header};
use protocol::SESSION_HEADER;

use crate::app::{App, Exposure, Proxy};
use crate::auth_rate_limit::network;
use crate::forward::ForwardedClient;
use crate::host_check;
use crate::mount::Authenticated;
use crate::problem::Problem;

/// Both addresses of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectionAddresses {
    /// The client's address.
    pub(crate) peer: IpAddr,
    /// The server's address.
    pub(crate) local: IpAddr,
}

/// The principal of the request's bearer token or browser session.
pub(crate) struct Caller(pub(crate) Principal);

impl FromRequestParts<App> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let who = authenticate(parts, app)?;
        // Only authenticated callers learn which parameters exist.
        check_query(parts, app)?;
        Ok(Self(who))
    }
}

/// The principal of a request.
pub(crate) fn authenticate(parts: &Parts, app: &App) -> Result<Principal, Problem> {
    if let Some(caller) = parts.extensions.get::<Authenticated>() {
        return Ok(caller.principal().clone());
    }
    let origin = RequestOrigin::of(parts, app);
    match bearer(&parts.headers) {
        Some(secret) => origin.checked_token(app, app.coordinator.authenticate(secret)),
        None => {
            let who = origin.checked_token(app, browser(parts, app)?)?;
            host_check::check_same_origin(parts)?;
            Ok(who)
        }
    }
}

/// The principal of a browser session. A request with only one half is rejected here and not counted as a guess: pages
/// of other ports send our cookie too.
fn browser(parts: &Parts, app: &App) -> Result<Result<Principal, Error>, Problem> {
    let page = parts.headers.get(SESSION_HEADER).and_then(|value| value.to_str().ok());
    let mut cookies = app.session_cookie.values(&parts.headers).peekable();
    let (Some(page), Some(_)) = (page, cookies.peek()) else { return Err(Error::Unauthenticated.into()) };
    let found = cookies.find_map(|cookie| app.coordinator.authenticate_session(cookie, page).ok());
    Ok(found.ok_or(Error::Unauthenticated))
}

fn check_query(parts: &Parts, app: &App) -> Result<(), Problem> {
    match (parts.uri.query(), parts.extensions.get::<MatchedPath>()) {
        (Some(query), Some(path)) => app.request_schemas.check_query(&parts.method, path.as_str(), query),
        _ => Ok(()),
    }
}

/// The source of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestOrigin {
    client: IpAddr,
    local: IpAddr,
    is_forwarded: bool,
}

impl RequestOrigin {
    fn of(parts: &Parts, app: &App) -> Self {
        let ends = parts.extensions.get::<ConnectionAddresses>();
        let peer = ends.map_or(IpAddr::from([0, 0, 0, 0]), |ends| ends.peer);
        let local = ends.map_or(IpAddr::from([127, 0, 0, 1]), |ends| ends.local);
        let via = parts.extensions.get::<ForwardedClient>();
        let client = match (via, app.proxy) {
            (Some(ForwardedClient(client)), _) => *client,
            (None, Proxy::None) => peer,
            (None, Proxy::Trusted) => forwarded(&parts.headers).unwrap_or(peer),
        };
        Self { client, local, is_forwarded: via.is_some() }
    }

    /// Whether another coordinator forwarded the request, and has checked the address that its client dialled.
    pub(crate) fn is_forwarded(self) -> bool {
        self.is_forwarded
    }

    /// The server's address of its connection.
    pub(crate) fn local(self) -> IpAddr {
        self.local
    }

    /// Rejects a network with too many recent wrong tokens, before its request is read.
    pub(crate) fn check(self, app: &App) -> Result<(), Problem> {
        app.wrong_tokens.check(self.client).map_err(too_many_wrong_tokens)
    }

    /// The client's network.
    pub(crate) fn network(self) -> IpAddr {
        network(self.client)
    }

    /// Returns an answer, and counts it if the token was unknown.
    pub(crate) fn checked_token<T>(self, app: &App, answer: Result<T, Error>) -> Result<T, Problem> {
        match answer {
            Err(Error::Unauthenticated) => match app.wrong_tokens.count(self.client) {
                Ok(()) => Err(Error::Unauthenticated.into()),
                Err(wait) => Err(too_many_wrong_tokens(wait)),
            },
            answer => answer.map_err(Problem::from),
        }
    }
}

fn too_many_wrong_tokens(wait: Duration) -> Problem {
    Problem::rate_limited("too many invalid tokens from this network", wait)
}

impl FromRequestParts<App> for RequestOrigin {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        Ok(Self::of(parts, app))
    }
}

/// The caller of `/metrics`: any program if only this machine can reach the server, otherwise the principal of a token.
pub(crate) struct MetricsReader(pub(crate) Principal);

impl FromRequestParts<App> for MetricsReader {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        match app.reach {
            Exposure::Local => Ok(Self(reader())),
            Exposure::Network => Caller::from_request_parts(parts, app).await.map(|Caller(who)| Self(who)),
        }
    }
}

/// A principal with read access to everything.
pub(crate) fn reader() -> Principal {
    let grant = TokenScope::Viewer { products: std::collections::BTreeSet::new() };
    Principal {
        token: TokenId::from_bytes([0; 16]),
        name: "this machine".to_owned(),
        owner: None,
        grant,
        session: None,
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, secret) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| secret.trim())
}

/// The last entry is the one that the trusted proxy added; the client can forge all earlier ones.
pub(crate) fn forwarded(headers: &HeaderMap) -> Option<IpAddr> {
    let value = headers.get_all("x-forwarded-for").iter().next_back()?.to_str().ok()?;
    value.rsplit(',').next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_proxys_own_forwarded_entry_counts() {
        let mut headers = HeaderMap::new();
        headers.append("x-forwarded-for", "203.0.113.9".parse().unwrap());
        headers.append("x-forwarded-for", "203.0.113.9, 192.0.2.1".parse().unwrap());

        assert_eq!(forwarded(&headers), Some(IpAddr::from([192, 0, 2, 1])));
    }

    #[test]
    fn a_bearer_token_is_found_however_its_scheme_is_written() {
        let token = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, value.parse().unwrap());
            bearer(&headers).map(str::to_owned)
        };

        assert_eq!(token("Bearer giga_x"), Some("giga_x".to_owned()));
        assert_eq!(token("bearer giga_x"), Some("giga_x".to_owned()));
        assert_eq!(token("Basic giga_x"), None);
        assert_eq!(token("giga_x"), None);
    }
}
