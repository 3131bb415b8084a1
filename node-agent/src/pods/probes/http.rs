//! HTTP probes: one request, its status, and nothing kept open.

use std::sync::Arc;

use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::header::{ACCEPT, CONNECTION, HOST, HeaderName, HeaderValue, USER_AGENT};
use hyper_util::rt::TokioIo;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use skep_agent_core::pods::check::HttpCheck;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;

use super::{address, connect};

pub(super) fn url(check: &HttpCheck) -> String {
    let scheme = if check.tls { "https" } else { "http" };
    format!("{scheme}://{}{}", address(&check.host, check.port), check.path)
}

/// The status of the answer; the error is a text for people.
pub(super) async fn status(check: &HttpCheck) -> Result<u16, String> {
    let stream = connect(&check.host, check.port).await?;
    if !check.tls {
        return request(check, stream).await;
    }
    let name = ServerName::try_from(check.host.clone()).map_err(|error| error.to_string())?;
    let stream = TlsConnector::from(unverified()?).connect(name, stream).await.map_err(|error| error.to_string())?;
    request(check, stream).await
}

async fn request(
    check: &HttpCheck,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Result<u16, String> {
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    let mut request = hyper::Request::get(check.path.as_str());
    let named = |name: &HeaderName| check.headers.iter().any(|(header, _)| header.eq_ignore_ascii_case(name.as_str()));
    let host = address(&check.host, check.port);
    let defaults = [(HOST, host.as_str()), (USER_AGENT, "kube-probe/1.33"), (ACCEPT, "*/*"), (CONNECTION, "close")];
    for (name, value) in defaults.into_iter().filter(|(name, _)| !named(name)) {
        request = request.header(name, value);
    }
    for (name, value) in check.headers.iter().filter(|(_, value)| !value.is_empty()) {
        let value = HeaderValue::from_str(value).map_err(|error| format!("header {name}: {error}"))?;
        request = request.header(name.as_str(), value);
    }
    let request = request.body(Empty::<Bytes>::new()).map_err(|error| error.to_string())?;
    // The connection lives as long as the request.
    let response = async { sender.send_request(request).await };
    tokio::pin!(response);
    tokio::select! {
        response = &mut response => response.map(|response| response.status().as_u16()).map_err(|error| error.to_string()),
        result = connection => match result {
            Ok(()) => response.await.map(|response| response.status().as_u16()).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        },
    }
}

/// A probe asks whether a server answers, not who it is: pods serve certificates for names that the node does not know.
fn unverified() -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    let verifier = Arc::new(AnyServer { provider });
    Ok(Arc::new(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()))
}

/// Accepts every certificate; signatures are still checked against it.
#[derive(Debug)]
struct AnyServer {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
