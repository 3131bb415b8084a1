//! Where a pod's files are on the node.

use std::path::PathBuf;

/// The agent's own directory for pods, and that of their logs.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    /// `{state dir}/pods`.
    pub(super) pods: PathBuf,
    /// Container logs.
    pub(super) logs: PathBuf,
}

impl Layout {
    /// Everything of one pod.
    pub(super) fn pod(&self, uid: &str) -> PathBuf {
        self.pods.join(uid)
    }

    /// A volume.
    pub(super) fn volume(&self, uid: &str, name: &str) -> PathBuf {
        self.pod(uid).join("volumes").join(name)
    }

    /// Where a part of a volume is shown to one container.
    pub(super) fn sub_path(&self, uid: &str, container: &str, index: usize) -> PathBuf {
        self.pod(uid).join("subpaths").join(container).join(index.to_string())
    }

    /// The pod's `/etc/hosts`.
    pub(super) fn hosts(&self, uid: &str) -> PathBuf {
        self.pod(uid).join("hosts")
    }

    /// The last message of one start of a container.
    pub(super) fn termination_message(&self, uid: &str, container: &str, attempt: u32) -> PathBuf {
        self.pod(uid).join("containers").join(container).join(attempt.to_string())
    }
}
