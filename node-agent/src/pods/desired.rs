//! Messages between the pods and the upstream.

use k8s_openapi::api::core::v1 as corev1;
use skep_proto::node::v1::ObjectRef;

/// One message of the stream that says what the node must run.
#[derive(Debug)]
pub enum Desired {
    /// A full snapshot begins: what it does not name is removed at [`Desired::Synced`].
    SnapshotBegin,
    /// The state is complete. Pods of the runtime that are unknown now are orphans.
    Synced,
    /// A pod was created or changed.
    Pod(Box<corev1::Pod>),
    /// A ConfigMap that pods refer to was created or changed.
    ConfigMap(Box<corev1::ConfigMap>),
    /// A Secret that pods refer to was created or changed.
    Secret(Box<corev1::Secret>),
    /// The object is not there any more.
    Deleted(ObjectRef),
}

/// The status of a pod to be written upstream.
#[derive(Clone, Debug)]
pub struct PodReport {
    /// `metadata.namespace` of the pod.
    pub namespace: String,
    /// `metadata.name` of the pod.
    pub name: String,
    /// `metadata.uid` of the pod.
    pub uid: String,
    /// The whole status; replaces the stored one.
    pub status: corev1::PodStatus,
    /// The pod was deleted and nothing of it runs any more: the object may be removed.
    pub terminated: bool,
}

/// A sandbox that the runtime holds.
#[derive(Clone, Debug)]
pub struct SandboxInfo {
    /// The runtime's id.
    pub id: String,
    /// `metadata.namespace` of its pod.
    pub namespace: String,
    /// `metadata.name` of its pod.
    pub name: String,
    /// `metadata.uid` of its pod.
    pub uid: String,
    /// It runs, so that its network is in use.
    pub ready: bool,
}

/// What the runtime says about itself.
#[derive(Clone, Debug)]
pub struct RuntimeInfo {
    /// E.g. `containerd`.
    pub name: String,
    /// E.g. `1.6.20`.
    pub version: String,
    /// It can run containers.
    pub ready: bool,
    /// It can give containers a network.
    pub network_ready: bool,
    /// Why it is not ready, for people; empty when it is.
    pub message: String,
}
