//! Noticing what happens in the runtime: its events at once, and a list of everything now and then.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::exits;
use super::manager::Shared;
use super::reader::Lists;
use super::worker::Message;

/// Two list calls for the whole node, where ends of containers are found by listing.
const INTERVAL: Duration = Duration::from_secs(1);
/// And where the runtime tells of them.
const BACKSTOP: Duration = Duration::from_secs(5);
/// Every so often all pods hear what is there, changed or not.
const REPEAT: Duration = Duration::from_secs(60);
/// The runtime tells an exit before its own lists show it: how soon to look again, and how often.
const LISTS_LAG: Duration = Duration::from_millis(25);
const MAX_LOOKS: u32 = 30;

/// Runs until the pods are dropped.
pub(super) async fn run(shared: std::sync::Weak<Shared>, socket: std::path::PathBuf) {
    let (sender, mut exited) = mpsc::unbounded_channel();
    let connected = Arc::new(AtomicBool::new(false));
    let _exits = tokio::task::JoinSet::from_iter([exits::watch(socket, sender, Arc::clone(&connected))]);
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut known: HashMap<String, Vec<(String, i32)>> = HashMap::new();
    let mut awaited = Awaited::default();
    let mut repeated = Instant::now();
    let mut listed: Option<Instant> = None;
    let mut failing = false;
    loop {
        tokio::select! {
            _ = ticks.tick() => {
                let recent = listed.is_some_and(|listed| listed.elapsed() < BACKSTOP);
                if recent && connected.load(Ordering::Relaxed) {
                    continue;
                }
            }
            Some(id) = exited.recv() => awaited.add(id),
            () = tokio::time::sleep(awaited.delay()), if !awaited.ids.is_empty() => {}
        }
        while let Ok(id) = exited.try_recv() {
            awaited.add(id);
        }
        let Some(shared) = shared.upgrade() else { return };
        match shared.context.reader.list().await {
            Ok(lists) => {
                listed = Some(Instant::now());
                if failing {
                    tracing::info!("the container runtime answers again");
                }
                failing = false;
                awaited.look(&lists);
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

/// Containers that have ended and are still listed as running.
#[derive(Default)]
struct Awaited {
    ids: HashSet<String>,
    looks: u32,
}

impl Awaited {
    fn add(&mut self, id: String) {
        self.ids.insert(id);
        self.looks = 0;
    }

    fn delay(&self) -> Duration {
        LISTS_LAG * self.looks.clamp(1, 4)
    }

    fn look(&mut self, lists: &Lists) {
        self.ids.retain(|id| lists.is_running(id));
        self.looks += 1;
        if self.looks > MAX_LOOKS {
            // The list of every second finds it.
            self.ids.clear();
        }
    }
}

/// Tells the pods whose sandboxes or containers changed.
async fn tell(shared: &Arc<Shared>, lists: &Lists, known: &mut HashMap<String, Vec<(String, i32)>>, repeat: bool) {
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
