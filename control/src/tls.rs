//! TLS: how this service proves itself, and how it learns who connects.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::api::Caller;
use crate::pki::{Identity, Pki};

/// Why TLS could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A certificate or key is not PEM.
    #[error("{what}: {source}")]
    Pem {
        /// Which one.
        what: &'static str,
        /// What was wrong.
        source: rustls::pki_types::pem::Error,
    },
    /// rustls refused it.
    #[error(transparent)]
    Rustls(#[from] rustls::Error),
    /// The authority's certificate cannot be verified against.
    #[error("client verifier: {0}")]
    Verifier(#[from] rustls::server::VerifierBuilderError),
}

fn roots(ca: &str) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca.as_bytes()) {
        roots.add(certificate.map_err(|source| Error::Pem { what: "authority", source })?)?;
    }
    Ok(roots)
}

fn parts(identity: &Identity) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), Error> {
    let chain = CertificateDer::pem_slice_iter(identity.certificate.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .map_err(|source| Error::Pem { what: "certificate", source })?;
    let key =
        PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).map_err(|source| Error::Pem { what: "key", source })?;
    Ok((chain, key))
}

/// The serving side. A client without a certificate gets through the handshake, and 401 for whatever it asks: that is
/// an answer that clients can show, where a failed handshake is not.
pub fn server_config(pki: &Pki) -> Result<Arc<ServerConfig>, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots(&pki.ca)?), provider.clone())
        .allow_unauthenticated()
        .build()?;
    let (chain, key) = parts(&pki.server)?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// The asking side, towards agents.
pub fn client_config(pki: &Pki) -> Result<Arc<ClientConfig>, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let (chain, key) = parts(&pki.kubelet_client)?;
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots(&pki.ca)?)
        .with_client_auth_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Who a verified certificate says that its holder is; `None` when it names nobody.
pub fn caller(certificate: &CertificateDer<'_>) -> Option<Caller> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let subject = certificate.subject();
    let user = subject.iter_common_name().next()?.as_str().ok()?.to_owned();
    if user.is_empty() {
        return None;
    }
    let groups = subject.iter_organization().filter_map(|o| o.as_str().ok()).map(str::to_owned).collect();
    Some(Caller { user, groups })
}
