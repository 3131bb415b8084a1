//! The CRI client: every call with a deadline, over the runtime's Unix socket.

use std::path::Path;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use k8s_cri::v1 as cri;
use k8s_cri::v1::image_service_client::ImageServiceClient;
use k8s_cri::v1::runtime_service_client::RuntimeServiceClient;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Code, Request, Response, Status};

/// Answers from the runtime's memory.
const QUICK: Duration = Duration::from_secs(20);
/// Making, starting and removing containers.
const SLOW: Duration = Duration::from_secs(120);
/// Running a sandbox, with its network.
const SANDBOX: Duration = Duration::from_secs(240);
/// Fetching an image.
const PULL: Duration = Duration::from_secs(3600);
/// How much longer than the container's own grace a stop may take.
const STOP_EXTRA: Duration = Duration::from_secs(60);

/// A node full of containers lists as some megabytes.
const MAX_MESSAGE: usize = 64 << 20;

/// Why the runtime did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[error("{}", describe(.status))]
pub struct RuntimeError {
    /// The CRI call.
    pub operation: &'static str,
    /// What it answered.
    pub status: Box<Status>,
}

impl RuntimeError {
    /// What it was about is not there (any more).
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.status.code() == Code::NotFound
    }
}

/// As Kubernetes users know it from events.
fn describe(status: &Status) -> String {
    format!("rpc error: code = {:?} desc = {}", status.code(), status.message())
}

/// A channel to a Unix socket, which connects when it is first used, and again when the other side was restarted.
pub(super) fn channel(socket: &Path) -> Channel {
    let path = socket.to_owned();
    let connector = tower::service_fn(move |_: Uri| {
        let path = path.clone();
        async move { Ok::<_, std::io::Error>(TokioIo::new(UnixStream::connect(path).await?)) }
    });
    // The address is never resolved; the connector knows the socket.
    Endpoint::from_static("http://localhost").connect_with_connector_lazy(connector)
}

/// A CRI v1 runtime.
#[derive(Clone)]
pub(super) struct Runtime {
    runtime: RuntimeServiceClient<Channel>,
    images: ImageServiceClient<Channel>,
}

impl Runtime {
    /// Over its channel.
    pub(super) fn new(channel: Channel) -> Self {
        Self {
            runtime: RuntimeServiceClient::new(channel.clone()).max_decoding_message_size(MAX_MESSAGE),
            images: ImageServiceClient::new(channel).max_decoding_message_size(MAX_MESSAGE),
        }
    }

    pub(super) async fn version(&self) -> Result<cri::VersionResponse, RuntimeError> {
        let mut client = self.runtime.clone();
        let request = request(cri::VersionRequest { version: "v1".to_owned() }, QUICK);
        within("Version", QUICK, client.version(request)).await
    }

    pub(super) async fn status(&self) -> Result<cri::StatusResponse, RuntimeError> {
        let mut client = self.runtime.clone();
        let request = request(cri::StatusRequest { verbose: false }, QUICK);
        within("Status", QUICK, client.status(request)).await
    }

    pub(super) async fn sandboxes(
        &self,
        filter: Option<cri::PodSandboxFilter>,
    ) -> Result<Vec<cri::PodSandbox>, RuntimeError> {
        let mut client = self.runtime.clone();
        let request = request(cri::ListPodSandboxRequest { filter }, QUICK);
        Ok(within("ListPodSandbox", QUICK, client.list_pod_sandbox(request)).await?.items)
    }

    pub(super) async fn containers(
        &self,
        filter: Option<cri::ContainerFilter>,
    ) -> Result<Vec<cri::Container>, RuntimeError> {
        let mut client = self.runtime.clone();
        let request = request(cri::ListContainersRequest { filter }, QUICK);
        Ok(within("ListContainers", QUICK, client.list_containers(request)).await?.containers)
    }

    pub(super) async fn sandbox_status(&self, id: &str) -> Result<Option<cri::PodSandboxStatus>, RuntimeError> {
        let mut client = self.runtime.clone();
        let request = request(cri::PodSandboxStatusRequest { pod_sandbox_id: id.to_owned(), verbose: false }, QUICK);
        Ok(within("PodSandboxStatus", QUICK, client.pod_sandbox_status(request)).await?.status)
    }

    pub(super) async fn container_status(&self, id: &str) -> Result<Option<cri::ContainerStatus>, RuntimeError> {
        let mut client = self.runtime.clone();
        let request = request(cri::ContainerStatusRequest { container_id: id.to_owned(), verbose: false }, QUICK);
        Ok(within("ContainerStatus", QUICK, client.container_status(request)).await?.status)
    }

    pub(super) async fn run_sandbox(&self, message: cri::RunPodSandboxRequest) -> Result<String, RuntimeError> {
        let mut client = self.runtime.clone();
        let request = request(message, SANDBOX);
        Ok(within("RunPodSandbox", SANDBOX, client.run_pod_sandbox(request)).await?.pod_sandbox_id)
    }

    pub(super) async fn stop_sandbox(&self, id: &str) -> Result<(), RuntimeError> {
        let mut client = self.runtime.clone();
        let request = request(cri::StopPodSandboxRequest { pod_sandbox_id: id.to_owned() }, SLOW);
        absent_is_fine(within("StopPodSandbox", SLOW, client.stop_pod_sandbox(request)).await.map(|_| ()))
    }

    pub(super) async fn remove_sandbox(&self, id: &str) -> Result<(), RuntimeError> {
        let mut client = self.runtime.clone();
        let request = request(cri::RemovePodSandboxRequest { pod_sandbox_id: id.to_owned() }, SLOW);
        absent_is_fine(within("RemovePodSandbox", SLOW, client.remove_pod_sandbox(request)).await.map(|_| ()))
    }

    pub(super) async fn create_container(&self, message: cri::CreateContainerRequest) -> Result<String, RuntimeError> {
        let mut client = self.runtime.clone();
        let request = request(message, SLOW);
        Ok(within("CreateContainer", SLOW, client.create_container(request)).await?.container_id)
    }

    pub(super) async fn start_container(&self, id: &str) -> Result<(), RuntimeError> {
        let mut client = self.runtime.clone();
        let request = request(cri::StartContainerRequest { container_id: id.to_owned() }, SLOW);
        within("StartContainer", SLOW, client.start_container(request)).await.map(|_| ())
    }

    pub(super) async fn stop_container(&self, id: &str, grace: Duration) -> Result<(), RuntimeError> {
        let mut client = self.runtime.clone();
        // CRI counts whole seconds; the grace is not cut short.
        let timeout = grace.as_secs() + u64::from(grace.subsec_nanos() > 0);
        let timeout = i64::try_from(timeout).unwrap_or(i64::MAX);
        let limit = grace.saturating_add(STOP_EXTRA);
        let request = request(cri::StopContainerRequest { container_id: id.to_owned(), timeout }, limit);
        absent_is_fine(within("StopContainer", limit, client.stop_container(request)).await.map(|_| ()))
    }

    pub(super) async fn remove_container(&self, id: &str) -> Result<(), RuntimeError> {
        let mut client = self.runtime.clone();
        let request = request(cri::RemoveContainerRequest { container_id: id.to_owned() }, SLOW);
        absent_is_fine(within("RemoveContainer", SLOW, client.remove_container(request)).await.map(|_| ()))
    }

    /// Runs a command in a container. The runtime waits for the output's end, which children of a killed command may
    /// hold back, so that the deadline is kept here too.
    pub(super) async fn exec(
        &self,
        id: &str,
        command: Vec<String>,
        timeout: Duration,
    ) -> Result<cri::ExecSyncResponse, RuntimeError> {
        let mut client = self.runtime.clone();
        let seconds = timeout.as_secs() + u64::from(timeout.subsec_nanos() > 0);
        let message = cri::ExecSyncRequest {
            container_id: id.to_owned(),
            cmd: command,
            timeout: i64::try_from(seconds.max(1)).unwrap_or(i64::MAX),
        };
        let limit = timeout.saturating_add(Duration::from_millis(500));
        within("ExecSync", limit, client.exec_sync(request(message, limit))).await
    }

    /// `None`: the runtime does not have the image.
    pub(super) async fn image(&self, image: &str) -> Result<Option<cri::Image>, RuntimeError> {
        let mut client = self.images.clone();
        let request = request(cri::ImageStatusRequest { image: Some(spec(image)), verbose: false }, QUICK);
        Ok(within("ImageStatus", QUICK, client.image_status(request)).await?.image)
    }

    pub(super) async fn pull(&self, image: &str) -> Result<String, RuntimeError> {
        let mut client = self.images.clone();
        let message = cri::PullImageRequest { image: Some(spec(image)), auth: None, sandbox_config: None };
        Ok(within("PullImage", PULL, client.pull_image(request(message, PULL))).await?.image_ref)
    }
}

fn spec(image: &str) -> cri::ImageSpec {
    cri::ImageSpec { image: image.to_owned(), ..cri::ImageSpec::default() }
}

fn request<T>(message: T, limit: Duration) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(limit);
    request
}

async fn within<T>(
    operation: &'static str,
    limit: Duration,
    call: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<T, RuntimeError> {
    let result = match tokio::time::timeout(limit, call).await {
        Ok(result) => result,
        Err(_) => Err(Status::deadline_exceeded(format!("{operation} took longer than {} s", limit.as_secs()))),
    };
    result.map(Response::into_inner).map_err(|status| RuntimeError { operation, status: Box::new(status) })
}

/// What is to go and is not there has gone.
fn absent_is_fine(result: Result<(), RuntimeError>) -> Result<(), RuntimeError> {
    match result {
        Err(error) if error.is_not_found() => Ok(()),
        result => result,
    }
}
