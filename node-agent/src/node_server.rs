//! The listener of the node API: mutual TLS in front of its routes.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tracing::{info, warn};

use crate::http_server::serve_connection;
use crate::tls::may_use_node_api;

/// How long a client may take for its handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Listens on `addr` and serves `router` to the control service and to administrators, for ever; others who have a
/// certificate of the cluster are refused with 403, and those who have none at the handshake.
///
/// # Errors
/// The address cannot be listened on.
pub async fn serve(addr: SocketAddr, tls: Arc<rustls::ServerConfig>, router: axum::Router) -> io::Result<()> {
    let listener = TcpListener::bind(addr).await?;
    info!(%addr, "node API");
    let acceptor = TlsAcceptor::from(tls);
    tokio::spawn(async move {
        loop {
            match listener.accept().await {
                Ok((stream, client)) => {
                    tokio::spawn(answer(stream, client, acceptor.clone(), router.clone()));
                }
                Err(problem) => {
                    warn!(%problem, "node API");
                    // Out of descriptors, as a rule: passes.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    });
    Ok(())
}

async fn answer(stream: TcpStream, client: SocketAddr, acceptor: TlsAcceptor, router: axum::Router) {
    let stream = match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(problem)) => return warn!(%client, %problem, "node API: handshake"),
        Err(_elapsed) => return warn!(%client, "node API: handshake takes too long"),
    };
    let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    if certificate.is_some_and(may_use_node_api) {
        return serve_connection(stream, router).await;
    }
    warn!(%client, "node API: a client that may not use it");
    let refuse = || async { (StatusCode::FORBIDDEN, "this certificate may not use the node API\n") };
    serve_connection(stream, axum::Router::new().fallback(refuse)).await;
}
