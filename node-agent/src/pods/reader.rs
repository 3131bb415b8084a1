//! Reading what the runtime holds: lists, and the details that lists leave out.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use jiff::Timestamp;
use k8s_cri::v1 as cri;
use skep_agent_core::pods::container::{HASH, TERMINATION_MESSAGE_POLICY};
use skep_agent_core::pods::sandbox::POD_UID;
use skep_agent_core::pods::{ContainerState, Exit, Observed, ObservedContainer, ObservedSandbox};

use super::layout::Layout;
use super::runtime::{Runtime, RuntimeError};
use super::termination_message;

/// What was held at a time: everything that had been done before is in it.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    /// Just before the runtime was asked.
    pub(super) at: Instant,
    pub(super) observed: Observed,
}

/// Reads pods, and remembers details that cannot change any more.
pub(super) struct Reader {
    runtime: Runtime,
    layout: Arc<Layout>,
    details: Mutex<Details>,
}

#[derive(Default)]
struct Details {
    sandbox_ips: HashMap<String, Vec<String>>,
    containers: HashMap<(String, i32), ObservedContainer>,
}

/// The lists of one moment.
pub(super) struct Lists {
    pub(super) at: Instant,
    pub(super) sandboxes: Vec<cri::PodSandbox>,
    pub(super) containers: Vec<cri::Container>,
}

impl Lists {
    /// Ids and states of each pod, by uid; what has the same ones has not changed.
    pub(super) fn fingerprints(&self) -> HashMap<String, Vec<(String, i32)>> {
        let mut pods: HashMap<String, Vec<(String, i32)>> = HashMap::new();
        let sandboxes = self
            .sandboxes
            .iter()
            .filter_map(|sandbox| Some((sandbox.labels.get(POD_UID)?, &sandbox.id, sandbox.state)));
        let containers =
            self.containers.iter().filter_map(|one| Some((one.labels.get(POD_UID)?, &one.id, one.state + 10)));
        for (uid, id, state) in sandboxes.chain(containers) {
            pods.entry(uid.clone()).or_default().push((id.clone(), state));
        }
        for states in pods.values_mut() {
            states.sort();
        }
        pods
    }

    /// A container or sandbox of this id is listed as running.
    pub(super) fn is_running(&self, id: &str) -> bool {
        let container = self.containers.iter().find(|container| container.id == id).map(|container| container.state());
        let sandbox = self.sandboxes.iter().find(|sandbox| sandbox.id == id).map(|sandbox| sandbox.state());
        container == Some(cri::ContainerState::ContainerRunning) || sandbox == Some(cri::PodSandboxState::SandboxReady)
    }
}

impl Reader {
    pub(super) fn new(runtime: Runtime, layout: Arc<Layout>) -> Self {
        Self { runtime, layout, details: Mutex::default() }
    }

    /// Everything, in two calls.
    pub(super) async fn list(&self) -> Result<Lists, RuntimeError> {
        let at = Instant::now();
        // Sandboxes first: a container whose sandbox is not listed would be taken for lost.
        let sandboxes = self.runtime.sandboxes(None).await?;
        let containers = self.runtime.containers(None).await?;
        let lists = Lists { at, sandboxes, containers };
        self.forget_absent(&lists);
        Ok(lists)
    }

    /// One pod.
    pub(super) async fn read(&self, uid: &str) -> Result<Snapshot, RuntimeError> {
        let at = Instant::now();
        let label_selector: HashMap<String, String> = [(POD_UID.to_owned(), uid.to_owned())].into();
        let filter =
            cri::PodSandboxFilter { label_selector: label_selector.clone(), ..cri::PodSandboxFilter::default() };
        let sandboxes = self.runtime.sandboxes(Some(filter)).await?;
        let filter = cri::ContainerFilter { label_selector, ..cri::ContainerFilter::default() };
        let containers = self.runtime.containers(Some(filter)).await?;
        self.complete(uid, &Lists { at, sandboxes, containers }).await
    }

    /// One pod out of lists, with the details that they leave out.
    pub(super) async fn complete(&self, uid: &str, lists: &Lists) -> Result<Snapshot, RuntimeError> {
        let is_of_pod = |labels: &HashMap<String, String>| labels.get(POD_UID).is_some_and(|of| of == uid);
        let mut observed = Observed::default();
        for sandbox in lists.sandboxes.iter().filter(|sandbox| is_of_pod(&sandbox.labels)) {
            let ready = sandbox.state() == cri::PodSandboxState::SandboxReady;
            let ips = if ready { self.sandbox_ips(&sandbox.id).await? } else { Vec::new() };
            let attempt = sandbox.metadata.as_ref().map_or(0, |metadata| metadata.attempt);
            observed.sandboxes.push(ObservedSandbox { id: sandbox.id.clone(), attempt, ready, ips });
        }
        for container in lists.containers.iter().filter(|container| is_of_pod(&container.labels)) {
            observed.containers.extend(self.container(uid, container).await?);
        }
        Ok(Snapshot { at: lists.at, observed })
    }

    async fn sandbox_ips(&self, id: &str) -> Result<Vec<String>, RuntimeError> {
        if let Some(ips) = self.with_details(|details| details.sandbox_ips.get(id).cloned()) {
            return Ok(ips);
        }
        let status = match self.runtime.sandbox_status(id).await {
            Ok(status) => status,
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(error),
        };
        let network = status.and_then(|status| status.network).unwrap_or_default();
        let further = network.additional_ips.into_iter().map(|further| further.ip);
        let ips: Vec<String> = std::iter::once(network.ip).chain(further).filter(|ip| !ip.is_empty()).collect();
        self.with_details(|details| details.sandbox_ips.insert(id.to_owned(), ips.clone()));
        Ok(ips)
    }

    async fn container(&self, uid: &str, listed: &cri::Container) -> Result<Option<ObservedContainer>, RuntimeError> {
        let key = (listed.id.clone(), listed.state);
        if let Some(known) = self.with_details(|details| details.containers.get(&key).cloned()) {
            return Ok(Some(known));
        }
        let status = match self.runtime.container_status(&listed.id).await {
            Ok(Some(status)) => status,
            Ok(None) => return Ok(None),
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error),
        };
        let observed = self.observed(uid, &listed.pod_sandbox_id, &status).await;
        // Between the list and the status it may have gone on; only what both agree on is remembered.
        if status.state == listed.state {
            self.with_details(|details| details.containers.insert(key, observed.clone()));
        }
        Ok(Some(observed))
    }

    async fn observed(&self, uid: &str, sandbox_id: &str, status: &cri::ContainerStatus) -> ObservedContainer {
        let metadata = status.metadata.clone().unwrap_or_default();
        let state = match status.state() {
            cri::ContainerState::ContainerCreated => ContainerState::Created,
            cri::ContainerState::ContainerRunning => {
                ContainerState::Running { started_at: time(status.started_at).unwrap_or(Timestamp::UNIX_EPOCH) }
            }
            cri::ContainerState::ContainerExited => ContainerState::Exited(self.exit(uid, &metadata, status).await),
            cri::ContainerState::ContainerUnknown => ContainerState::Unknown,
        };
        ObservedContainer {
            id: status.id.clone(),
            sandbox_id: sandbox_id.to_owned(),
            name: metadata.name,
            attempt: metadata.attempt,
            hash: status.annotations.get(HASH).cloned().unwrap_or_default(),
            image: status.image.as_ref().map(|image| image.image.clone()).unwrap_or_default(),
            image_id: status.image_ref.clone(),
            state,
        }
    }

    async fn exit(&self, uid: &str, metadata: &cri::ContainerMetadata, status: &cri::ContainerStatus) -> Exit {
        let policy = status.annotations.get(TERMINATION_MESSAGE_POLICY).map(String::as_str);
        let log =
            (policy == Some("FallbackToLogsOnError") && status.exit_code != 0).then_some(status.log_path.as_str());
        let file = self.layout.termination_message(uid, &metadata.name, metadata.attempt);
        let message = termination_message::read(&file, log).await;
        Exit {
            code: status.exit_code,
            reason: status.reason.clone(),
            message: if message.is_empty() { status.message.clone() } else { message },
            started_at: time(status.started_at),
            finished_at: time(status.finished_at).or_else(|| time(status.created_at)).unwrap_or(Timestamp::UNIX_EPOCH),
        }
    }

    fn forget_absent(&self, lists: &Lists) {
        let containers: HashSet<&str> = lists.containers.iter().map(|container| container.id.as_str()).collect();
        let sandboxes: HashSet<&str> = lists.sandboxes.iter().map(|sandbox| sandbox.id.as_str()).collect();
        self.with_details(|details| {
            details.containers.retain(|(id, _), _| containers.contains(id.as_str()));
            details.sandbox_ips.retain(|id, _| sandboxes.contains(id.as_str()));
        });
    }

    fn with_details<T>(&self, read: impl FnOnce(&mut Details) -> T) -> T {
        read(&mut self.details.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Nanoseconds since 1970; 0 is never.
fn time(nanoseconds: i64) -> Option<Timestamp> {
    if nanoseconds <= 0 { None } else { Timestamp::from_nanosecond(i128::from(nanoseconds)).ok() }
}
