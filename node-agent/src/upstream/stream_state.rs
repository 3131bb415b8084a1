use std::sync::Mutex;

use serde::Serialize;

/// How far a stream is, for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StreamStatus {
    /// The control service answers at this moment.
    pub connected: bool,
    /// The state has been complete once since the agent started.
    pub synced: bool,
    /// The store revision up to which everything was handled.
    pub revision: u64,
    /// How often the stream was opened.
    pub opened: u64,
}

/// The [`StreamStatus`] of a stream, shared with those who show it.
#[derive(Debug, Default)]
pub struct StreamState(Mutex<StreamStatus>);

impl StreamState {
    /// How far the stream is.
    #[must_use]
    pub fn get(&self) -> StreamStatus {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(super) fn update(&self, change: impl FnOnce(&mut StreamStatus)) {
        change(&mut self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
    }
}
