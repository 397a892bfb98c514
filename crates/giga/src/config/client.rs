//! `[client]`: how clients reach the coordinator.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use domain::ProductId;

use crate::failure::Failure;

use super::data::DataDir;
use super::file;
use super::overrides::Overrides;
use super::resolver::{Resolver, SettingSource};
use super::secret::Secret;
use super::setting::{Origin, Setting};

/// The default address of a coordinator.
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
    /// The certificate authority that the coordinator's certificate is from, when it is not a public one; or `sha256:` and
    /// the fingerprint of that certificate.
    pub(crate) ca: Setting<Option<PathBuf>>,
    /// The certificate of the coordinator on this machine, as it wrote it down itself.
    pub(crate) pinned: Option<[u8; 32]>,
    /// The data directory whose coordinator is meant, where none runs on it: nothing is sent to any other.
    pub(crate) stopped: Option<PathBuf>,
}

/// What `client.ca` begins with where it is the fingerprint of a certificate.
pub(crate) const FINGERPRINT: &str = "sha256:";

/// What a coordinator of this machine listens by, for clients of the same configuration.
pub(super) struct Listener {
    pub(super) address: Setting<SocketAddr>,
    pub(super) has_tls: bool,
}

/// Where a token is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TokenSource {
    /// Here.
    Given(Secret),
    /// In a file that the configuration names.
    File(PathBuf),
    /// In the file that a coordinator on this machine leaves for its user.
    Beside(PathBuf),
    /// Not configured.
    Nowhere,
}

impl ClientConfig {
    pub(super) fn resolve(
        resolver: &mut Resolver,
        flags: &Overrides,
        file: file::Client,
        data: &DataDir,
        listener: Option<&Listener>,
    ) -> Result<Self, Failure> {
        let file::Client { api, token, token_file, product, ca } = file;
        let ask = SettingSource::new("client.api")
            .flag("--api", flags.api.clone())
            .env(&["GIGA_API", "AQ_FLEET_API"])
            .file(api);
        let found = resolver.find(ask)?;
        let running = RunningCoordinator::on(data);
        let of_folder = of_named_folder(data, flags, running.as_ref());
        // Permanent settings, the token too, belong to another fleet than the one whose directory the command line names.
        let is_another = of_folder.is_some() && found.is_some();
        let is_elsewhere = found.is_some() && of_folder.is_none();
        let is_named = is_named_folder(data, flags);
        let has_no_port = !is_elsewhere && listener.is_some_and(|listener| listener.address.value.port() == 0);
        let stopped = (running.is_none() && (is_named || has_no_port)).then(|| data.path().to_owned());
        let pinned = running.as_ref().filter(|_| !is_elsewhere).and_then(|running| running.certificate);
        let api = of_folder
            .or(found)
            .or_else(|| running.map(|running| running.api))
            .or_else(|| listener.map(Listener::api))
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
        let product = SettingSource::new("client.product")
            .flag("--product", flags.product.clone())
            .env(&["GIGA_PRODUCT", "AQ_PRODUCT_ID"])
            .file(product);
        let product = resolver.optional(product)?;
        let ca = match ca {
            Some(pin) if is_fingerprint(pin.get_ref()) => Some(pin),
            path => resolver.placed(path),
        };
        let ca = resolver.optional(SettingSource::new("client.ca").env(&["GIGA_CA"]).file(ca))?;
        // The command line of `giga dash` reads it before any setting; here it is checked and listed.
        resolver.optional(SettingSource::<bool>::new("client.dash").env(&["AQ_FLEET_DASH"]))?;
        Ok(Self { api, token, product, ca, pinned, stopped })
    }
}

/// Whether a value of `client.ca` is a fingerprint rather than a file.
pub(crate) fn is_fingerprint(value: &Path) -> bool {
    value.to_str().is_some_and(|text| text.starts_with(FINGERPRINT))
}

/// A fingerprint as it is written: `sha256:` and 64 hexadecimal digits, with or without colons.
pub(crate) fn fingerprint(text: &str) -> Option<[u8; 32]> {
    let digits: Vec<u8> = text.strip_prefix(FINGERPRINT)?.bytes().filter(|byte| *byte != b':').collect();
    let pairs = digits.chunks_exact(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
    let bytes: Vec<u8> = pairs.collect::<Option<_>>()?;
    if digits.len() == 64 { bytes.try_into().ok() } else { None }
}

/// Whether the command line names a data directory, and no address beside it.
fn is_named_folder(data: &DataDir, flags: &Overrides) -> bool {
    matches!(data.origin(), Origin::Flag(_)) && flags.api.is_none()
}

/// The coordinator of the directory that the command line names, whatever the permanent settings are.
fn of_named_folder(data: &DataDir, flags: &Overrides, running: Option<&RunningCoordinator>) -> Option<Setting<String>> {
    running.filter(|_| is_named_folder(data, flags)).map(|running| running.api.clone())
}

/// The coordinator that runs on a data directory, as it wrote itself down.
struct RunningCoordinator {
    api: Setting<String>,
    certificate: Option<[u8; 32]>,
}

impl RunningCoordinator {
    /// The first line is the address, the second the fingerprint of the certificate, if there is one.
    fn on(data: &DataDir) -> Option<Self> {
        let path = data.endpoint();
        let text = std::fs::read_to_string(&path).ok()?;
        let mut lines = text.lines().map(str::trim);
        let value = lines.next().filter(|address| !address.is_empty())?.to_owned();
        Some(Self {
            api: Setting { value, origin: Origin::Beside(path) },
            certificate: lines.next().and_then(fingerprint),
        })
    }
}

impl Listener {
    /// Where a client on the same machine finds it.
    fn api(&self) -> Setting<String> {
        let Setting { value, origin } = &self.address;
        let ip = match value.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
            ip => ip,
        };
        let scheme = if self.has_tls { "https" } else { "http" };
        let value = format!("{scheme}://{}", SocketAddr::new(ip, value.port()));
        Setting { value, origin: Origin::Derived { from: "coordinator.listen", origin: Box::new(origin.clone()) } }
    }
}

fn token_source(
    resolver: &mut Resolver,
    flags: &Overrides,
    token: Option<toml::Spanned<Secret>>,
    token_file: Option<toml::Spanned<PathBuf>>,
    default: impl FnOnce() -> TokenSource,
) -> Result<Setting<TokenSource>, Failure> {
    let given = SettingSource::new("client.token").flag("--token", flags.token.clone()).env(&["GIGA_TOKEN"]);
    let named = SettingSource::new("client.token_file").env(&["GIGA_TOKEN_FILE"]);
    let given_in_file = SettingSource::new("client.token").env(&["AQ_FLEET_TOKEN"]).file(token);
    let named_in_file = SettingSource::new("client.token_file").file(resolver.placed(token_file));
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
    /// The token; `None` when none is configured, or the coordinator of this machine never ran.
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

/// Whether an address can only be a program on this machine; of a list, whether all are.
pub(crate) fn is_loopback(api: &str) -> bool {
    api.split(',').all(|one| is_one_loopback(one.trim()))
}

fn is_one_loopback(api: &str) -> bool {
    let Ok(uri) = api.parse::<http::Uri>() else { return false };
    let Some(host) = uri.host() else { return false };
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}
