//! GitHub over HTTP, with a token of the factory's own.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use client::HttpTransport;
use http::{HeaderValue, Request, Uri, header};
use http_body_util::{BodyExt, Full, Limited};

use super::http::{ANSWER_LEN_MAX, ForgeCall, ForgeReply, ForgeTransport, ForgeUnreachable};
use super::token::{Token, TokenSource};

/// The timeout of one exchange. Several of them must fit into the time of an errand.
const EXCHANGE_TIME_MAX: Duration = Duration::from_secs(15);

/// The version of the API.
const API_VERSION: &str = "2022-11-28";

/// GitHub over HTTP.
pub(super) struct Rest {
    network: Arc<dyn HttpTransport>,
    /// Resolves to public addresses only.
    elsewhere: Arc<dyn HttpTransport>,
    base: String,
    token: TokenSource,
}

impl Rest {
    /// The API at `base`, with one HTTP client for it and another for its redirects.
    pub(super) fn new(
        network: Arc<dyn HttpTransport>,
        elsewhere: Arc<dyn HttpTransport>,
        base: &str,
        token: TokenSource,
    ) -> Self {
        Self { network, elsewhere, base: base.trim_end_matches('/').to_owned(), token }
    }

    /// Whether a URL has the configured origin: scheme, host and port.
    fn is_own(&self, address: &Uri) -> bool {
        let own: Option<Uri> = self.base.parse().ok();
        own.is_some_and(|own| own.scheme() == address.scheme() && own.authority() == address.authority())
    }

    /// The URL of a path. On a self-hosted server GraphQL is beside the versioned API.
    fn address(&self, path: &str) -> String {
        let base = match path {
            "/graphql" => self.base.strip_suffix("/v3").unwrap_or(&self.base),
            _ => &self.base,
        };
        format!("{base}{path}")
    }

    fn request(&self, call: &ForgeCall, token: &Token) -> Result<Request<Full<bytes::Bytes>>, String> {
        let mut authorization = HeaderValue::from_str(&format!("Bearer {}", token.reveal()))
            .map_err(|_| "the token cannot be sent".to_owned())?;
        authorization.set_sensitive(true);
        let mut request = Request::builder()
            .method(call.method.clone())
            .uri(self.address(&call.path))
            .header(header::AUTHORIZATION, authorization)
            .header(header::ACCEPT, "application/vnd.github+json")
            .header(header::USER_AGENT, "gigafactory")
            .header("x-github-api-version", API_VERSION);
        if let Some(etag) = &call.etag {
            request = request.header(header::IF_NONE_MATCH, etag);
        }
        if call.body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        request.body(Full::new(call.body.clone().unwrap_or_default())).map_err(|error| error.to_string())
    }
}

#[async_trait]
impl ForgeTransport for Rest {
    async fn carry(&self, call: &ForgeCall) -> Result<ForgeReply, ForgeUnreachable> {
        let token = self.token.read().map_err(ForgeUnreachable::NoToken)?;
        let away = |why: String| ForgeUnreachable::Away(token.scrubbed(&why));
        let request = self.request(call, &token).map_err(ForgeUnreachable::NoToken)?;
        let exchange = async {
            let response = self.network.exchange(request).await.map_err(|fault| away(fault.to_string()))?;
            let (parts, body) = response.into_parts();
            let body = Limited::new(body, ANSWER_LEN_MAX).collect().await.map_err(|error| away(error.to_string()))?;
            Ok(ForgeReply { status: parts.status.as_u16(), headers: parts.headers, body: body.to_bytes() })
        };
        match tokio::time::timeout(EXCHANGE_TIME_MAX, exchange).await {
            Ok(reply) => reply.map(|reply| without(&token, reply)),
            Err(_) => Err(ForgeUnreachable::Away(format!("nothing came back within {EXCHANGE_TIME_MAX:?}"))),
        }
    }

    async fn follow(&self, address: &str) -> Result<ForgeReply, ForgeUnreachable> {
        let away = |why: &str| ForgeUnreachable::Away(why.to_owned());
        let address: Uri = address.parse().map_err(|_| away("the forge leads to no address"))?;
        // The operator chose the forge's address; a redirect is chosen by the server.
        let network = if self.is_own(&address) { &self.network } else { &self.elsewhere };
        let request = Request::builder().uri(address).header(header::USER_AGENT, "gigafactory");
        let request = request.body(Full::default()).map_err(|error| away(&error.to_string()))?;
        let exchange = async {
            let response = network.exchange(request).await.map_err(|fault| away(&fault.to_string()))?;
            let (parts, body) = response.into_parts();
            let body = Limited::new(body, ANSWER_LEN_MAX).collect().await.map_err(|error| away(&error.to_string()))?;
            Ok(ForgeReply { status: parts.status.as_u16(), headers: parts.headers, body: body.to_bytes() })
        };
        tokio::time::timeout(EXCHANGE_TIME_MAX, exchange)
            .await
            .unwrap_or_else(|_| Err(away("nothing came back in time")))
    }
}

/// Removes our token from an answer that repeats it.
fn without(token: &Token, reply: ForgeReply) -> ForgeReply {
    let needle = token.reveal().as_bytes();
    if !reply.body.windows(needle.len()).any(|window| window == needle) {
        return reply;
    }
    let text = token.scrubbed(&String::from_utf8_lossy(&reply.body));
    ForgeReply { body: text.into_bytes().into(), ..reply }
}

#[cfg(test)]
mod tests {
    use super::*;

    // [attack: SSRF]
    #[test]
    fn only_the_very_place_that_the_operator_named_is_the_forge_itself() {
        let network = client::real_network(&client::Trust::Public).unwrap();
        let token = TokenSource::Variable("NO_SUCH".to_owned());
        let rest = Rest::new(Arc::clone(&network), network, "http://127.0.0.1:80", token);
        let is_own = |address: &str| rest.is_own(&address.parse().unwrap());

        assert!(is_own("http://127.0.0.1:80/logs/1"));
        for address in [
            "http://127.0.0.1:8080/logs/1",
            "http://127.0.0.1:80@inside.example/logs",
            "https://127.0.0.1:80/logs",
            "http://127.0.0.1.inside.example/",
            "/logs/1",
        ] {
            assert!(!is_own(address), "{address}");
        }
    }
}
