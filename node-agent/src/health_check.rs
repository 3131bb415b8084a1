//! Health check node ports: a load balancer in front of the cluster asks which nodes have endpoints of a Service whose
//! `externalTrafficPolicy` is Local.
//!
//! `GET` on any path answers 200 when there are some and 503 when there are none, with the body and header that cloud load
//! balancers know from kube-proxy.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use skep_agent_core::dataplane::ObjectName;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::{info, warn};

use crate::http_server::serve_connection;

/// What a port answers about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// The Service.
    pub service: ObjectName,
    /// Its ready endpoints on this node.
    pub local_endpoints: usize,
}

/// What each port answers about.
pub type HealthChecks = BTreeMap<u16, HealthCheck>;

/// How long after a port could not be listened on it is tried again: another program has it.
const RETRY: Duration = Duration::from_secs(5);

/// Listens on every port that is wanted, until `wanted` ends.
pub async fn keep(mut wanted: watch::Receiver<HealthChecks>) {
    let mut listeners: BTreeMap<u16, JoinHandle<()>> = BTreeMap::new();
    loop {
        let ports: Vec<u16> = wanted.borrow_and_update().keys().copied().collect();
        listeners.retain(|port, listener| {
            let stays = ports.contains(port);
            if !stays {
                listener.abort();
                info!(port, "health check node port closed");
            }
            stays
        });
        let mut all = true;
        for port in ports {
            if listeners.contains_key(&port) {
                continue;
            }
            match listen(port, wanted.clone()) {
                Ok(listener) => {
                    listeners.insert(port, listener);
                }
                Err(problem) => {
                    warn!(port, %problem, "health check node port");
                    all = false;
                }
            }
        }
        let changed = if all {
            wanted.changed().await
        } else {
            tokio::time::timeout(RETRY, wanted.changed()).await.unwrap_or(Ok(()))
        };
        if changed.is_err() {
            listeners.values().for_each(JoinHandle::abort);
            return;
        }
    }
}

/// Listens on all addresses of the node, of both families.
fn listen(port: u16, checks: watch::Receiver<HealthChecks>) -> io::Result<JoinHandle<()>> {
    let listener = std::net::TcpListener::bind(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)))?;
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let router = Router::new().fallback(answer).with_state(Arc::new((port, checks)));
    info!(port, "health check node port");
    Ok(tokio::spawn(async move {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    tokio::spawn(serve_connection(stream, router.clone()));
                }
                Err(problem) => {
                    warn!(port, %problem, "health check node port");
                    // Out of descriptors, as a rule: passes.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }))
}

async fn answer(State(about): State<Arc<(u16, watch::Receiver<HealthChecks>)>>) -> Response {
    let (port, checks) = &*about;
    let Some(check) = checks.borrow().get(port).cloned() else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let body = serde_json::json!({
        "service": {"namespace": check.service.namespace, "name": check.service.name},
        "localEndpoints": check.local_endpoints,
        "serviceProxyHealthy": true,
    });
    let status = if check.local_endpoints > 0 { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let mut response = (status, body.to_string()).into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert("x-load-balancing-endpoint-weight", HeaderValue::from(check.local_endpoints));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checks(local_endpoints: usize) -> HealthChecks {
        let service = ObjectName::new("shop", "web");
        HealthChecks::from([(free_port(), HealthCheck { service, local_endpoints })])
    }

    fn free_port() -> u16 {
        std::net::TcpListener::bind("[::]:0").unwrap().local_addr().unwrap().port()
    }

    async fn ask(port: u16) -> io::Result<String> {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await?;
        stream.write_all(b"GET /healthz HTTP/1.0\r\n\r\n").await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    }

    async fn ask_until(port: u16, status: &str) -> String {
        for _ in 0..200 {
            match ask(port).await {
                Ok(answer) if answer.starts_with(status) => return answer,
                _ => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
        panic!("port {port} does not answer {status}")
    }

    #[tokio::test]
    async fn a_port_tells_of_local_endpoints_and_goes_with_its_service() {
        let wanted = checks(2);
        let port = *wanted.keys().next().unwrap();
        let (sender, receiver) = watch::channel(wanted.clone());
        let keeper = tokio::spawn(keep(receiver));
        let answer = ask_until(port, "HTTP/1.0 200").await;
        assert!(answer.contains("x-load-balancing-endpoint-weight: 2"), "{answer}");
        assert!(answer.contains(r#""localEndpoints":2"#) && answer.contains(r#""namespace":"shop""#), "{answer}");
        let mut none = wanted;
        none.get_mut(&port).unwrap().local_endpoints = 0;
        sender.send(none).unwrap();
        ask_until(port, "HTTP/1.0 503").await;
        sender.send(HealthChecks::new()).unwrap();
        for _ in 0..200 {
            if ask(port).await.is_err() {
                drop(sender);
                keeper.await.unwrap();
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the port is still open");
    }
}
