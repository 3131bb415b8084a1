//! Writing what a node reports of its pods.

use std::collections::HashSet;

use futures_util::stream::{StreamExt, TryStreamExt, iter};
use serde_json::Value;
use skep_control_core::api::delete::Preconditions;
use skep_control_core::api::{DeleteOptions, Status as ApiStatus, meta, registry};
use skep_proto::node::v1::pod_status_result::Outcome;
use skep_proto::node::v1::{PodStatus, PodStatusResult, ReportPodStatusRequest, ReportPodStatusResponse};
use tonic::Status;

use super::super::failure;
use super::{NodeDoor, conditions};
use crate::api::Subresource;

/// Statuses that are written at once.
const AT_ONCE: usize = 16;

/// Fields that others set and that a node need not repeat.
const KEPT: [&str; 3] = ["qosClass", "nominatedNodeName", "observedGeneration"];

impl NodeDoor {
    /// Writes each status. Errors: only those that concern the whole request, such as an unavailable store; what was
    /// written before stays written, and the node reports again.
    pub(super) async fn write_pod_statuses(
        &self,
        node: &str,
        request: ReportPodStatusRequest,
    ) -> Result<ReportPodStatusResponse, Status> {
        let named = |status: &PodStatus| (status.namespace.clone(), status.name.clone());
        let distinct = request.statuses.iter().map(named).collect::<HashSet<_>>().len() == request.statuses.len();
        // Several at once share a commit of the store; two of the same pod are written in their order.
        let at_once = if distinct { AT_ONCE } else { 1 };
        let writes = request.statuses.iter().map(|status| async move {
            match self.write_pod_status(node, status).await {
                Ok(()) => Ok(PodStatusResult { outcome: Outcome::Ok.into(), message: String::new() }),
                Err(error) => refused(&error),
            }
        });
        // Collected first: the futures borrow, and a stream of borrowing closures would not be Send.
        let writes: Vec<_> = writes.collect();
        let results = iter(writes).buffered(at_once).try_collect().await?;
        Ok(ReportPodStatusResponse { results })
    }

    async fn write_pod_status(&self, node: &str, report: &PodStatus) -> Result<(), ApiStatus> {
        let pods = registry().find("", "v1", "pods").ok_or_else(ApiStatus::unknown_path)?;
        let PodStatus { namespace, name, uid, status, terminated } = report;
        let caller = Self::caller(node);
        if !status.is_empty() {
            let reported = conditions::checked(pods, status)?;
            let written = self.api.modify(&caller, pods, Some(Subresource::Status), namespace, name, |pod| {
                is_same(pod, node, uid)?;
                let merged = conditions::merge(&pod["status"], reported.clone(), &KEPT);
                let changed = pod["status"] != merged;
                pod["status"] = merged;
                Ok(changed)
            });
            written.await?;
        }
        if !terminated {
            return Ok(());
        }
        let pod = self.api.get(pods, namespace, name).await?.value()?;
        is_same(&pod, node, uid)?;
        if !meta::is_deleting(&pod) {
            return Err(ApiStatus::bad_request("terminated: the pod is not being deleted"));
        }
        let preconditions = Preconditions { uid: Some(uid.clone()), ..Preconditions::default() };
        let options = DeleteOptions {
            grace_period_seconds: Some(0),
            preconditions: Some(preconditions),
            ..DeleteOptions::default()
        };
        self.api.delete(&caller, pods, namespace, name, &options).await.map(drop)
    }
}

/// Refuses, as if it were not there, a pod that is another one of the same name or runs elsewhere.
fn is_same(pod: &Value, node: &str, uid: &str) -> Result<(), ApiStatus> {
    if meta::uid(pod) == uid && pod["spec"]["nodeName"] == node {
        return Ok(());
    }
    let pods = registry().find("", "v1", "pods").ok_or_else(ApiStatus::unknown_path)?;
    Err(ApiStatus::not_found(pods, meta::name(pod)))
}

/// The outcome that an error is, unless it is one of the whole service.
fn refused(error: &ApiStatus) -> Result<PodStatusResult, Status> {
    let outcome = match error.code {
        // 409: the uid was that of another pod by the time of the deletion.
        404 | 409 => Outcome::Gone,
        400 | 413 | 422 => Outcome::Invalid,
        _ => return Err(failure::status(error)),
    };
    Ok(PodStatusResult { outcome: outcome.into(), message: error.message.clone() })
}
