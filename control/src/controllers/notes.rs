//! Records Events beside the work: a slow or refused Event holds nothing up.

use jiff::Timestamp;
use skep_control_core::controllers::{Note, Recorder, Write};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::execute;
use crate::api::Api;

/// Notes that may wait; more are dropped, as Events are a help and no record.
const WAITING: usize = 4096;

/// Takes notes.
#[derive(Clone, Debug)]
pub(super) struct Notebook {
    notes: mpsc::Sender<(&'static str, Note, Timestamp)>,
}

impl Notebook {
    /// Records an Event from a component.
    pub(super) fn record(&self, component: &'static str, note: Note) {
        if self.notes.try_send((component, note, Timestamp::now())).is_err() {
            tracing::debug!(component, "an Event was dropped: too many wait");
        }
    }
}

/// Starts the writer of Events.
pub(super) fn spawn(api: Api, tasks: &mut JoinSet<()>) -> Notebook {
    let (sender, mut notes) = mpsc::channel::<(&'static str, Note, Timestamp)>(WAITING);
    tasks.spawn(async move {
        let mut recorder = Recorder::default();
        while let Some((component, note, now)) = notes.recv().await {
            let write = recorder.record(component, &note, now);
            let target = write.target();
            let counted = matches!(write, Write::Patch { .. });
            let mut result = execute::write(&api, component, write).await;
            if let (Err(status), Some(target), true) = (&result, &target, counted)
                && status.is_not_found()
            {
                recorder.forget(target);
                result = execute::write(&api, component, recorder.record(component, &note, now)).await;
            }
            if let Err(status) = result {
                if let Some(target) = &target {
                    recorder.forget(target);
                }
                tracing::debug!(component, reason = note.reason, error = %status.message, "an Event was not recorded");
            }
        }
    });
    Notebook { notes: sender }
}
