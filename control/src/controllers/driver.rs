//! The loop: changes and reports into the engine, its work out to tasks.

use std::time::Duration;

use jiff::Timestamp;
use skep_control_core::controllers::{Engine, Report, Ticket};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinError, JoinSet};

use super::execute::Executor;
use super::{feed, notes};
use crate::api::Api;

/// Most pieces of work under way at once.
const AT_ONCE: usize = 128;
/// Batches of changes that may wait for the driver.
const BATCHES: usize = 1024;

/// Runs until `shutdown` becomes true or its sender is gone. Writes under way are finished.
pub(super) async fn run(api: Api, mut engine: Engine, mut shutdown: watch::Receiver<bool>) {
    if let Err(status) = feed::check() {
        tracing::error!(error = %status.message, "a kind that the controllers need is not served");
        return;
    }
    let (changes_in, mut changes) = mpsc::channel(BATCHES);
    let mut support = JoinSet::new();
    support.spawn(feed::run(api.clone(), changes_in));
    let recorder = notes::spawn(api.clone(), &mut support);
    let executor = Executor::new(api, recorder);
    let mut work: JoinSet<(Ticket, Report)> = JoinSet::new();
    loop {
        // Whatever has come is taken in before anything is decided: decisions on the newest picture are the fewest.
        while let Ok(batch) = changes.try_recv() {
            apply(&mut engine, batch);
        }
        while let Some(done) = work.try_join_next() {
            finish(&mut engine, done);
        }
        while work.len() < AT_ONCE
            && let Some(next) = engine.next(Timestamp::now())
        {
            let executor = executor.clone();
            work.spawn(async move {
                let report = executor.execute(next.component, next.actions).await;
                (next.ticket, report)
            });
        }
        let timer = if work.len() < AT_ONCE { engine.deadline() } else { None };
        tokio::select! {
            ended = shutdown.wait_for(|over| *over) => {
                drop(ended);
                break;
            }
            Some(done) = work.join_next() => finish(&mut engine, done),
            Some(batch) = changes.recv() => apply(&mut engine, batch),
            () = until(timer) => engine.tick(Timestamp::now()),
        }
    }
    while work.join_next().await.is_some() {}
    support.shutdown().await;
}

fn apply(engine: &mut Engine, batch: feed::Batch) {
    let now = Timestamp::now();
    for change in batch {
        engine.apply(change, now);
    }
}

fn finish(engine: &mut Engine, done: Result<(Ticket, Report), JoinError>) {
    match done {
        Ok((ticket, report)) => engine.finish(ticket, report, Timestamp::now()),
        // Work does not panic by itself; the ticket is lost with it, and its key stays away.
        Err(error) => tracing::error!(%error, "a controller's work ended early"),
    }
}

async fn until(at: Option<Timestamp>) {
    match at {
        None => std::future::pending().await,
        Some(at) => {
            let wait = Duration::try_from(at.duration_since(Timestamp::now())).unwrap_or_default();
            // Rounded up to the timer's resolution, or the last millisecond would be spun away.
            tokio::time::sleep(wait + Duration::from_millis(1)).await;
        }
    }
}
