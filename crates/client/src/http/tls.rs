//! Certificate verification, and descriptions of its errors.

use std::sync::Arc;

use protocol::fingerprint;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, InvalidMessage, OtherError, RootCertStore, SignatureScheme};

use crate::client::Trust;
use crate::http::TransportError;

/// The TLS configuration for `trust`. Fails if `trust` is invalid.
pub(super) fn client_config(trust: &Trust) -> Result<rustls::ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = match trust {
        Trust::Public => {
            let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
            Verifier {
                pinned: None,
                authorities: Some(authorities(roots, &provider)?),
                provider: Arc::clone(&provider),
            }
        }
        Trust::Authority(der) => {
            let mut roots = RootCertStore::empty();
            let added = roots.add(CertificateDer::from(der.clone()));
            added.map_err(|error| format!("the certificate authority cannot be used: {error}"))?;
            Verifier {
                pinned: Some(fingerprint(der)),
                authorities: Some(authorities(roots, &provider)?),
                provider: Arc::clone(&provider),
            }
        }
        Trust::Pinned(fingerprint) => {
            Verifier { pinned: Some(*fingerprint), authorities: None, provider: Arc::clone(&provider) }
        }
    };
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth())
}

fn authorities(roots: RootCertStore, provider: &Arc<CryptoProvider>) -> Result<Arc<WebPkiServerVerifier>, String> {
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .build()
        .map_err(|error| error.to_string())
}

/// Accepts the pinned certificate, whatever its name, and those of the authorities.
#[derive(Debug)]
struct Verifier {
    pinned: Option<[u8; 32]>,
    authorities: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

/// The certificate does not match the pinned fingerprint.
#[derive(Debug, thiserror::Error)]
#[error("its certificate does not match the pinned fingerprint: expected {}, found {}", shown(.expected), shown(.found))]
struct PinMismatch {
    expected: [u8; 32],
    found: [u8; 32],
}

/// A fingerprint as written in settings.
fn shown(fingerprint: &[u8; 32]) -> String {
    let digits: String = fingerprint.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{digits}")
}

impl Verifier {
    fn mismatch(&self, leaf: &[u8]) -> rustls::Error {
        match self.pinned {
            Some(expected) => {
                let mismatch = PinMismatch { expected, found: fingerprint(leaf) };
                CertificateError::Other(OtherError(Arc::new(mismatch))).into()
            }
            None => CertificateError::UnknownIssuer.into(),
        }
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        // The handshake signature, verified below, proves that the server has this certificate's key.
        if self.pinned == Some(fingerprint(leaf)) {
            return Ok(ServerCertVerified::assertion());
        }
        match &self.authorities {
            Some(authorities) => authorities.verify_server_cert(leaf, between, name, ocsp, now),
            None => Err(self.mismatch(leaf)),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Why a certificate is not accepted, from the name of webpki's error.
fn not_accepted(name: &str) -> String {
    // A CA certificate that is used as the server's own: the usual self-signed one.
    if name == "CaUsedAsEndEntity" {
        return "its certificate is self-signed, and is not pinned here".to_owned();
    }
    let mut words = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.extend(letter.to_lowercase());
    }
    format!("its certificate is not accepted: {words}")
}

/// What a failed handshake means to the operator, and what to do.
pub(super) fn fault(error: &rustls::Error) -> TransportError {
    let ca = "set `client.ca` in giga.toml, or GIGA_CA, to the certificate of its authority (a PEM file) \
              or to `sha256:` and the fingerprint of its own certificate";
    match error {
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => TransportError::tls(
            "it speaks plain http, not TLS",
            "use http:// in its address, or give the coordinator a certificate",
        ),
        rustls::Error::InvalidCertificate(error) => match error {
            CertificateError::UnknownIssuer => TransportError::tls("its certificate is from an unknown authority", ca),
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                TransportError::tls("its certificate has expired", "renew the coordinator's certificate")
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                TransportError::tls("its certificate is not valid yet", "check the clocks of both machines")
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => TransportError::tls(
                error.to_string(),
                "use a name that the certificate is for, or pin the certificate with `client.ca`",
            ),
            CertificateError::Other(OtherError(other)) if other.is::<PinMismatch>() => TransportError::tls(
                other.to_string(),
                "if the coordinator has a new certificate, compare this fingerprint with the one that \
                 `giga token create --join` prints on its machine, then set GIGA_CA or `client.ca` to it; otherwise another \
                 program answers at this address: do not trust it",
            ),
            CertificateError::Other(OtherError(other)) => TransportError::tls(not_accepted(&other.to_string()), ca),
            _ => TransportError::tls(error.to_string(), ca),
        },
        _ => TransportError::tls(error.to_string(), "check that the address is that of the coordinator"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct WebpkiError(&'static str);

    #[test]
    fn a_rejected_certificate_is_explained_in_words() {
        let of = |name| {
            let other = OtherError(Arc::new(WebpkiError(name)));
            fault(&rustls::Error::InvalidCertificate(CertificateError::Other(other))).why
        };

        assert_eq!(of("CaUsedAsEndEntity"), "its certificate is self-signed, and is not pinned here");
        assert_eq!(of("UnsupportedCertVersion"), "its certificate is not accepted: unsupported cert version");
    }
}
