//! Runs the pods of this node: one task a pod drives [`skep_agent_core::pods`] and carries out what it decides, through
//! CRI, the file system and the network.
//!
//! ```text
//! upstream --Desired--> Pods ----Input----> worker of the pod --Command--> CRI, volumes, probes
//!                                               ^   ^  |                          |
//! containerd --exits, relist--> what it holds --+   |  +--PodReport, Event--> upstream
//!                                                   +------------Done-------------+
//! ```

mod config;
mod context;
mod convert;
mod desired;
mod execute;
mod exits;
mod layout;
mod manager;
mod orphans;
mod probes;
mod reader;
mod relist;
mod runtime;
mod termination_message;
mod volumes;
mod worker;

use std::path::PathBuf;
use std::sync::Arc;

use k8s_cri::v1 as cri;
use k8s_openapi::api::core::v1 as corev1;
use skep_agent_core::pods::sandbox;
use tokio::sync::mpsc;

use context::Context;
use manager::Shared;

pub use config::PodsConfig;
pub use desired::{Desired, PodReport, RuntimeInfo, SandboxInfo};
pub use runtime::RuntimeError;

/// The pods of this node. A handle: clones share the same pods, which are no longer driven (and go on running) once the
/// last one is dropped.
#[derive(Clone)]
pub struct Pods {
    shared: Arc<Shared>,
}

impl Pods {
    /// Starts to run pods, and takes over those that the runtime already holds. Must be called inside a tokio runtime;
    /// returns at once, also while the container runtime is away (it is waited for).
    ///
    /// A report is sent when a pod's status differs from the one before; events are those that users see in `kubectl
    /// describe pod`. Pods wait for both to be taken.
    #[must_use]
    pub fn start(
        config: PodsConfig,
        reports: mpsc::Sender<PodReport>,
        events: mpsc::Sender<skep_proto::node::v1::Event>,
    ) -> Self {
        let context = Arc::new(Context::new(config, reports, events));
        let socket = context.socket.clone();
        let shared = Arc::new(Shared::new(context));
        tokio::spawn(relist::run(Arc::downgrade(&shared), socket));
        Self { shared }
    }

    /// Takes one message of the upstream's stream. Never blocks; must be called inside a tokio runtime.
    pub fn handle(&self, desired: Desired) {
        self.shared.handle(desired);
    }

    /// The upstream knows no pod with this uid any more: what is left of it is stopped and removed, and nothing more is
    /// reported about it.
    pub fn gone(&self, uid: &str) {
        self.shared.gone(uid);
    }

    /// The desired pod of this name, as last received.
    #[must_use]
    pub fn pod(&self, namespace: &str, name: &str) -> Option<Arc<corev1::Pod>> {
        self.shared.pod(namespace, name)
    }

    /// All desired pods.
    #[must_use]
    pub fn pods(&self) -> Vec<Arc<corev1::Pod>> {
        self.shared.pods()
    }

    /// The status of a pod as this node sees it; `None` before it has looked, and for a pod that is not here.
    #[must_use]
    pub fn status(&self, uid: &str) -> Option<Arc<corev1::PodStatus>> {
        self.shared.status(uid)
    }

    /// The sandboxes that the runtime holds now, of any state.
    ///
    /// # Errors
    /// The runtime does not answer.
    pub async fn sandboxes(&self) -> Result<Vec<SandboxInfo>, RuntimeError> {
        let listed = self.shared.context.runtime.sandboxes(None).await?;
        let info = |listed: cri::PodSandbox| {
            let ready = listed.state() == cri::PodSandboxState::SandboxReady;
            let metadata = listed.metadata.unwrap_or_default();
            SandboxInfo { id: listed.id, namespace: metadata.namespace, name: metadata.name, uid: metadata.uid, ready }
        };
        Ok(listed.into_iter().map(info).collect())
    }

    /// The runtime's name, version and readiness.
    ///
    /// # Errors
    /// The runtime does not answer.
    pub async fn runtime(&self) -> Result<RuntimeInfo, RuntimeError> {
        let version = self.shared.context.runtime.version().await?;
        let status = self.shared.context.runtime.status().await?.status.unwrap_or_default();
        let condition = |type_: &str| status.conditions.iter().find(|condition| condition.r#type == type_);
        let holds = |type_: &str| condition(type_).is_some_and(|condition| condition.status);
        let wrong = status.conditions.iter().filter(|condition| !condition.status);
        let messages: Vec<String> =
            wrong.map(|condition| format!("{}: {}", condition.reason, condition.message)).collect();
        Ok(RuntimeInfo {
            name: version.runtime_name,
            version: version.runtime_version,
            ready: holds("RuntimeReady"),
            network_ready: holds("NetworkReady"),
            message: messages.join("; "),
        })
    }

    /// Directory of a pod's container logs.
    pub(crate) fn log_directory(&self, pod: &corev1::Pod) -> PathBuf {
        PathBuf::from(sandbox::log_directory(pod, &self.shared.context.node()))
    }
}
