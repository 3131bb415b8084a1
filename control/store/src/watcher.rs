//! One watcher: a position in the shared history.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::error::Error;
use crate::model::{Revision, WatchBatch};
use crate::published::{Group, Published, Step};
use crate::store::Watch;

/// Events of a range, read from the store's history. See [`Watch`].
#[derive(Debug)]
pub struct Watcher {
    published: Arc<Published>,
    group: Arc<Group>,
    /// Everything up to this revision was looked at and delivered.
    position: Revision,
    /// Revision of the last batch, `None` before the first time that the present was reached.
    announced: Option<Revision>,
    interval: Duration,
    next_progress: Instant,
}

impl Watcher {
    pub(crate) fn new(published: Arc<Published>, group: Arc<Group>, after: Revision, interval: Duration) -> Self {
        Self { published, group, position: after, announced: None, interval, next_progress: Instant::now() }
    }

    /// The next batch that is there without waiting.
    fn poll(&mut self) -> Result<Option<WatchBatch>, Error> {
        loop {
            match self.published.step(&self.group, self.position)? {
                Step::Events(record) => {
                    self.position = record.revision;
                    if let Some(announced) = &mut self.announced {
                        *announced = record.revision;
                    }
                    return Ok(Some(WatchBatch::Events(record.revision, record.events(&self.group.range))));
                }
                Step::Nothing(revision, newest) => {
                    self.position = revision;
                    if newest {
                        return Ok(self.progress());
                    }
                }
            }
        }
    }

    fn progress(&mut self) -> Option<WatchBatch> {
        let now = Instant::now();
        if self.announced.is_some() {
            if now < self.next_progress {
                return None;
            }
            self.next_progress = now + self.interval;
            if self.announced == Some(self.position) {
                return None;
            }
        }
        self.next_progress = now + self.interval;
        self.announced = Some(self.position);
        Some(WatchBatch::Progress(self.position))
    }
}

impl Watch for Watcher {
    async fn next(&mut self) -> Result<WatchBatch, Error> {
        loop {
            let group = Arc::clone(&self.group);
            let changed = group.changed.notified();
            let mut changed = std::pin::pin!(changed);
            // Registered before looking, so that a change in between wakes.
            changed.as_mut().enable();
            if let Some(batch) = self.poll()? {
                return Ok(batch);
            }
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep_until(self.next_progress) => {}
            }
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.published.leave(&self.group);
    }
}
