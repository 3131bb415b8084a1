use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use skep_cni::{MISSED_DELETES, Request};
use tracing::{debug, warn};

use super::Endpoints;
use super::endpoints::exists;
use crate::pods::Pods;

/// How often leaks are looked for.
const PERIOD: Duration = Duration::from_secs(60);
/// A runtime that makes a sandbox asks for its network some time before it lists it; no sandbox takes longer than this.
const GRACE_SECONDS: i64 = 600;

/// Carries out the DELs that plugins wrote down while no agent was there.
///
/// # Errors
/// The directory cannot be read.
pub async fn collect_missed_deletes(endpoints: &Endpoints, state_dir: &Path) -> io::Result<()> {
    let dir = state_dir.join(MISSED_DELETES);
    let mut entries = match tokio::fs::read_dir(&dir).await {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    while let Some(entry) = entries.next_entry().await? {
        let path = entry.path();
        if entry.file_name().to_string_lossy().starts_with('.') {
            // Being written.
            continue;
        }
        match serde_json::from_slice::<Request>(&tokio::fs::read(&path).await?) {
            Ok(request) => endpoints.remove(&request.container).await,
            Err(problem) => warn!(path = %path.display(), %problem, "unreadable note of a removed sandbox"),
        }
        tokio::fs::remove_file(&path).await?;
    }
    Ok(())
}

/// Gives back, for ever, the addresses of sandboxes that are gone without a DEL.
pub async fn keep_clean(endpoints: Endpoints, pods: Pods, state_dir: std::path::PathBuf) {
    loop {
        if let Err(problem) = collect_missed_deletes(&endpoints, &state_dir).await {
            warn!(%problem, "notes of removed sandboxes");
        }
        match pods.sandboxes().await {
            Ok(sandboxes) => {
                let live: BTreeSet<String> = sandboxes.into_iter().map(|sandbox| sandbox.id).collect();
                let leaked =
                    endpoints.journal().read(|ipam| ipam.leaked(&live, exists, Timestamp::now(), GRACE_SECONDS)).await;
                for container in leaked {
                    endpoints.remove(&container).await;
                }
            }
            // Without the runtime's word nothing is a leak.
            Err(problem) => debug!(%problem, "sandboxes not listed"),
        }
        tokio::time::sleep(PERIOD).await;
    }
}
