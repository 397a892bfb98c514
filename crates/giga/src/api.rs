//! The way to the coordinator's API: address, token and certificate authority become a client.

use client::{Client, Endpoint, Trust};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::compose;
use crate::config::{Config, FINGERPRINT, fingerprint, is_fingerprint};
use crate::failure::{Exit, Failure};

/// A client for the coordinator that the configuration names. Nothing is sent yet.
pub(crate) fn connect(config: &Config) -> Result<Client, Failure> {
    check_running(config)?;
    let Some(token) = config.client.token.value.read()? else {
        if let Some(variables) = compose::client_variables(config) {
            let message = "this machine has a factory, and no token for clients";
            return Err(Failure::unauthorized(message).hint(format!(
                "set {variables} and GIGA_TOKEN; `giga token create --role operator` on the coordinator's machine makes \
                 a token"
            )));
        }
        return Err(Failure::unauthorized(format!("no token for {}", config.client.api.value)).hint(
            "a coordinator on this machine writes one when it first starts (`giga up`); \
             for another coordinator set GIGA_TOKEN, or `client.token_file` in giga.toml",
        ));
    };
    open(config, token.reveal().to_owned())
}

/// A client without a token, for public routes.
pub(crate) fn connect_as_nobody(config: &Config) -> Result<Client, Failure> {
    check_running(config)?;
    open(config, String::new())
}

/// A data directory that the command line names is that of one coordinator: no other process gets its token.
fn check_running(config: &Config) -> Result<(), Failure> {
    let Some(data) = &config.client.stopped else { return Ok(()) };
    let message = format!("no coordinator is running on the data directory {}", data.display());
    Err(Failure::new(Exit::Unreachable, message).hint("start it with `giga up`, or use --api to reach another one"))
}

/// Which certificates are trusted: the one that the coordinator of this machine recorded, `client.ca`, or
/// the public authorities.
pub(crate) fn trust(config: &Config, api: &str) -> Result<Trust, Failure> {
    if let Some(pinned) = config.client.pinned.filter(|_| config.client.api.value == api) {
        return Ok(Trust::Pinned(pinned));
    }
    let Some(path) = &config.client.ca.value else { return Ok(Trust::Public) };
    if is_fingerprint(path) {
        let text = path.to_string_lossy();
        return fingerprint(&text).map(Trust::Pinned).ok_or_else(|| {
            Failure::usage(format!("{}: `{text}` is not a fingerprint", config.client.ca.origin))
                .hint(format!("write `{FINGERPRINT}` and the 64 hexadecimal digits of the certificate's SHA-256"))
        });
    }
    match CertificateDer::from_pem_file(path) {
        Ok(certificate) => Ok(Trust::Authority(certificate.to_vec())),
        Err(error) => {
            let origin = &config.client.ca.origin;
            Err(Failure::usage(format!("{origin}: cannot read {}: {error}", path.display()))
                .hint("`client.ca` names a certificate in PEM, or is `sha256:` and its fingerprint"))
        }
    }
}

fn open(config: &Config, token: String) -> Result<Client, Failure> {
    let (base, product) = (config.client.api.value.clone(), config.client.product.value.clone());
    let trust = trust(config, &base)?;
    Ok(Client::new(Endpoint { base, token, product, trust })?)
}
