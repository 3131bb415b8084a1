//! Writing what a node reports of itself.

use skep_control_core::api::registry;
use skep_proto::node::v1::{ReportNodeStatusRequest, ReportNodeStatusResponse};
use tonic::Status;

use super::super::failure;
use super::{NodeDoor, conditions};
use crate::api::Subresource;

/// Fields that a node need not repeat.
pub(super) const KEPT: [&str; 8] = [
    "addresses",
    "allocatable",
    "capacity",
    "daemonEndpoints",
    "images",
    "nodeInfo",
    "volumesAttached",
    "volumesInUse",
];

impl NodeDoor {
    /// Writes the status. Errors: `NOT_FOUND` when the node must register first, `INVALID_ARGUMENT`.
    pub(super) async fn write_node_status(
        &self,
        request: ReportNodeStatusRequest,
    ) -> Result<ReportNodeStatusResponse, Status> {
        let nodes = registry().find("", "v1", "nodes").ok_or_else(|| Status::internal("there is no resource nodes"))?;
        let reported = conditions::checked(nodes, &request.status).map_err(|error| failure::status(&error))?;
        let caller = Self::caller(&request.name);
        let written = self.api.modify(&caller, nodes, Some(Subresource::Status), "", &request.name, |node| {
            let merged = conditions::merge(&node["status"], reported.clone(), &KEPT);
            let changed = node["status"] != merged;
            node["status"] = merged;
            Ok(changed)
        });
        written.await.map_err(|error| failure::status(&error))?;
        Ok(ReportNodeStatusResponse {})
    }
}
