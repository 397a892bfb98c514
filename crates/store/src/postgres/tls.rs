//! TLS connections, with the server's certificate verified.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::open_error::OpenError;
use super::url::Encryption;

/// The TLS connector; `None` for plain text.
pub(super) fn connector(encryption: &Encryption) -> Result<Option<MakeRustlsConnect>, OpenError> {
    let mut roots = RootCertStore::empty();
    match encryption {
        Encryption::Plain => return Ok(None),
        Encryption::Public => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        Encryption::Private(path) => trust(path, &mut roots)?,
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| OpenError::Url { why: error.to_string() })?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Some(MakeRustlsConnect::new(config)))
}

fn trust(path: &Path, roots: &mut RootCertStore) -> Result<(), OpenError> {
    let unusable = |why: &dyn std::fmt::Display| OpenError::Authority { path: path.to_owned(), why: why.to_string() };
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| unusable(&error))? {
        let certificate = certificate.map_err(|error| unusable(&error))?;
        roots.add(certificate).map_err(|error| unusable(&error))?;
    }
    if roots.is_empty() { Err(unusable(&"there is no certificate in it")) } else { Ok(()) }
}
