//! `[client]`: how clients reach the coordinator.

use std::net::IpAddr;
use std::path::PathBuf;

use domain::ProductId;

use crate::failure::Failure;

use super::data::DataDir;
use super::file;
use super::overrides::Overrides;
use super::resolver::{Ask, Resolver};
use super::secret::Secret;
use super::setting::{Origin, Setting};

/// Where a coordinator is when nobody says otherwise.
const API: &str = "http://127.0.0.1:7878";

/// How clients reach the coordinator.
#[derive(Debug)]
pub(crate) struct ClientConfig {
    /// Its address.
    pub(crate) api: Setting<String>,
    /// Where the token is.
    pub(crate) token: Setting<TokenSource>,
    /// The product that requests are about.
    pub(crate) product: Setting<Option<ProductId>>,
    /// The certificate authority that the coordinator's certificate is from, when it is not a public one.
    pub(crate) ca: Setting<Option<PathBuf>>,
}

/// Where a token is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TokenSource {
    /// Here.
    Given(Secret),
    /// In a file that somebody named.
    File(PathBuf),
    /// In the file that a coordinator on this machine leaves for its user.
    Beside(PathBuf),
    /// Nobody said.
    Nowhere,
}

impl ClientConfig {
    pub(super) fn resolve(
        resolver: &mut Resolver,
        flags: &Overrides,
        file: file::Client,
        data: &DataDir,
    ) -> Result<Self, Failure> {
        let file::Client { api, token, token_file, product, ca } = file;
        let ask = Ask::new("client.api").flag("--api", flags.api.clone()).env(&["GIGA_API", "AQ_FLEET_API"]).file(api);
        let found = resolver.find(ask)?;
        let of_folder = of_named_folder(data, flags);
        // What is set for every day is for another fleet than the one whose folder is named now, its token too.
        let is_another = of_folder.is_some() && found.is_some();
        let api = of_folder
            .or(found)
            .or_else(|| running_here(data))
            .unwrap_or_else(|| Setting { value: API.to_owned(), origin: Origin::Default });
        resolver.list("client.api", api.value.clone(), &api.origin);
        let mut token = token_source(resolver, flags, token, token_file, || match is_loopback(&api.value) {
            true => TokenSource::Beside(data.admin_token()),
            false => TokenSource::Nowhere,
        })?;
        if is_another && flags.token.is_none() {
            let path = data.admin_token();
            token = Setting { value: TokenSource::Beside(path.clone()), origin: Origin::Beside(path) };
        }
        resolver.list("client.token", token.value.shown(), &token.origin);
        let product = Ask::new("client.product")
            .flag("--product", flags.product.clone())
            .env(&["GIGA_PRODUCT", "AQ_PRODUCT_ID"])
            .file(product);
        let product = resolver.optional(product)?;
        let ca = resolver.optional(Ask::new("client.ca").env(&["GIGA_CA"]).file(resolver.placed(ca)))?;
        Ok(Self { api, token, product, ca })
    }
}

/// The coordinator of the folder that the command line names, whatever is set for every day.
fn of_named_folder(data: &DataDir, flags: &Overrides) -> Option<Setting<String>> {
    let is_named = matches!(data.origin(), Origin::Flag(_)) && flags.api.is_none();
    is_named.then(|| running_here(data)).flatten()
}

/// The address that a coordinator on this machine wrote down.
fn running_here(data: &DataDir) -> Option<Setting<String>> {
    let path = data.endpoint();
    let address = std::fs::read_to_string(&path).ok()?;
    let value = address.trim().to_owned();
    (!value.is_empty()).then_some(Setting { value, origin: Origin::Beside(path) })
}

fn token_source(
    resolver: &mut Resolver,
    flags: &Overrides,
    token: Option<toml::Spanned<Secret>>,
    token_file: Option<toml::Spanned<PathBuf>>,
    default: impl FnOnce() -> TokenSource,
) -> Result<Setting<TokenSource>, Failure> {
    let given = Ask::new("client.token").flag("--token", flags.token.clone()).env(&["GIGA_TOKEN"]);
    let named = Ask::new("client.token_file").env(&["GIGA_TOKEN_FILE"]);
    let given_in_file = Ask::new("client.token").env(&["AQ_FLEET_TOKEN"]).file(token);
    let named_in_file = Ask::new("client.token_file").file(resolver.placed(token_file));
    let places = [
        resolver.find(given)?.map(|found| found.map(TokenSource::Given)),
        resolver.find(named)?.map(|found| found.map(TokenSource::File)),
        resolver.find(given_in_file)?.map(|found| found.map(TokenSource::Given)),
        resolver.find(named_in_file)?.map(|found| found.map(TokenSource::File)),
    ];
    let first = places.into_iter().flatten().next();
    Ok(first.unwrap_or_else(|| Setting { value: default(), origin: Origin::Default }))
}

impl TokenSource {
    /// The token; `None` when nobody said where it is, or the coordinator of this machine never ran.
    pub(crate) fn read(&self) -> Result<Option<Secret>, Failure> {
        let (path, must_exist) = match self {
            Self::Given(secret) => return Ok(Some(secret.clone())),
            Self::Nowhere => return Ok(None),
            Self::File(path) => (path, true),
            Self::Beside(path) => (path, false),
        };
        match std::fs::read_to_string(path) {
            Ok(text) => Ok(Some(Secret::new(&text))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && !must_exist => Ok(None),
            Err(error) => Err(Failure::unauthorized(format!("cannot read the token in {}: {error}", path.display()))),
        }
    }

    fn shown(&self) -> String {
        let kind = |path: &PathBuf| match std::fs::read_to_string(path) {
            Ok(text) => format!("{} (from file {})", Secret::new(&text).kind(), path.display()),
            Err(_) => format!("- (no file {})", path.display()),
        };
        match self {
            Self::Given(secret) => secret.kind(),
            Self::File(path) | Self::Beside(path) => kind(path),
            Self::Nowhere => "-".to_owned(),
        }
    }
}

/// Whether an address can only be a program on this machine.
pub(crate) fn is_loopback(api: &str) -> bool {
    let Ok(uri) = api.parse::<http::Uri>() else { return false };
    let Some(host) = uri.host() else { return false };
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}
