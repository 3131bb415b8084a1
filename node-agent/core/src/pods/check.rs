//! What probes and hooks do, with ports and addresses filled in.

use k8s_openapi::api::core::v1::{Container, HTTPGetAction, LifecycleHandler, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::invalid::ConfigError;

/// One thing to try.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Check {
    /// A command in the container; exit code 0 is success.
    Exec(Vec<String>),
    /// An HTTP request; a status from 200 to 399 is success.
    Http(HttpCheck),
    /// A TCP connection; that it opens is success.
    Tcp {
        /// Name or address.
        host: String,
        /// Port.
        port: u16,
    },
    /// The gRPC health protocol; `SERVING` is success.
    Grpc {
        /// Address.
        host: String,
        /// Port.
        port: u16,
        /// The service to ask for; empty for the server as a whole.
        service: String,
    },
    /// Nothing, for some seconds.
    Sleep(i64),
}

/// An HTTP request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HttpCheck {
    /// Over TLS, the certificate not verified.
    pub tls: bool,
    /// Name or address to connect to.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Path and query.
    pub path: String,
    /// Headers.
    pub headers: Vec<(String, String)>,
}

/// The check of a probe; `pod_ip` is where it goes unless it names a host.
///
/// # Errors
/// The port is not one of the container.
pub fn of_probe(container: &Container, probe: &Probe, pod_ip: &str) -> Result<Option<Check>, ConfigError> {
    if let Some(exec) = &probe.exec {
        return Ok(Some(Check::Exec(exec.command.clone().unwrap_or_default())));
    }
    if let Some(http) = &probe.http_get {
        return of_http(container, http, pod_ip).map(Some);
    }
    if let Some(tcp) = &probe.tcp_socket {
        let host = tcp.host.as_deref().filter(|host| !host.is_empty()).unwrap_or(pod_ip).to_owned();
        return Ok(Some(Check::Tcp { host, port: port(container, &tcp.port)? }));
    }
    if let Some(grpc) = &probe.grpc {
        let port = u16::try_from(grpc.port).map_err(|_| ConfigError::UnknownPort(grpc.port.to_string()))?;
        let service = grpc.service.clone().unwrap_or_default();
        return Ok(Some(Check::Grpc { host: pod_ip.to_owned(), port, service }));
    }
    Ok(None)
}

/// The check of a hook.
///
/// # Errors
/// The port is not one of the container.
pub fn of_hook(container: &Container, hook: &LifecycleHandler, pod_ip: &str) -> Result<Option<Check>, ConfigError> {
    if let Some(exec) = &hook.exec {
        return Ok(Some(Check::Exec(exec.command.clone().unwrap_or_default())));
    }
    if let Some(http) = &hook.http_get {
        return of_http(container, http, pod_ip).map(Some);
    }
    Ok(hook.sleep.as_ref().map(|sleep| Check::Sleep(sleep.seconds)))
}

fn of_http(container: &Container, http: &HTTPGetAction, pod_ip: &str) -> Result<Check, ConfigError> {
    let path = http.path.as_deref().unwrap_or_default();
    let headers = http.http_headers.iter().flatten();
    Ok(Check::Http(HttpCheck {
        tls: http.scheme.as_deref().is_some_and(|scheme| scheme.eq_ignore_ascii_case("https")),
        host: http.host.as_deref().filter(|host| !host.is_empty()).unwrap_or(pod_ip).to_owned(),
        port: port(container, &http.port)?,
        path: if path.starts_with('/') { path.to_owned() } else { format!("/{path}") },
        headers: headers.map(|header| (header.name.clone(), header.value.clone())).collect(),
    }))
}

/// A port by number, or by the name that the container gives it.
fn port(container: &Container, port: &IntOrString) -> Result<u16, ConfigError> {
    let number = match port {
        IntOrString::Int(number) => Some(*number),
        IntOrString::String(name) => {
            let named = container.ports.iter().flatten().find(|port| port.name.as_ref() == Some(name));
            named.map(|port| port.container_port).or_else(|| name.parse().ok())
        }
    };
    number.and_then(|number| u16::try_from(number).ok()).filter(|number| *number != 0).ok_or_else(|| {
        ConfigError::UnknownPort(match port {
            IntOrString::Int(number) => number.to_string(),
            IntOrString::String(name) => name.clone(),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn check(probe: Value) -> Result<Option<Check>, String> {
        let container = json!({"name": "app", "ports": [{"name": "web", "containerPort": 8080}]});
        let container: Container = serde_json::from_value(container).unwrap();
        let probe: Probe = serde_json::from_value(probe).unwrap();
        of_probe(&container, &probe, "10.0.0.5").map_err(|error| error.to_string())
    }

    #[test]
    fn ports_hosts_and_paths() {
        let http = |tls, host: &str, port, path: &str, headers: &[(&str, &str)]| {
            let headers = headers.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
            Ok(Some(Check::Http(HttpCheck { tls, host: host.to_owned(), port, path: path.to_owned(), headers })))
        };
        let table = [
            (json!({"httpGet": {"port": 80}}), http(false, "10.0.0.5", 80, "/", &[])),
            (
                json!({"httpGet": {"port": "web", "path": "ok?a=b", "host": "h", "scheme": "HTTPS", "httpHeaders": [{"name": "A", "value": "b"}]}}),
                http(true, "h", 8080, "/ok?a=b", &[("A", "b")]),
            ),
            (json!({"httpGet": {"port": "none"}}), Err("port \"none\" is not a port of the container".to_owned())),
            (json!({"tcpSocket": {"port": "web"}}), Ok(Some(Check::Tcp { host: "10.0.0.5".to_owned(), port: 8080 }))),
            (json!({"tcpSocket": {"port": 70000}}), Err("port \"70000\" is not a port of the container".to_owned())),
            (json!({"exec": {"command": ["true"]}}), Ok(Some(Check::Exec(vec!["true".to_owned()])))),
            (
                json!({"grpc": {"port": 9}}),
                Ok(Some(Check::Grpc { host: "10.0.0.5".to_owned(), port: 9, service: String::new() })),
            ),
            (json!({}), Ok(None)),
        ];
        for (probe, expected) in table {
            assert_eq!(check(probe.clone()), expected, "{probe}");
        }
    }
}
