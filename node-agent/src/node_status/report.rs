use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::NodeStatus;
use skep_agent_core::dataplane::MapFill;
use skep_agent_core::ipam::Ipam;
use skep_proto::node::v1::ReportNodeStatusRequest;
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;
use tracing::{info, warn};

use super::status::{node, status};
use super::{Conditions, Health, Machine, Readings};
use crate::cni::Journal;
use crate::config::Config;
use crate::dataplane::Dataplane;
use crate::pods::Pods;
use crate::upstream::{Session, Upstream, request, status_text};

/// How often the node looks at itself.
const LOOK: Duration = Duration::from_secs(5);
/// The same while it is not ready: pods wait for it.
const LOOK_WHILE_NOT_READY: Duration = Duration::from_millis(500);
/// How often it reports when nothing but amounts in use has changed; that it lives is what the lease says.
const HEARTBEAT: Duration = Duration::from_secs(300);
/// The runtime answers in milliseconds.
const RUNTIME_PATIENCE: Duration = Duration::from_secs(5);

/// Looks at the node and tells the control service.
#[derive(Clone)]
pub struct NodeReporter {
    config: Arc<Config>,
    machine: Arc<Machine>,
    pods: Pods,
    dataplane: Dataplane,
    journal: Journal,
    nearly_full: watch::Receiver<Vec<MapFill>>,
    conditions: Arc<Mutex<Conditions>>,
}

impl NodeReporter {
    /// A reporter of this node; `nearly_full` are the maps that are.
    #[must_use]
    pub fn new(
        config: Arc<Config>,
        pods: Pods,
        dataplane: Dataplane,
        journal: Journal,
        nearly_full: watch::Receiver<Vec<MapFill>>,
    ) -> Self {
        let (machine, conditions) = (Arc::new(Machine::read()), Arc::default());
        Self { config, machine, pods, dataplane, journal, nearly_full, conditions }
    }

    /// The node's object as JSON, for its registration.
    pub async fn node(&self) -> Vec<u8> {
        let node = node(&self.config, self.look().await);
        serde_json::to_vec(&node).unwrap_or_else(|error| {
            warn!(%error, "the node cannot be written as JSON");
            Vec::new()
        })
    }

    /// The node's status now.
    async fn look(&self) -> NodeStatus {
        let (runtime, problem) = self.runtime().await;
        let dataplane = self.dataplane.status();
        let nearly_full = self.nearly_full.borrow().clone();
        let health = Health {
            runtime: problem,
            dataplane: dataplane.problem,
            routes: dataplane.route_problem,
            nearly_full,
            registered: self.journal.read(Ipam::has_ranges).await,
            readings: Readings::read(&self.config.state_dir),
        };
        let conditions = self.conditions.lock().await.observe(&health, Timestamp::now());
        status(&self.config, &self.machine, &health.readings, &runtime, conditions)
    }

    /// The runtime's `name://version`, and why it cannot run pods.
    async fn runtime(&self) -> (String, Option<String>) {
        match tokio::time::timeout(RUNTIME_PATIENCE, self.pods.runtime()).await {
            Ok(Ok(info)) => {
                let problem = match (info.ready, info.network_ready) {
                    (true, true) => None,
                    (false, _) => Some(format!("container runtime is not ready: {}", info.message)),
                    (true, false) => Some(format!("container runtime has no network yet: {}", info.message)),
                };
                (format!("{}://{}", info.name, info.version), problem)
            }
            Ok(Err(problem)) => (String::new(), Some(problem.to_string())),
            Err(_elapsed) => (String::new(), Some("container runtime does not answer".to_owned())),
        }
    }

    /// Reports for ever: what changed at once, and everything now and then. `session` says when to report whatever the
    /// state: the node may have been written off meanwhile.
    pub async fn report(self, upstream: Upstream, session: Session) {
        session.registered().await;
        let mut reported: Option<(NodeStatus, Instant)> = None;
        loop {
            let mut status = self.look().await;
            if let (Some(info), Some((before, _))) = (&mut status.node_info, &reported)
                && info.container_runtime_version.is_empty()
                && let Some(before) = &before.node_info
            {
                // A runtime that is away still has the version that it had.
                info.container_runtime_version.clone_from(&before.container_runtime_version);
            }
            let wait = if is_ready(&status) { LOOK } else { LOOK_WHILE_NOT_READY };
            let due =
                reported.as_ref().is_none_or(|(before, at)| at.elapsed() >= HEARTBEAT || differs(before, &status));
            if due {
                reported = match self.send(&upstream, &session, &status).await {
                    Ok(()) => Some((status, Instant::now())),
                    Err(problem) => {
                        warn!(problem, "node status not reported");
                        None
                    }
                };
            }
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = session.reappeared() => {
                    info!("reporting the node's status again after a silence");
                    reported = None;
                }
            }
        }
    }

    async fn send(&self, upstream: &Upstream, session: &Session, status: &NodeStatus) -> Result<(), String> {
        let status = serde_json::to_vec(status).map_err(|error| error.to_string())?;
        let message = ReportNodeStatusRequest { name: upstream.node().to_owned(), status };
        match upstream.node_service().report_node_status(request(message)).await {
            Ok(_) => Ok(()),
            Err(status) => {
                if status.code() == tonic::Code::NotFound {
                    session.lost();
                }
                Err(status_text(&status))
            }
        }
    }
}

fn is_ready(status: &NodeStatus) -> bool {
    status.conditions.iter().flatten().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Whether anything but times has changed.
fn differs(before: &NodeStatus, now: &NodeStatus) -> bool {
    let strip = |status: &NodeStatus| {
        let mut status = status.clone();
        for condition in status.conditions.iter_mut().flatten() {
            condition.last_heartbeat_time = None;
        }
        status
    };
    strip(before) != strip(now)
}
