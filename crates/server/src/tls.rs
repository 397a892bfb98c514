//! The server's certificate.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::options::Tls;

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
    let (fingerprint, is_public) = (protocol::fingerprint(own), protocol::is_publicly_trusted(&certificates));
    let key = PrivateKeyDer::from_pem_file(&tls.key).map_err(|error| unusable(&tls.key, &error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(certificates, key))
        .map_err(|error| unusable(&tls.key, &error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsIdentity { acceptor: TlsAcceptor::from(Arc::new(config)), fingerprint, is_public })
}

fn unusable(path: &Path, why: &dyn std::fmt::Display) -> CertificateError {
    CertificateError { path: path.to_owned(), why: why.to_string() }
}
