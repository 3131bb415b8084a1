//! Serves a router on one connection after the other.

use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tracing::debug;

/// Serves `router` on `stream` until the client is done.
pub(crate) async fn serve_connection<S>(stream: S, router: axum::Router)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router))
        .with_upgrades();
    if let Err(problem) = connection.await {
        // A client that goes away in the midst of a stream is no news.
        debug!(%problem, "HTTP connection");
    }
}
