//! What the tests of the agent stand on: key material, and the control service's side of the wire.
#![allow(dead_code, missing_docs, unreachable_pub, reason = "each test uses a part, and nothing is public")]

pub mod peer;
pub mod pki;

use std::time::{Duration, Instant};

/// How long anything that must happen may take.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until `check` gives something; panics with `what` when it does not for [`PATIENCE`].
pub async fn eventually<T>(what: &str, mut check: impl AsyncFnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(value) = check().await {
            return value;
        }
        assert!(started.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
