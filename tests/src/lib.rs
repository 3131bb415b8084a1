//! The test bed: whole Skep clusters on one machine, and what the end-to-end tests need around them.
//!
//! [`Cluster`] is what a test sees. [`namespaces::NamespaceCluster`] makes each node from a network namespace, a mount
//! namespace and a cgroup; everything in it is real: containerd, runc, the kernel's BPF.

pub mod cgroup;
mod cluster;
pub mod command;
pub mod image;
pub mod kind;
pub mod kubectl;
pub mod manifest;
pub mod namespaces;
pub mod proxy;
pub mod soak;
pub mod testbed;
pub mod workspace;

pub use cluster::{Cluster, Member, Spec};
