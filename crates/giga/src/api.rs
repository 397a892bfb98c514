//! The way to the coordinator's API: address, token and certificate authority become a client.

use protocol::{Client, Endpoint, Trust};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::config::Config;
use crate::failure::Failure;

/// A client for the coordinator that the configuration names. Nothing is sent yet.
pub(crate) fn connect(config: &Config) -> Result<Client, Failure> {
    let Some(token) = config.client.token.value.read()? else {
        return Err(Failure::unauthorized(format!("there is no token for {}", config.client.api.value)).hint(
            "a coordinator on this machine writes one when it first starts (`giga up`); \
             for another one set GIGA_TOKEN, or `client.token_file` in giga.toml",
        ));
    };
    open(config, token.reveal().to_owned())
}

/// A client that shows no token, for what everybody may ask.
pub(crate) fn connect_as_nobody(config: &Config) -> Result<Client, Failure> {
    open(config, String::new())
}

/// Whose certificates are believed.
pub(crate) fn trust(config: &Config) -> Result<Trust, Failure> {
    let Some(path) = &config.client.ca.value else { return Ok(Trust::Public) };
    match CertificateDer::from_pem_file(path) {
        Ok(certificate) => Ok(Trust::Authority(certificate.to_vec())),
        Err(error) => {
            let origin = &config.client.ca.origin;
            Err(Failure::usage(format!("{origin}: cannot read {}: {error}", path.display()))
                .hint("`client.ca` names a certificate in PEM"))
        }
    }
}

fn open(config: &Config, token: String) -> Result<Client, Failure> {
    let (base, product) = (config.client.api.value.clone(), config.client.product.value.clone());
    Ok(Client::new(Endpoint { base, token, product, trust: trust(config)? })?)
}
