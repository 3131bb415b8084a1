//! The node's certificate: towards the control service as client, on the node API as server.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use tonic::transport::{Certificate, ClientTlsConfig, Identity};
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// Common name under which the control service reaches node APIs.
const CONTROL_CLIENT: &str = "kube-apiserver-kubelet-client";
/// Organisation of administrators.
const ADMINISTRATORS: &str = "system:masters";

/// Key material that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file has no certificate or key in it.
    #[error("{path}: {source}")]
    Pem {
        /// The file.
        path: PathBuf,
        /// Why.
        source: rustls::pki_types::pem::Error,
    },
    /// Certificate, key and CA do not fit together.
    #[error("node certificate: {0}")]
    Rustls(#[from] rustls::Error),
    /// No verifier can be made of the CA.
    #[error("ca.crt: {0}")]
    Verifier(#[from] rustls::server::VerifierBuilderError),
}

/// The contents of the PKI directory.
pub struct Pki {
    dir: PathBuf,
    ca: Vec<u8>,
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl Pki {
    /// Reads `ca.crt`, `node.crt` and `node.key`.
    ///
    /// # Errors
    /// [`TlsError::Read`].
    pub fn read(dir: &Path) -> Result<Self, TlsError> {
        let read = |name: &str| {
            let path = dir.join(name);
            std::fs::read(&path).map_err(|source| TlsError::Read { path, source })
        };
        Ok(Self { dir: dir.to_owned(), ca: read("ca.crt")?, certificate: read("node.crt")?, key: read("node.key")? })
    }

    /// For connections to the control service.
    #[must_use]
    pub fn client(&self) -> ClientTlsConfig {
        ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(&self.ca))
            .identity(Identity::from_pem(&self.certificate, &self.key))
    }

    /// For the node API: clients must have a certificate of the cluster's CA.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn server(&self) -> Result<Arc<rustls::ServerConfig>, TlsError> {
        let mut roots = RootCertStore::empty();
        for certificate in self.certificates("ca.crt", &self.ca)? {
            roots.add(certificate)?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build()?;
        let key = PrivateKeyDer::from_pem_slice(&self.key)
            .map_err(|source| TlsError::Pem { path: self.dir.join("node.key"), source })?;
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(verifier)
            .with_single_cert(self.certificates("node.crt", &self.certificate)?, key)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    fn certificates(&self, name: &str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
        CertificateDer::pem_slice_iter(pem)
            .collect::<Result<_, _>>()
            .map_err(|source| TlsError::Pem { path: self.dir.join(name), source })
    }
}

/// Whether the holder of a verified certificate may use the node API: the control service, and administrators.
#[must_use]
pub fn may_use_node_api(certificate: &CertificateDer<'_>) -> bool {
    let Ok((_, certificate)) = X509Certificate::from_der(certificate) else {
        return false;
    };
    let subject = certificate.subject();
    subject.iter_common_name().any(|name| name.as_str() == Ok(CONTROL_CLIENT))
        || subject.iter_organization().any(|name| name.as_str() == Ok(ADMINISTRATORS))
}
