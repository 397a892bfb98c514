//! The server's certificate.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::TlsAcceptor;

use crate::options::Tls;

/// The name of HTTP/2 in a handshake.
pub(crate) const HTTP_2: &[u8] = b"h2";

/// An invalid certificate or key.
#[derive(Debug, thiserror::Error)]
#[error("cannot use `{}`: {why}", path.display())]
pub struct CertificateError {
    /// The file.
    pub path: PathBuf,
    /// The problem with it.
    pub why: String,
}

/// The TLS configuration, and what clients need to verify it.
#[derive(Clone)]
pub(crate) struct TlsIdentity {
    pub(crate) acceptor: TlsAcceptor,
    /// The SHA-256 of the certificate.
    pub(crate) fingerprint: [u8; 32],
    /// Whether a public authority issued it.
    pub(crate) is_public: bool,
}

/// Reads the certificate and its key.
pub(crate) fn certified(tls: &Tls) -> Result<TlsIdentity, CertificateError> {
    let certificates: Result<Vec<_>, _> = match CertificateDer::pem_file_iter(&tls.certificate) {
        Ok(found) => found.collect(),
        Err(error) => Err(error),
    };
    let certificates = certificates.map_err(|error| unusable(&tls.certificate, &error))?;
    let Some(own) = certificates.first() else {
        return Err(unusable(&tls.certificate, &"there is no certificate in it"));
    };
    let (fingerprint, is_public) = (protocol::fingerprint(own), is_publicly_trusted(&certificates));
    let key = PrivateKeyDer::from_pem_file(&tls.key).map_err(|error| unusable(&tls.key, &error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(certificates, key))
        .map_err(|error| unusable(&tls.key, &error))?;
    config.alpn_protocols = vec![HTTP_2.to_vec(), b"http/1.1".to_vec()];
    Ok(TlsIdentity { acceptor: TlsAcceptor::from(Arc::new(config)), fingerprint, is_public })
}

/// Whether a chain leads to a public authority, whatever its name: clients then need no configuration.
fn is_publicly_trusted(chain: &[CertificateDer<'_>]) -> bool {
    let Some((leaf, between)) = chain.split_first() else { return false };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    let Ok(verifier) = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build() else {
        return false;
    };
    let Ok(name) = ServerName::try_from("name.invalid") else { return false };
    match verifier.verify_server_cert(leaf, between, &name, &[], UnixTime::now()) {
        Ok(_) => true,
        Err(rustls::Error::InvalidCertificate(
            rustls::CertificateError::NotValidForName | rustls::CertificateError::NotValidForNameContext { .. },
        )) => true,
        Err(_) => false,
    }
}

fn unusable(path: &Path, why: &dyn std::fmt::Display) -> CertificateError {
    CertificateError { path: path.to_owned(), why: why.to_string() }
}
