//! containerd's own event stream, for the moment at which a container ends. Other runtimes have none, and the list of
//! every second is what remains.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::uri::PathAndQuery;
use prost::Message as _;
use tokio::sync::mpsc;
use tonic::{Code, Request, Status};

use super::runtime::channel;

#[derive(Clone, PartialEq, prost::Message)]
struct SubscribeRequest {
    #[prost(string, repeated, tag = "1")]
    filters: Vec<String>,
}

/// `containerd.services.events.v1.Envelope`, as far as it matters here.
#[derive(Clone, PartialEq, prost::Message)]
struct Envelope {
    #[prost(message, optional, tag = "4")]
    event: Option<Any>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Any {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

/// `containerd.events.TaskExit`.
#[derive(Clone, PartialEq, prost::Message)]
struct TaskExit {
    #[prost(string, tag = "1")]
    container_id: String,
    /// Differs from the container's id for a process that was started in it later.
    #[prost(string, tag = "2")]
    id: String,
}

/// Sends the id of each container and sandbox whose main process has ended, as long as somebody listens. `connected`
/// tells whether the stream is there now.
pub(super) async fn watch(socket: PathBuf, exited: mpsc::UnboundedSender<String>, connected: Arc<AtomicBool>) {
    while !exited.is_closed() {
        let result = subscribe(&socket, &exited, &connected).await;
        connected.store(false, Ordering::Relaxed);
        match result {
            Ok(()) => {}
            Err(status) if status.code() == Code::Unimplemented => {
                tracing::info!("the runtime has no event stream; ends of containers are found by listing");
                return;
            }
            Err(status) => tracing::debug!(%status, "the runtime's event stream broke off"),
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

async fn subscribe(
    socket: &Path,
    exited: &mpsc::UnboundedSender<String>,
    connected: &AtomicBool,
) -> Result<(), Status> {
    let mut client = tonic::client::Grpc::new(channel(socket));
    client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
    let codec = tonic_prost::ProstCodec::<SubscribeRequest, Envelope>::default();
    let path = PathAndQuery::from_static("/containerd.services.events.v1.Events/Subscribe");
    // CRI's containers are in this namespace of containerd.
    let filter = "topic==\"/tasks/exit\",namespace==\"k8s.io\"".to_owned();
    let request = Request::new(SubscribeRequest { filters: vec![filter] });
    let mut stream = client.server_streaming(request, path, codec).await?.into_inner();
    connected.store(true, Ordering::Relaxed);
    while let Some(envelope) = stream.message().await? {
        let Some(event) = envelope.event.filter(|event| event.type_url.ends_with("containerd.events.TaskExit")) else {
            continue;
        };
        match TaskExit::decode(event.value.as_slice()) {
            Ok(exit) if exit.id == exit.container_id => {
                tracing::debug!(id = exit.id, "a container has ended");
                if exited.send(exit.container_id).is_err() {
                    return Ok(());
                }
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "an event of the runtime cannot be read"),
        }
    }
    Ok(())
}
