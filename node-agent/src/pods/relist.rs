//! Noticing what happens in the runtime: its events at once, and a list of everything now and then.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::exits;
use super::manager::Shared;
use super::reader::Lists;
use super::runtime::RuntimeError;
use super::worker::Message;

/// Two list calls for the whole node.
const INTERVAL: Duration = Duration::from_secs(1);
/// Every so often all pods hear what is there, changed or not.
const REPEAT: Duration = Duration::from_secs(60);
/// The runtime tells an exit before its own lists show it.
const LISTS_LAG: Duration = Duration::from_millis(25);
const MAX_LAGS: u32 = 40;

/// Runs until the pods are dropped.
pub(super) async fn run(shared: std::sync::Weak<Shared>, socket: std::path::PathBuf) {
    let (sender, mut exited) = mpsc::unbounded_channel();
    let _exits = tokio::task::JoinSet::from_iter([exits::watch(socket, sender)]);
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut known: HashMap<String, Vec<(String, i32)>> = HashMap::new();
    let mut repeated = Instant::now();
    let mut failing = false;
    loop {
        let mut ids = HashSet::new();
        tokio::select! {
            _ = ticks.tick() => {}
            Some(id) = exited.recv() => {
                ids.insert(id);
            }
        }
        while let Ok(id) = exited.try_recv() {
            ids.insert(id);
        }
        let Some(shared) = shared.upgrade() else { return };
        match list(&shared, &ids).await {
            Ok(lists) => {
                if failing {
                    tracing::info!("the container runtime answers again");
                }
                failing = false;
                let repeat = repeated.elapsed() >= REPEAT;
                if repeat {
                    repeated = Instant::now();
                }
                tell(&shared, &lists, &mut known, repeat).await;
            }
            Err(error) => {
                if !failing {
                    tracing::warn!(%error, "the container runtime does not answer");
                }
                failing = true;
            }
        }
    }
}

/// Lists until none of the exited ones is listed as running.
async fn list(shared: &Arc<Shared>, exited: &HashSet<String>) -> Result<Lists, RuntimeError> {
    let mut lags = 0;
    loop {
        let lists = shared.context.reader.list().await?;
        if lags == MAX_LAGS || !exited.iter().any(|id| lists.is_running(id)) {
            return Ok(lists);
        }
        lags += 1;
        tokio::time::sleep(LISTS_LAG).await;
    }
}

/// Tells the pods whose sandboxes or containers changed.
async fn tell(
    shared: &Arc<Shared>,
    lists: &Lists,
    known: &mut HashMap<String, Vec<(String, i32)>>,
    repeat: bool,
) {
    let current = lists.fingerprints();
    for (uid, inbox) in shared.inboxes() {
        if !repeat && known.get(&uid) == current.get(&uid) {
            continue;
        }
        match shared.context.reader.complete(&uid, lists).await {
            // A worker that has just ended hears nothing any more.
            Ok(snapshot) => drop(inbox.send(Message::Observed(snapshot))),
            Err(error) => {
                tracing::warn!(uid, %error, "cannot see what the runtime holds of a pod");
                // It is told with the next list.
                known.remove(&uid);
                continue;
            }
        }
        match current.get(&uid) {
            Some(states) => known.insert(uid, states.clone()),
            None => known.remove(&uid),
        };
    }
    known.retain(|uid, _| current.contains_key(uid));
}
