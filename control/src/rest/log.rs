//! `pods/log`: asked of the pod's node, passed on as it comes.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::header::HOST;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde_json::Value;
use skep_control_core::api::field::{FieldError, Path};
use skep_control_core::api::{Reason, Status, meta};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::path::Place;
use super::{Call, Rest, answer};

/// How long an agent may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// How long it may take to begin an answer.
const ANSWER: Duration = Duration::from_secs(30);
/// Of an agent's complaint, so much is read.
const COMPLAINT: usize = 64 << 10;
/// Where agents listen that do not say.
const DEFAULT_PORT: u16 = 10250;

/// Asks agents, with the service's own client certificate.
#[derive(Clone)]
pub struct KubeletClient {
    connector: TlsConnector,
}

impl std::fmt::Debug for KubeletClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KubeletClient").finish_non_exhaustive()
    }
}

/// Why an agent could not be asked.
#[derive(Debug, thiserror::Error)]
enum AskError {
    #[error("dial tcp {0}: {1}")]
    Connect(SocketAddr, std::io::Error),
    #[error("dial tcp {0}: i/o timeout")]
    ConnectTimeout(SocketAddr),
    #[error("net/http: timeout awaiting response headers")]
    AnswerTimeout,
    #[error(transparent)]
    Http(#[from] hyper::Error),
    #[error(transparent)]
    Request(#[from] http::Error),
}

impl KubeletClient {
    /// With this side's TLS settings.
    pub fn new(config: Arc<ClientConfig>) -> Self {
        Self { connector: TlsConnector::from(config) }
    }

    async fn get(&self, address: SocketAddr, path: &str) -> Result<Response<Incoming>, AskError> {
        let connect = async {
            let tcp = TcpStream::connect(address).await?;
            tcp.set_nodelay(true)?;
            self.connector.connect(ServerName::IpAddress(address.ip().into()), tcp).await
        };
        let tls = tokio::time::timeout(CONNECT, connect)
            .await
            .map_err(|_| AskError::ConnectTimeout(address))?
            .map_err(|error| AskError::Connect(address, error))?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(tls)).await?;
        tokio::spawn(async move {
            // How a connection ends is seen by whoever reads the answer; it ends when that is dropped.
            if let Err(error) = connection.await {
                tracing::debug!(%address, %error, "connection to an agent");
            }
        });
        let request = Request::get(path).header(HOST, address.to_string()).body(Empty::<bytes::Bytes>::new())?;
        let answer = tokio::time::timeout(ANSWER, sender.send_request(request));
        Ok(answer.await.map_err(|_| AskError::AnswerTimeout)??)
    }
}

pub(super) async fn log(rest: &Rest, call: &Call, place: &Place, name: &str) -> Result<Response<Body>, Status> {
    let parameters = parameters(call)?;
    let pod = rest.api().get(place.resource, &place.namespace, name).await?.value()?;
    let container = container(&pod, call.query.text("container"))?;
    let Some(node) = pod["spec"]["nodeName"].as_str().filter(|n| !n.is_empty()) else {
        // A pod that runs nowhere has said nothing.
        return Ok(answer::bytes(StatusCode::OK, answer::TEXT, Body::empty()));
    };
    let node = rest.api().get("nodes", "", node).await?.value()?;
    let address = address(&node)?;
    let path = format!("/containerLogs/{}/{name}/{container}{parameters}", place.namespace);
    let asked = rest.inner.kubelet.get(address, &path).await;
    let response = asked.map_err(|error| Status::internal(format!("Get \"https://{address}{path}\": {error}")))?;
    if response.status().is_success() {
        return Ok(answer::bytes(StatusCode::OK, answer::TEXT, Body::new(response.into_body())));
    }
    Err(complaint(response).await)
}

/// What an agent complains of, as the client's `Status`.
async fn complaint(response: Response<Incoming>) -> Status {
    let code = response.status();
    let text = match Limited::new(response.into_body(), COMPLAINT).collect().await {
        Ok(body) => String::from_utf8_lossy(&body.to_bytes()).trim().to_owned(),
        Err(error) => format!("{code}: {error}"),
    };
    let mut status = Status::bad_request(text.clone());
    match code {
        StatusCode::BAD_REQUEST => {}
        StatusCode::NOT_FOUND => (status.code, status.reason) = (404, Reason::NotFound),
        StatusCode::FORBIDDEN => (status.code, status.reason) = (403, Reason::Forbidden),
        _ => return Status::internal(text),
    }
    status
}

/// The parameters that are passed on. Errors: 422.
fn parameters(call: &Call) -> Result<String, Status> {
    let query = &call.query;
    let mut faults = Vec::new();
    let mut out = Vec::new();
    for flag in ["follow", "timestamps", "previous"] {
        if query.flag(flag) {
            out.push(format!("{flag}=true"));
        }
    }
    for (name, least) in [("tailLines", 0), ("sinceSeconds", 1), ("limitBytes", 1)] {
        match query.number(name)? {
            Some(number) if number < least => {
                let text = format!("must be greater than or equal to {least}");
                faults.push(FieldError::invalid(Path::new(name), number, &text));
            }
            Some(number) => out.push(format!("{name}={number}")),
            None => {}
        }
    }
    if let Some(since) = query.text("sinceTime") {
        if query.text("sinceSeconds").is_some() {
            faults.push(FieldError::forbidden(
                Path::new("sinceSeconds"),
                "at most one of `sinceTime` or `sinceSeconds` may be specified",
            ));
        }
        match since.parse::<jiff::Timestamp>() {
            // Agents know seconds only.
            Ok(time) => {
                let seconds = jiff::Timestamp::now().duration_since(time).as_secs().max(1);
                out.push(format!("sinceSeconds={seconds}"));
            }
            Err(error) => faults.push(FieldError::invalid(Path::new("sinceTime"), since, &error.to_string())),
        }
    }
    if !faults.is_empty() {
        return Err(Status::invalid("", "PodLogOptions", "", &faults));
    }
    Ok(if out.is_empty() { String::new() } else { format!("?{}", out.join("&")) })
}

/// The container whose log is asked for.
///
/// Errors: 400 when the pod has none of that name, or several and none is named.
fn container<'a>(pod: &'a Value, asked: Option<&'a str>) -> Result<&'a str, Status> {
    let names = |field: &str| -> Vec<&'a str> {
        let list = pod["spec"][field].as_array().into_iter().flatten();
        list.filter_map(|container| container["name"].as_str()).collect()
    };
    let (containers, init) = (names("containers"), names("initContainers"));
    let pod_name = meta::name(pod);
    match asked {
        Some(name) if containers.contains(&name) || init.contains(&name) => Ok(name),
        Some(name) => Err(Status::bad_request(format!("container {name} is not valid for pod {pod_name}"))),
        None => match containers.as_slice() {
            [one] => Ok(one),
            [] => Err(Status::bad_request(format!("a container name must be specified for pod {pod_name}"))),
            many => {
                let mut text = format!(
                    "a container name must be specified for pod {pod_name}, choose one of: [{}]",
                    many.join(" ")
                );
                if !init.is_empty() {
                    text.push_str(&format!(" or one of the init containers: [{}]", init.join(" ")));
                }
                Err(Status::bad_request(text))
            }
        },
    }
}

/// Where a node's agent listens.
fn address(node: &Value) -> Result<SocketAddr, Status> {
    let status = &node["status"];
    let addresses = status["addresses"].as_array().into_iter().flatten();
    let ip = addresses
        .filter(|a| a["type"] == "InternalIP")
        .find_map(|a| a["address"].as_str()?.parse::<IpAddr>().ok())
        .ok_or_else(|| Status::internal(format!("no preferred addresses found for node {:?}", meta::name(node))))?;
    let port = status["daemonEndpoints"]["kubeletEndpoint"]["Port"].as_u64().and_then(|p| u16::try_from(p).ok());
    Ok(SocketAddr::new(ip, port.filter(|p| *p != 0).unwrap_or(DEFAULT_PORT)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_only_container_needs_no_name() {
        let one = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a"}]}});
        assert_eq!(container(&one, None), Ok("a"));
        assert_eq!(container(&one, Some("b")).unwrap_err().message, "container b is not valid for pod p");
        let many = json!({"metadata": {"name": "p"}, "spec": {
            "containers": [{"name": "a"}, {"name": "b"}], "initContainers": [{"name": "i"}]}});
        assert_eq!(container(&many, Some("i")), Ok("i"));
        assert_eq!(
            container(&many, None).unwrap_err().message,
            "a container name must be specified for pod p, choose one of: [a b] or one of the init containers: [i]"
        );
    }

    #[test]
    fn nodes_are_found_by_internal_address() {
        let node = json!({"metadata": {"name": "n"}, "status": {
            "addresses": [{"type": "Hostname", "address": "n"}, {"type": "InternalIP", "address": "10.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10251}}}});
        assert_eq!(address(&node), Ok("10.0.0.1:10251".parse().unwrap()));
        assert_eq!(address(&json!({"metadata": {"name": "n"}})).unwrap_err().code, 500);
    }
}
