//! The one port: TLS, HTTP/1.1 and HTTP/2, REST and gRPC.
//!
//! ```text
//! accept -> TLS handshake -> Caller (from the certificate) -> request -+- nobody known       -> 401
//!                                                                      +- application/grpc   -> gRPC services
//!                                                                      +- everything else    -> REST
//! ```

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::header::CONTENT_TYPE;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rustls::ServerConfig;
use skep_control_core::api::Status;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

use crate::api::Caller;
use crate::tls;

/// How long a TLS handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long the head of an HTTP/1.1 request may take.
const HEAD: Duration = Duration::from_secs(15);
/// An HTTP/2 connection that is silent is asked whether it is still there this often, and given as long to answer.
const PING: Duration = Duration::from_secs(20);
/// How long requests may take to end when the service does.
const DRAIN: Duration = Duration::from_secs(3);
/// Connections at the same time.
const CONNECTIONS: usize = 16_384;
/// HTTP/2 streams of one connection at the same time.
const STREAMS: u32 = 1000;
const MAX_HEADERS: usize = 100;
const MAX_HEADER_BYTES: usize = 64 << 10;

/// The two doors behind the port.
#[derive(Clone, Debug)]
pub struct Doors {
    /// Kubernetes REST.
    pub rest: Router,
    /// gRPC services.
    pub grpc: Router,
}

/// Serves until `shutdown` becomes true, and then lets requests end.
pub async fn serve(listener: TcpListener, tls: Arc<ServerConfig>, doors: Doors, mut shutdown: watch::Receiver<bool>) {
    let acceptor = TlsAcceptor::from(tls);
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            _ = shutdown.wait_for(|over| *over) => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
            accepted = accept(&listener, &places) => accepted,
        };
        let Some((tcp, place)) = accepted else { continue };
        let (acceptor, doors, shutdown) = (acceptor.clone(), doors.clone(), shutdown.clone());
        connections.spawn(async move {
            let _place = place;
            connection(tcp, &acceptor, doors, shutdown).await;
        });
    }
    drop(listener);
    let drained = tokio::time::timeout(DRAIN, async { while connections.join_next().await.is_some() {} });
    if drained.await.is_err() {
        connections.shutdown().await;
    }
}

/// The next connection, when there is room for it.
async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> Option<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    // The semaphore is never closed.
    let place = places.clone().acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((tcp, _)) => Some((tcp, place)),
        Err(error) => {
            tracing::warn!(%error, "accept");
            // Out of file descriptors, most likely: the loop must not spin.
            tokio::time::sleep(Duration::from_millis(100)).await;
            None
        }
    }
}

async fn connection(tcp: TcpStream, acceptor: &TlsAcceptor, doors: Doors, mut shutdown: watch::Receiver<bool>) {
    let handshake = async {
        tcp.set_nodelay(true)?;
        acceptor.accept(tcp).await
    };
    let tls = match tokio::time::timeout(HANDSHAKE, handshake).await {
        Ok(Ok(tls)) => tls,
        Ok(Err(error)) => return tracing::debug!(%error, "TLS handshake"),
        Err(_) => return tracing::debug!("TLS handshake timed out"),
    };
    let caller = tls.get_ref().1.peer_certificates().and_then(|chain| tls::caller(chain.first()?));
    let spoken = Arc::new(AtomicBool::new(false));
    let speaks = spoken.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        speaks.store(true, Ordering::Relaxed);
        let (doors, caller) = (doors.clone(), caller.clone());
        async move { Ok::<_, Infallible>(route(doors, caller, request).await) }
    });
    // What was agreed in the handshake needs no guessing from the first bytes.
    let h2 = tls.get_ref().1.alpn_protocol() == Some(b"h2");
    let builder = auto::Builder::new(TokioExecutor::new());
    let mut builder = if h2 { builder.http2_only() } else { builder.http1_only() };
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD).max_headers(MAX_HEADERS);
    builder.http1().max_buf_size(MAX_HEADER_BYTES);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING)
        .keep_alive_timeout(PING)
        .max_concurrent_streams(STREAMS)
        .initial_stream_window_size(1 << 20)
        .initial_connection_window_size(4 << 20)
        .max_header_list_size(u32::try_from(MAX_HEADER_BYTES).unwrap_or(u32::MAX));
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(tls), service);
    let mut connection = std::pin::pin!(connection);
    let over = async {
        // The guard that this gives must not live on; nor does it matter whether the sender is gone.
        let _ = shutdown.wait_for(|over| *over).await.is_ok();
    };
    let silent = async {
        tokio::time::sleep(HEAD).await;
        // Who has asked once may be idle.
        if spoken.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    };
    let ended = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        () = over => None,
        () = silent => return tracing::debug!("no request came"),
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection");
    }
}

async fn route(doors: Doors, caller: Option<Caller>, request: Request<Incoming>) -> Response<Body> {
    let mut request = request.map(Body::new);
    let grpc = request.headers().get(CONTENT_TYPE).is_some_and(|t| t.as_bytes().starts_with(b"application/grpc"));
    let Some(caller) = caller else { return nobody(grpc) };
    request.extensions_mut().insert(caller);
    let door = if grpc { doors.grpc } else { doors.rest };
    match door.oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

/// Nobody unauthenticated gets in, whatever is asked.
fn nobody(grpc: bool) -> Response<Body> {
    if grpc {
        return tonic::Status::unauthenticated("a client certificate is required").into_http();
    }
    let status = Status::unauthorized();
    let mut response = Response::new(Body::from(status.to_value().to_string()));
    *response.status_mut() = http::StatusCode::UNAUTHORIZED;
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    response
}

/// Listens; a port that the last process has not quite left is taken over.
pub async fn listen(address: std::net::SocketAddr) -> io::Result<TcpListener> {
    // tokio sets SO_REUSEADDR, and listens on both families for `[::]`.
    TcpListener::bind(address).await
}
