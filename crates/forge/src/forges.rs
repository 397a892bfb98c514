//! The forges of a factory: one interface, and a view of it for each repository.

use std::path::Path;
use std::sync::Arc;

use client::Trust;
use domain::{Clock, RepoName};
use http::Uri;

use super::Forge;
use super::config::{ForgeConfig, ForgeKind};
use super::gh::Gh;
use super::github::{Api, GitHub, TrustedAuthors};
use super::http::ForgeTransport;
use super::rest::Rest;
use super::slug::Slug;
use super::token::TokenSource;

/// The URL of GitHub's API.
const GITHUB_API: &str = "https://api.github.com";

/// Default: whose comments count.
const LISTEN_TO: [&str; 3] = ["OWNER", "MEMBER", "COLLABORATOR"];

/// Default: the prefix of a comment for an agent.
const MENTION: &str = "/giga";

/// The forge of a factory, if it has one.
pub struct Forges {
    config: ForgeConfig,
    api: Option<Arc<Api>>,
    /// The host of the forge's repositories.
    host: String,
    listening: Arc<TrustedAuthors>,
}

/// An invalid forge configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the forge cannot be used: {0}")]
pub struct ForgesError(String);

impl Forges {
    /// The forge of `config`. Nothing is sent yet. `empty_home` is the home of `gh` unless one is configured.
    pub fn open(config: ForgeConfig, empty_home: &Path, clock: Arc<dyn Clock>) -> Result<Self, ForgesError> {
        check(&config)?;
        let base = config.api.clone().unwrap_or_else(|| GITHUB_API.to_owned());
        let host = host_of(&base)?;
        let transport: Option<Box<dyn ForgeTransport>> = match config.kind {
            ForgeKind::None => None,
            ForgeKind::Github => Some(Box::new(rest(&config, &base)?)),
            ForgeKind::Gh => Some(Box::new(gh(&config, empty_home, host.clone()))),
        };
        let api = transport.map(|transport| Arc::new(Api::new(transport, clock)));
        let listening = Arc::new(TrustedAuthors {
            to: config.listen_to.clone().unwrap_or_else(|| LISTEN_TO.map(str::to_owned).to_vec()),
            mention: config.mention.clone().unwrap_or_else(|| MENTION.to_owned()),
        });
        Ok(Self { config, api, host, listening })
    }

    /// The forge of a repository; `None` where everything is plain git.
    pub fn of(&self, repo: &RepoName, url: &str) -> Option<Arc<dyn Forge>> {
        let api = self.api.as_ref()?;
        let slug = self.config.slugs.get(repo).cloned().or_else(|| Slug::of_url(url, &self.host))?;
        Some(Arc::new(GitHub::new(Arc::clone(api), slug, Arc::clone(&self.listening))))
    }

    /// The configuration.
    pub fn config(&self) -> &ForgeConfig {
        &self.config
    }
}

/// GitHub's API of `config`, over REST.
pub(super) fn github_api(config: &ForgeConfig, clock: Arc<dyn Clock>) -> Result<Arc<Api>, ForgesError> {
    let base = config.api.clone().unwrap_or_else(|| GITHUB_API.to_owned());
    host_of(&base)?;
    Ok(Arc::new(Api::new(Box::new(rest(config, &base)?), clock)))
}

fn rest(config: &ForgeConfig, base: &str) -> Result<Rest, ForgesError> {
    let token = match (&config.token_file, &config.token_env) {
        (Some(file), None) => TokenSource::File(file.clone()),
        (None, Some(name)) => TokenSource::Variable(name.clone()),
        (Some(_), Some(_)) => return Err(refuse("give either `token_file` or `token_env`, not both")),
        (None, None) => return Err(refuse("it needs a token: name a `token_file`, or a variable in `token_env`")),
    };
    if let Err(why) = token.read() {
        return Err(ForgesError(format!("its token: {why}")));
    }
    let network = client::real_network(&Trust::Public).map_err(ForgesError)?;
    let elsewhere = client::public_network(&Trust::Public).map_err(ForgesError)?;
    Ok(Rest::new(network, elsewhere, base, token))
}

fn gh(config: &ForgeConfig, empty_home: &Path, host: String) -> Gh {
    let program = config.gh.program.clone().unwrap_or_else(|| "gh".into());
    let home = config.gh.home.clone().unwrap_or_else(|| empty_home.to_owned());
    Gh::new(program, home, std::env::var_os("PATH").unwrap_or_default(), host)
}

fn check(config: &ForgeConfig) -> Result<(), ForgesError> {
    for (product, place) in &config.products {
        if place.branch.is_some() || place.author.is_some() {
            return Err(ForgesError(format!(
                "product `{product}` cannot name a `branch` or an `author`: say it for its repositories"
            )));
        }
    }
    Ok(())
}

/// The host of repositories. A token is sent encrypted, or not at all.
fn host_of(base: &str) -> Result<String, ForgesError> {
    let uri: Uri = base.parse().map_err(|_| refuse("`api` is not an address"))?;
    let host = uri.host().ok_or_else(|| refuse("`api` names no host"))?;
    let is_local = matches!(host, "localhost" | "127.0.0.1" | "[::1]");
    if uri.scheme_str() != Some("https") && !(uri.scheme_str() == Some("http") && is_local) {
        return Err(refuse("`api` must be an https address: a token goes there"));
    }
    Ok(host.strip_prefix("api.").unwrap_or(host).to_owned())
}

fn refuse(why: &str) -> ForgesError {
    ForgesError(why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    // [attack: a prompt-injected agent steals secrets]
    #[test]
    fn a_token_is_never_sent_over_a_network_in_the_clear() {
        assert!(host_of("http://forge.example/api/v3").is_err());
        assert!(host_of("ftp://forge.example").is_err());
        assert_eq!(host_of("http://127.0.0.1:8080").as_deref(), Ok("127.0.0.1"));
        assert_eq!(host_of("https://forge.example/api/v3").as_deref(), Ok("forge.example"));
        assert_eq!(host_of(GITHUB_API).as_deref(), Ok("github.com"));
    }
}
