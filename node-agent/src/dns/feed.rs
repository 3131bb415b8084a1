use std::sync::{Arc, PoisonError, RwLock};

use skep_agent_core::dns::{Change, Zone};
use skep_proto::dataplane::v1::WatchEvent;
use tracing::error;

/// The zone, as it is filled by one and read by many.
#[derive(Clone, Debug, Default)]
pub struct SharedZone(Arc<RwLock<Zone>>);

impl SharedZone {
    /// Looks something up.
    pub fn read<T>(&self, look: impl FnOnce(&Zone) -> T) -> T {
        look(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write(&self, change: impl FnOnce(&mut Zone)) {
        change(&mut self.0.write().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Changes that are applied under one lock: questions wait as long as these take.
const AT_ONCE: usize = 64;

/// Takes the dataplane's events with it to the zone, when the maps are written.
#[derive(Debug)]
pub struct Feed {
    zone: SharedZone,
    waiting: Vec<Step>,
}

#[derive(Debug)]
enum Step {
    Begin,
    Change(u64, Change),
}

impl Feed {
    /// Fills `zone`.
    #[must_use]
    pub fn new(zone: SharedZone) -> Self {
        Self { zone, waiting: Vec::new() }
    }

    /// The stream was opened (again).
    pub fn begin_stream(&mut self) {
        self.waiting.push(Step::Begin);
    }

    /// Notes an event.
    pub fn take(&mut self, event: &WatchEvent) {
        let change = Change::read(event).unwrap_or_else(|refused| {
            error!(problem = %refused, "object has no names");
            Some(refused.change())
        });
        self.waiting.extend(change.map(|change| Step::Change(event.revision, change)));
    }

    /// Makes what was noted visible: to be called right after the maps were written.
    pub fn publish(&mut self) {
        let mut steps = self.waiting.drain(..).peekable();
        while steps.peek().is_some() {
            self.zone.write(|zone| {
                for step in steps.by_ref().take(AT_ONCE) {
                    match step {
                        Step::Begin => zone.begin_stream(),
                        Step::Change(revision, change) => zone.apply(revision, change),
                    }
                }
            });
        }
    }
}
