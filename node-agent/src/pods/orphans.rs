//! What is left of pods that nobody wants any more: found once the upstream has named all that it wants.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_cri::v1 as cri;
use skep_agent_core::pods::container::GRACE_PERIOD;
use skep_agent_core::pods::sandbox::POD_UID;
use tokio::task::JoinSet;

use super::context::Context;
use super::reader::Lists;
use super::runtime::RuntimeError;
use super::volumes;

const DEFAULT_GRACE: Duration = Duration::from_secs(30);

/// Stops and removes every pod of the runtime, and every directory, whose uid is not among the known ones. What fails is
/// tried again until it succeeds.
pub(super) async fn remove(context: Arc<Context>, known: HashSet<String>) {
    let mut pause = Duration::from_secs(1);
    loop {
        match remove_once(&context, &known).await {
            Ok(()) => return,
            Err(error) => tracing::warn!(error, "pods that nobody wants any more are still there"),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(60));
    }
}

async fn remove_once(context: &Arc<Context>, known: &HashSet<String>) -> Result<(), String> {
    let lists = context.reader.list().await.map_err(|error| error.to_string())?;
    let sandboxes = lists.sandboxes.iter().map(|sandbox| &sandbox.labels);
    let labels = sandboxes.chain(lists.containers.iter().map(|container| &container.labels));
    let mut uids: HashSet<String> = labels.filter_map(|labels| labels.get(POD_UID).cloned()).collect();
    uids.extend(directories(context).await?);
    let lists = Arc::new(lists);
    let mut tasks = JoinSet::new();
    for uid in uids.into_iter().filter(|uid| !known.contains(uid)) {
        tracing::info!(uid, "removing a pod that nobody wants any more");
        let (context, lists) = (Arc::clone(context), Arc::clone(&lists));
        tasks.spawn(async move { remove_pod(&context, &lists, &uid).await });
    }
    let results = tasks.join_all().await;
    results.into_iter().collect()
}

async fn remove_pod(context: &Arc<Context>, lists: &Lists, uid: &str) -> Result<(), String> {
    let text = |error: RuntimeError| error.to_string();
    let is_of_pod = |labels: &HashMap<String, String>| labels.get(POD_UID).is_some_and(|of| of == uid);
    let mut stops = JoinSet::new();
    let running = |container: &&cri::Container| container.state() == cri::ContainerState::ContainerRunning;
    for container in lists.containers.iter().filter(|container| is_of_pod(&container.labels)).filter(running) {
        let grace = container.annotations.get(GRACE_PERIOD).and_then(|seconds| seconds.parse().ok());
        let grace = grace.map_or(DEFAULT_GRACE, Duration::from_secs);
        let (runtime, id) = (context.runtime.clone(), container.id.clone());
        stops.spawn(async move { runtime.stop_container(&id, grace).await });
    }
    for result in stops.join_all().await {
        result.map_err(text)?;
    }
    for sandbox in lists.sandboxes.iter().filter(|sandbox| is_of_pod(&sandbox.labels)) {
        context.runtime.stop_sandbox(&sandbox.id).await.map_err(text)?;
        context.runtime.remove_sandbox(&sandbox.id).await.map_err(text)?;
    }
    // Those whose sandbox was removed by somebody else.
    let left = lists.containers.iter().filter(|container| is_of_pod(&container.labels));
    for container in left {
        context.runtime.remove_container(&container.id).await.map_err(text)?;
    }
    let (context, uid) = (Arc::clone(context), uid.to_owned());
    let removed = tokio::task::spawn_blocking(move || volumes::remove(&context.layout, &uid)).await;
    removed.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
}

/// Uids of the pods that the agent has files of.
async fn directories(context: &Context) -> Result<Vec<String>, String> {
    let mut entries = match tokio::fs::read_dir(&context.layout.pods).await {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error.to_string()),
    };
    let mut uids = Vec::new();
    while let Some(entry) = entries.next_entry().await.map_err(|error| error.to_string())? {
        uids.push(entry.file_name().to_string_lossy().into_owned());
    }
    Ok(uids)
}
