//! gRPC probes: `grpc.health.v1.Health/Check`.

use http::uri::PathAndQuery;
use skep_agent_core::pods::probe::ProbeOutcome;
use tonic::transport::Endpoint;

use super::address;

#[derive(Clone, PartialEq, prost::Message)]
struct HealthCheckRequest {
    #[prost(string, tag = "1")]
    service: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct HealthCheckResponse {
    #[prost(int32, tag = "1")]
    status: i32,
}

const SERVING: i32 = 1;

pub(super) async fn check(host: &str, port: u16, service: &str) -> ProbeOutcome {
    let address = address(host, port);
    let endpoint = match Endpoint::from_shared(format!("http://{address}")) {
        Ok(endpoint) => endpoint,
        Err(error) => return ProbeOutcome::Error(error.to_string()),
    };
    let channel = match endpoint.connect().await {
        Ok(channel) => channel,
        Err(error) => return ProbeOutcome::Failure(format!("error: failed to connect service {address}: {error}")),
    };
    let mut client = tonic::client::Grpc::new(channel);
    if let Err(error) = client.ready().await {
        return ProbeOutcome::Failure(format!("error: failed to connect service {address}: {error}"));
    }
    let codec = tonic_prost::ProstCodec::<HealthCheckRequest, HealthCheckResponse>::default();
    let path = PathAndQuery::from_static("/grpc.health.v1.Health/Check");
    let request = tonic::Request::new(HealthCheckRequest { service: service.to_owned() });
    match client.unary(request, path, codec).await.map(tonic::Response::into_inner) {
        Ok(HealthCheckResponse { status: SERVING }) => ProbeOutcome::Success,
        Ok(response) => {
            let state = match response.status {
                2 => "NOT_SERVING",
                3 => "SERVICE_UNKNOWN",
                _ => "UNKNOWN",
            };
            ProbeOutcome::Failure(format!("service unhealthy (responded with \"{state}\")"))
        }
        Err(status) => ProbeOutcome::Failure(format!("error: health rpc failed: {}", status.message())),
    }
}
