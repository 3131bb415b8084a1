//! Records Events beside the work: a slow or refused Event holds nothing up.

use jiff::Timestamp;
use skep_control_core::controllers::{Note, Recorder, Write};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::execute;
use crate::api::{Api, Status};

/// Notes that may wait; more are dropped, as Events are a help and no record.
const WAITING: usize = 4096;
/// Events that are written at once, so that they share commits of the store.
const AT_ONCE: usize = 32;

/// A note of a component at a time.
#[derive(Clone, Debug)]
struct Entry {
    component: &'static str,
    note: Note,
    at: Timestamp,
}

/// Takes notes.
#[derive(Clone, Debug)]
pub(super) struct Notebook {
    entries: mpsc::Sender<Entry>,
}

impl Notebook {
    /// Records an Event from a component.
    pub(super) fn record(&self, component: &'static str, note: Note) {
        if self.entries.try_send(Entry { component, note, at: Timestamp::now() }).is_err() {
            tracing::debug!(component, "an Event was dropped: too many wait");
        }
    }
}

/// Starts the writer of Events.
pub(super) fn spawn(api: Api, tasks: &mut JoinSet<()>) -> Notebook {
    let (sender, entries) = mpsc::channel(WAITING);
    tasks.spawn(write(api, entries));
    Notebook { entries: sender }
}

async fn write(api: Api, mut entries: mpsc::Receiver<Entry>) {
    let mut recorder = Recorder::default();
    let mut writes: JoinSet<(Entry, Write, Result<u64, Status>)> = JoinSet::new();
    loop {
        let entry = tokio::select! {
            Some(done) = writes.join_next() => match done {
                Ok((entry, write, Err(status))) => {
                    if let Some(event) = write.target() {
                        recorder.forget(&event);
                    }
                    if !(matches!(write, Write::Patch { .. }) && status.is_not_found()) {
                        let (component, reason) = (entry.component, entry.note.reason);
                        tracing::debug!(component, reason, error = %status.message, "an Event was not recorded");
                        continue;
                    }
                    // The Event that was to be counted up has expired: a new one begins.
                    entry
                }
                Ok((_, _, Ok(_))) => continue,
                Err(error) => {
                    tracing::error!(%error, "an Event's write ended early");
                    continue;
                }
            },
            entry = entries.recv(), if writes.len() < AT_ONCE => match entry {
                Some(entry) => entry,
                None => return,
            },
        };
        let event = recorder.record(entry.component, &entry.note, entry.at);
        let api = api.clone();
        writes.spawn(async move {
            let result = execute::write(&api, entry.component, event.clone()).await;
            (entry, event, result)
        });
    }
}
