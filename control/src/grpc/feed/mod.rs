//! One watch of the store for all streams of all nodes.
//!
//! ```text
//!   list at an early revision, replay up to now --> ready --> follow
//!        ^                                                       | fell behind, or the store failed
//!        +------------------- a new epoch -----------------------+   (streams end and begin again)
//! ```
//!
//! The replay lets a node resume across a restart of this service.

mod boards;
mod journal;
mod placement;
mod reference;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use skep_control_core::api::Status as ApiStatus;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tonic::Status;

use crate::api::{Api, At, ListOptions, Object, WatchItem};

pub(super) use boards::{Boards, Touched};
use journal::Moment;
pub(super) use journal::{Position, View, body};
pub(super) use placement::Sent;
pub(super) use reference::ObjectName;

/// Revisions before the present from which a node can resume when this service has just started. Half of what the store
/// retains at least, so that a compaction during the replay does not cut it off.
const REPLAY: u64 = 5_000;
/// Pause before a feed that failed begins again.
const PAUSE: Duration = Duration::from_millis(200);

/// What has happened, for a stream that waits: a number that grows with each change.
type Signal = watch::Sender<u64>;

/// Where the feed is.
#[derive(Debug)]
enum Phase {
    /// The first replay is not done.
    Starting,
    /// The boards are brought forward; the number is their epoch's.
    Following(u64, Box<Boards>),
    /// The service ends.
    Over,
}

/// What streams and the task share.
#[derive(Debug)]
struct Shared {
    api: Api,
    phase: RwLock<Phase>,
    dataplane: Signal,
    nodes: Mutex<HashMap<String, Signal>>,
}

/// The feed; its task ends with it.
#[derive(Debug)]
pub(super) struct Feed {
    shared: Arc<Shared>,
    task: AbortHandle,
}

/// Why a stream cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Interrupted {
    /// The boards are not there yet, or are of another epoch.
    Again,
    /// The service ends.
    Over,
}

impl From<Interrupted> for Status {
    fn from(interrupted: Interrupted) -> Self {
        match interrupted {
            Interrupted::Again => Self::aborted("the service begins again; please ask again"),
            Interrupted::Over => Self::unavailable("the service is shutting down"),
        }
    }
}

impl Feed {
    /// Starts the task. It ends, and streams with it, when `shutdown` becomes true.
    pub(super) fn start(api: Api, shutdown: Option<watch::Receiver<bool>>) -> Self {
        let (phase, nodes) = (RwLock::new(Phase::Starting), Mutex::new(HashMap::new()));
        let shared = Arc::new(Shared { api, phase, dataplane: Signal::new(0), nodes });
        let task = tokio::spawn(Arc::clone(&shared).run_until(shutdown)).abort_handle();
        Self { shared, task }
    }

    /// Signals of every change of the dataplane, and of every new epoch.
    pub(super) fn dataplane_changes(&self) -> watch::Receiver<u64> {
        self.shared.dataplane.subscribe()
    }

    /// Signals of every change of what a node must know, and of every new epoch.
    pub(super) fn node_changes(&self, node: &str) -> watch::Receiver<u64> {
        let mut nodes = self.shared.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        // Signals that nobody waits for any more go when somebody asks for another.
        nodes.retain(|name, signal| name == node || signal.receiver_count() > 0);
        nodes.entry(node.to_owned()).or_insert_with(|| Signal::new(0)).subscribe()
    }

    /// Reads the boards of an epoch, or of the present one if `epoch` is `None`. Gives the epoch with the result.
    pub(super) fn read<R>(&self, epoch: Option<u64>, read: impl FnOnce(&Boards) -> R) -> Result<(u64, R), Interrupted> {
        match &*self.shared.phase.read().unwrap_or_else(PoisonError::into_inner) {
            Phase::Following(now, boards) if epoch.is_none_or(|epoch| epoch == *now) => Ok((*now, read(boards))),
            Phase::Over => Err(Interrupted::Over),
            Phase::Starting | Phase::Following(..) => Err(Interrupted::Again),
        }
    }

    /// Reads the boards as soon as they are there. `changes` must give a signal of every new epoch.
    pub(super) async fn begin<R>(
        &self,
        changes: &mut watch::Receiver<u64>,
        read: impl Fn(&Boards) -> R,
    ) -> Result<(u64, R), Interrupted> {
        loop {
            match self.read(None, &read) {
                // The signal goes with the feed, which is here.
                Err(Interrupted::Again) => changes.changed().await.map_err(|_| Interrupted::Over)?,
                other => return other,
            }
        }
    }

    /// The newest revision of the store.
    pub(super) fn store_revision(&self) -> u64 {
        self.shared.api.revision()
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    async fn run_until(self: Arc<Self>, shutdown: Option<watch::Receiver<bool>>) {
        let over = async {
            match shutdown {
                // Whether it becomes true or its sender is gone, it is over.
                Some(mut shutdown) => drop(shutdown.wait_for(|over| *over).await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.run() => {}
            () = over => {}
        }
        self.enter(Phase::Over);
    }

    async fn run(&self) {
        for epoch in 1.. {
            let Err(error) = self.follow(epoch).await;
            tracing::warn!(%error, "the feed of nodes begins again");
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Follows the store until that fails.
    async fn follow(&self, epoch: u64) -> Result<std::convert::Infallible, ApiStatus> {
        let store = self.api.store();
        let start = store.oldest_revision().max(self.api.revision().saturating_sub(REPLAY));
        let mut boards = Boards::new(start);
        for resource in boards::RESOURCES {
            let options = ListOptions { at: At::Exactly(start), ..ListOptions::default() };
            for object in &self.api.list(resource, "", &options).await?.items {
                boards.set(Moment::past(object.revision), object, None, true);
            }
        }
        let mut watch = self.api.watch_all(start).await?;
        // The first progress says that the present is reached.
        loop {
            match watch.next().await? {
                // When they happened is not known any more.
                WatchItem::Events(revision, events) => drop(boards.apply(Moment::past(revision), &events)),
                WatchItem::Progress(revision) => break boards.advance(revision),
            }
        }
        self.enter(Phase::Following(epoch, Box::new(boards)));
        loop {
            match watch.next().await? {
                WatchItem::Events(revision, events) => {
                    let at = Moment { revision, time: unix_nanos() };
                    let touched = self.change(|boards| boards.apply(at, &events));
                    self.signal(&touched);
                }
                WatchItem::Progress(revision) => self.change(|boards| boards.advance(revision)),
            }
        }
    }

    fn enter(&self, phase: Phase) {
        *self.phase.write().unwrap_or_else(PoisonError::into_inner) = phase;
        self.signal_all();
    }

    fn change<R: Default>(&self, change: impl FnOnce(&mut Boards) -> R) -> R {
        match &mut *self.phase.write().unwrap_or_else(PoisonError::into_inner) {
            Phase::Following(_, boards) => change(boards),
            Phase::Starting | Phase::Over => R::default(),
        }
    }

    fn signal(&self, touched: &Touched) {
        if touched.dataplane {
            self.dataplane.send_modify(|count| *count += 1);
        }
        if !touched.nodes.is_empty() {
            let nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
            for signal in touched.nodes.iter().filter_map(|node| nodes.get(node)) {
                signal.send_modify(|count| *count += 1);
            }
        }
    }

    fn signal_all(&self) {
        self.dataplane.send_modify(|count| *count += 1);
        for signal in self.nodes.lock().unwrap_or_else(PoisonError::into_inner).values() {
            signal.send_modify(|count| *count += 1);
        }
    }
}

/// Nanoseconds after the Unix epoch; 0 with a clock that is before it.
fn unix_nanos() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or_default()
}

/// The uid of an object, without parsing the rest of it into anything.
fn uid(object: &Object) -> String {
    #[derive(serde::Deserialize)]
    struct Uid {
        metadata: Metadata,
    }
    #[derive(serde::Deserialize)]
    struct Metadata {
        uid: String,
    }
    object.decode::<Uid>().map(|object| object.metadata.uid).unwrap_or_default()
}
