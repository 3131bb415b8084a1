//! Runs the pods of this node: one task a pod drives [`skep_agent_core::pods`] and carries out what it decides, through
//! CRI, the file system and the network.
//!
//! ```text
//! upstream --Desired--> Pods --PodEvent--> worker of the pod --commands--> CRI, volumes, probes
//!                        ^                   |
//! containerd --relist----+                   +--PodReport, Event--> upstream
//! ```

mod config;
mod desired;

use std::sync::Arc;

use k8s_openapi::api::core::v1 as corev1;
use tokio::sync::mpsc;

pub use config::{ClusterDns, PodsConfig};
pub use desired::{Desired, PodReport, RuntimeInfo, SandboxInfo};

/// Why the runtime could not be asked.
#[derive(Debug, thiserror::Error)]
#[error("container runtime: {operation}: {status}")]
pub struct RuntimeError {
    /// The CRI call.
    pub operation: &'static str,
    /// What it answered.
    pub status: Box<tonic::Status>,
}

/// The pods of this node. A handle: clones share the same pods.
#[derive(Clone)]
pub struct Pods {
    shared: Arc<()>,
}

impl Pods {
    /// Starts to run pods, and takes over those that the runtime already holds. Must be called inside a tokio runtime;
    /// returns at once, also while the runtime is away (it is waited for).
    ///
    /// A report is sent when a pod's status differs from the one before; events are those that users see in `kubectl
    /// describe pod`.
    #[must_use]
    pub fn start(
        config: PodsConfig,
        reports: mpsc::Sender<PodReport>,
        events: mpsc::Sender<skep_proto::node::v1::Event>,
    ) -> Self {
        let _ = (config, reports, events);
        Self { shared: Arc::new(()) }
    }

    /// Takes one message of the upstream's stream. Never blocks.
    pub fn handle(&self, desired: Desired) {
        let _ = (desired, &self.shared);
    }

    /// The upstream knows no pod with this uid any more: what is left of it is stopped and removed, and nothing more is
    /// reported about it.
    pub fn gone(&self, uid: &str) {
        let _ = uid;
    }

    /// The desired pod of this name, as last received.
    #[must_use]
    pub fn pod(&self, namespace: &str, name: &str) -> Option<Arc<corev1::Pod>> {
        let _ = (namespace, name);
        None
    }

    /// All desired pods.
    #[must_use]
    pub fn pods(&self) -> Vec<Arc<corev1::Pod>> {
        Vec::new()
    }

    /// The sandboxes that the runtime holds now, of any state.
    ///
    /// # Errors
    /// The runtime does not answer.
    pub async fn sandboxes(&self) -> Result<Vec<SandboxInfo>, RuntimeError> {
        Ok(Vec::new())
    }

    /// The runtime's name, version and readiness.
    ///
    /// # Errors
    /// The runtime does not answer.
    pub async fn runtime(&self) -> Result<RuntimeInfo, RuntimeError> {
        Ok(RuntimeInfo { name: String::new(), version: String::new(), ready: false, network_ready: false, message: String::new() })
    }
}
