//! The node's Lease: its sign of life.

use jiff::Timestamp;
use serde_json::{Value, json};
use skep_control_core::api::Status as ApiStatus;
use tonic::Status;

use super::super::failure;
use super::NodeDoor;
use crate::api::WriteOptions;

const LEASES: &str = "leases.coordination.k8s.io";
const NAMESPACE: &str = "kube-node-lease";

impl NodeDoor {
    /// Renews the Lease, or makes it. Errors: `NOT_FOUND` when the node must register first.
    pub(super) async fn write_lease(&self, node: &str) -> Result<(), Status> {
        let now = micro_time(Timestamp::now());
        let seconds = self.config.lease_duration_seconds;
        let caller = Self::caller(node);
        let renewed = self.api.modify(&caller, LEASES, None, NAMESPACE, node, |lease| {
            lease["spec"]["holderIdentity"] = node.into();
            lease["spec"]["leaseDurationSeconds"] = seconds.into();
            lease["spec"]["renewTime"] = now.as_str().into();
            Ok(true)
        });
        let written = match renewed.await {
            Err(error) if error.is_not_found() => self.make_lease(node, seconds, &now).await,
            other => other.map(drop),
        };
        written.map_err(|error| failure::status(&error))
    }

    async fn make_lease(&self, node: &str, seconds: u32, now: &str) -> Result<(), ApiStatus> {
        // The Lease goes with its node.
        let owner = self.api.get("nodes", "", node).await?.value()?;
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": node,
                "namespace": NAMESPACE,
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "Node", "name": node, "uid": owner["metadata"]["uid"]},
                ],
            },
            "spec": {"holderIdentity": node, "leaseDurationSeconds": seconds, "renewTime": now},
        });
        let made = self.api.create(&Self::caller(node), LEASES, NAMESPACE, lease, &WriteOptions::default()).await;
        match made {
            Err(error) if !error.is_already_exists() => Err(error),
            // Another stream of the same node was faster, which is a sign of life just as well.
            _ => Ok(()),
        }
    }
}

/// A `MicroTime`: always with six decimals.
pub(super) fn micro_time(time: Timestamp) -> String {
    format!("{time:.6}")
}

/// A `Time`: whole seconds.
pub(super) fn time(time: Timestamp) -> Value {
    format!("{time:.0}").into()
}
