use std::io;
use std::thread;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use skep_abi::map;
use skep_dataplane::{Dataplane, Error, Swept};
use tokio::sync::watch;
use tracing::{info, warn};

/// Between two sweeps when there is little to do, and when there is much.
const SELDOM: Duration = Duration::from_secs(30);
const OFTEN: Duration = Duration::from_secs(1);

/// How full the maps are that kernel programs fill, as of the last sweep of each.
#[derive(Clone)]
pub struct SweptMaps {
    /// Connections of local pods.
    pub conntrack: watch::Receiver<Swept>,
    /// Translations at the uplink.
    pub nat: watch::Receiver<Swept>,
}

/// Removes what is over, on a thread for each map, until nobody wants to know how full it is any more.
///
/// # Errors
/// A map cannot be opened, or a thread not be started.
pub fn collect(dataplane: &Dataplane) -> Result<SweptMaps, CollectError> {
    let (mut conntrack, mut nat) = (dataplane.conntrack_sweeper()?, dataplane.nat_sweeper()?);
    Ok(SweptMaps {
        conntrack: keep_swept(map::CONNTRACK, move |now| conntrack.sweep(now))?,
        nat: keep_swept(map::NAT, move |now| nat.sweep(now))?,
    })
}

fn keep_swept(
    map: &'static str,
    mut sweep: impl FnMut(u64) -> Result<Swept, Error> + Send + 'static,
) -> Result<watch::Receiver<Swept>, CollectError> {
    let (result, results) = watch::channel(Swept::default());
    thread::Builder::new().name(map.to_owned()).spawn(move || {
        let mut wait = OFTEN;
        let mut working = true;
        while !result.is_closed() {
            thread::sleep(wait);
            let now = boot_time().map_err(|error| error.to_string());
            match now.and_then(|now| sweep(now).map_err(|error| error.to_string())) {
                Ok(swept) => {
                    if !working {
                        info!(map, "entries that are over are removed again");
                    }
                    working = true;
                    wait = next_wait(&swept, wait);
                    result.send_replace(swept);
                }
                Err(problem) => {
                    if working {
                        warn!(map, problem, "entries that are over are not removed");
                    }
                    working = false;
                    wait = SELDOM;
                }
            }
        }
    })?;
    Ok(results)
}

/// Why entries are not collected.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    /// The map.
    #[error(transparent)]
    Map(#[from] Error),
    /// The thread.
    #[error("start a thread: {0}")]
    Thread(#[from] io::Error),
}

/// Half as long when a sweep removed a good part of the entries, or the map fills up; twice as long when it removed next to
/// nothing.
fn next_wait(swept: &Swept, wait: Duration) -> Duration {
    let full = swept.entries > swept.capacity / 2;
    let all = swept.entries + swept.removed;
    let wait = if full || (swept.removed > 64 && swept.removed > all / 8) {
        wait / 2
    } else if swept.removed <= all / 64 {
        wait * 2
    } else {
        wait
    };
    wait.clamp(OFTEN, SELDOM)
}

/// Nanoseconds of the clock that expiry counts in.
fn boot_time() -> nix::Result<u64> {
    let time = clock_gettime(ClockId::CLOCK_BOOTTIME)?;
    Ok(time.tv_sec().unsigned_abs() * 1_000_000_000 + time.tv_nsec().unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweeps_come_as_often_as_they_pay() {
        let swept = |entries, removed| Swept { entries, removed, capacity: 1000 };
        let second = Duration::from_secs;
        assert_eq!(next_wait(&swept(100, 100), second(8)), second(4));
        assert_eq!(next_wait(&swept(100, 5), second(8)), second(8));
        assert_eq!(next_wait(&swept(100, 1), second(8)), second(16));
        assert_eq!(next_wait(&swept(0, 0), second(20)), SELDOM);
        assert_eq!(next_wait(&swept(600, 0), second(1)), OFTEN);
    }
}
