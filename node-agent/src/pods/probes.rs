//! Carrying out probes and hooks: commands in containers, and connections from the node to pods.

mod grpc;
mod http;

use std::time::Duration;

use skep_agent_core::pods::check::Check;
use skep_agent_core::pods::probe::ProbeOutcome;
use tokio::net::TcpStream;

use super::runtime::Runtime;

/// Output beyond this is not shown to users.
const MAX_OUTPUT: usize = 1024;

/// Runs one check; past the timeout it has failed.
pub(super) async fn run(runtime: &Runtime, container_id: &str, check: &Check, timeout: Duration) -> ProbeOutcome {
    match check {
        Check::Exec(command) => exec(runtime, container_id, command, timeout).await,
        Check::Http(check) => match tokio::time::timeout(timeout, http::status(check)).await {
            Ok(Ok(status)) if (200..400).contains(&status) => ProbeOutcome::Success,
            Ok(Ok(status)) => ProbeOutcome::Failure(format!("HTTP probe failed with statuscode: {status}")),
            Ok(Err(error)) => ProbeOutcome::Failure(format!("Get \"{}\": {error}", http::url(check))),
            Err(_) => ProbeOutcome::Failure(format!(
                "Get \"{}\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)",
                http::url(check)
            )),
        },
        Check::Tcp { host, port } => match tokio::time::timeout(timeout, connect(host, *port)).await {
            Ok(Ok(_)) => ProbeOutcome::Success,
            Ok(Err(error)) => ProbeOutcome::Failure(error),
            Err(_) => ProbeOutcome::Failure(format!("dial tcp {}: i/o timeout", address(host, *port))),
        },
        Check::Grpc { host, port, service } => match tokio::time::timeout(timeout, grpc::check(host, *port, service))
            .await
        {
            Ok(outcome) => outcome,
            Err(_) => {
                let address = address(host, *port);
                ProbeOutcome::Failure(format!("timeout: failed to connect service \"{address}\" within {timeout:?}"))
            }
        },
        Check::Sleep(seconds) => {
            let seconds = u64::try_from(*seconds).unwrap_or(0);
            tokio::time::sleep(Duration::from_secs(seconds).min(timeout)).await;
            ProbeOutcome::Success
        }
    }
}

async fn exec(runtime: &Runtime, container_id: &str, command: &[String], timeout: Duration) -> ProbeOutcome {
    match runtime.exec(container_id, command.to_vec(), timeout).await {
        Ok(response) if response.exit_code == 0 => ProbeOutcome::Success,
        Ok(response) => {
            let mut output = response.stdout;
            output.extend_from_slice(&response.stderr);
            output.truncate(MAX_OUTPUT);
            let output = String::from_utf8_lossy(&output).trim_end().to_owned();
            let silent = format!("command terminated with exit code {}", response.exit_code);
            ProbeOutcome::Failure(if output.is_empty() { silent } else { output })
        }
        Err(error) if matches!(error.status.code(), tonic::Code::DeadlineExceeded | tonic::Code::Cancelled) => {
            ProbeOutcome::Failure(format!(
                "command timed out: {:?} timed out after {}s",
                command.join(" "),
                timeout.as_secs()
            ))
        }
        Err(error) => ProbeOutcome::Error(error.to_string()),
    }
}

/// `host:port`, an IPv6 address in brackets.
fn address(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// The error says what was tried, as Kubernetes users know it.
async fn connect(host: &str, port: u16) -> Result<TcpStream, String> {
    let connected = TcpStream::connect((host, port)).await;
    connected.map_err(|error| {
        let address = address(host, port);
        let what = match error.kind() {
            std::io::ErrorKind::ConnectionRefused => "connect: connection refused".to_owned(),
            std::io::ErrorKind::HostUnreachable => "connect: no route to host".to_owned(),
            std::io::ErrorKind::NetworkUnreachable => "connect: network is unreachable".to_owned(),
            _ => error.to_string(),
        };
        format!("dial tcp {address}: {what}")
    })
}
