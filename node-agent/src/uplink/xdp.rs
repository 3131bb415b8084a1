use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use skep_dataplane::{Dataplane, Error, XdpState};
use tokio::sync::watch;
use tracing::{info, warn};

/// How long the uplink's driver may lose packets after it has ceased to be able.
const INTERVAL: Duration = Duration::from_secs(5);

/// Whether packets are sent on at the uplink's driver, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct XdpStatus {
    /// `on`, `off` or `unavailable`.
    pub state: &'static str,
    /// Why it is unavailable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl From<&XdpState> for XdpStatus {
    fn from(state: &XdpState) -> Self {
        match state {
            XdpState::Off => Self { state: "off", reason: None },
            XdpState::On => Self { state: "on", reason: None },
            XdpState::Unavailable(reason) => Self { state: "unavailable", reason: Some(reason.clone()) },
        }
    }
}

/// Has the XDP program on the uplink as long as the driver is able, until nobody wants to know of it any more.
///
/// # Errors
/// As [`Dataplane::settle_xdp`].
pub fn keep_xdp(dataplane: Arc<Dataplane>) -> Result<watch::Receiver<XdpState>, Error> {
    let first = dataplane.settle_xdp()?;
    log(&first);
    let (state, states) = watch::channel(first.clone());
    if first != XdpState::Off {
        tokio::spawn(keep(dataplane, state));
    }
    Ok(states)
}

async fn keep(dataplane: Arc<Dataplane>, state: watch::Sender<XdpState>) {
    while !state.is_closed() {
        tokio::time::sleep(INTERVAL).await;
        let own = Arc::clone(&dataplane);
        let settled = match tokio::task::spawn_blocking(move || own.settle_xdp()).await {
            Ok(Ok(settled)) => settled,
            Ok(Err(problem)) => XdpState::Unavailable(problem.to_string()),
            Err(problem) => XdpState::Unavailable(problem.to_string()),
        };
        state.send_if_modified(|known| {
            let news = *known != settled;
            if news {
                log(&settled);
                *known = settled;
            }
            news
        });
    }
}

fn log(state: &XdpState) {
    match state {
        XdpState::Off => {}
        XdpState::On => info!("packets that pass through are sent on at the uplink's driver"),
        XdpState::Unavailable(reason) => warn!(reason, "no XDP: packets that pass through are sent on by tc"),
    }
}
