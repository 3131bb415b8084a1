//! A store that lives as long as its process.

use std::sync::Arc;

use crate::disk::Nowhere;
use crate::error::Error;
use crate::history::History;
use crate::local::{Local, store};
use crate::options::Options;
use crate::state::State;

/// A store in memory: everything but durability. Clones are handles of the same store.
#[derive(Clone, Debug)]
pub struct MemoryStore(Arc<Local>);

impl MemoryStore {
    /// An empty store.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the system gives no thread.
    pub fn new(options: Options) -> Result<Self, Error> {
        let state = State::default();
        let history = History::new(state.revision);
        Local::start(state, history, Box::new(Nowhere), options).map(Arc::new).map(Self)
    }
}

store!(MemoryStore);
