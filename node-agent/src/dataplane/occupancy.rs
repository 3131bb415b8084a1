use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use skep_abi::map;
use skep_agent_core::dataplane::{MapFill, Pressure, Turn, can_run_full};
use skep_dataplane::{Census, Error};
use tokio::sync::watch;
use tracing::{info, warn};

use super::{Dataplane, SweptMaps};

/// How often the maps that programs fill are counted.
const COUNT: Duration = Duration::from_secs(30);
/// How often it is looked whether a map is nearly full, at most: the driver's entries change all the time.
const LOOK: Duration = Duration::from_millis(500);

type Counts = Vec<(&'static str, usize)>;

/// How full the maps are, as whoever fills, sweeps or counts each of them knows it.
#[derive(Clone)]
pub struct Occupancy {
    dataplane: Dataplane,
    swept: SweptMaps,
    counted: watch::Receiver<Counts>,
    capacities: Arc<BTreeMap<&'static str, u32>>,
}

impl Occupancy {
    /// Begins to count. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// A map cannot be read.
    pub fn start(programs: &skep_dataplane::Dataplane, dataplane: Dataplane, swept: SweptMaps) -> Result<Self, Error> {
        let capacities = programs.maps().capacities()?.into_iter().map(|map| (map.name, map.capacity)).collect();
        let (sender, counted) = watch::channel(Counts::default());
        tokio::spawn(count(programs.census(), sender));
        Ok(Self { dataplane, swept, counted, capacities: Arc::new(capacities) })
    }

    /// How full each map is whose entries come and go. Cheap: nothing is counted for it.
    #[must_use]
    pub fn fills(&self) -> Vec<MapFill> {
        let own = self.dataplane.status().map_entries;
        let swept = [(map::CONNTRACK, &self.swept.conntrack), (map::NAT, &self.swept.nat)];
        let swept = swept.map(|(name, last)| (name, last.borrow().entries));
        let counted = self.counted.borrow().clone();
        let all = own.into_iter().chain(swept).chain(counted);
        all.filter_map(|(map, entries)| {
            let capacity = u64::from(*self.capacities.get(map)?);
            Some(MapFill { map, entries: entries as u64, capacity })
        })
        .collect()
    }

    /// The maps that are nearly full and for which that is a danger, whenever that changes. It is logged, too. Must be called
    /// inside a tokio runtime.
    #[must_use]
    pub fn watch_pressure(&self) -> watch::Receiver<Vec<MapFill>> {
        let (sender, receiver) = watch::channel(Vec::new());
        tokio::spawn(self.clone().follow(sender));
        receiver
    }

    async fn follow(self, nearly_full: watch::Sender<Vec<MapFill>>) {
        let mut pressure = Pressure::default();
        let (mut status, mut counted) = (self.dataplane.watch_status(), self.counted.clone());
        let SweptMaps { mut conntrack, mut nat } = self.swept.clone();
        loop {
            let mut fills = self.fills();
            fills.retain(|fill| can_run_full(fill.map));
            for turn in pressure.observe(&fills) {
                match turn {
                    Turn::NearlyFull(fill) => warn!("nearly full: {}", fill.text()),
                    Turn::Relieved(fill) => info!("not nearly full any more: {}", fill.text()),
                }
            }
            nearly_full.send_if_modified(|known| {
                let now = pressure.nearly_full();
                let changed = *known != now;
                *known = now;
                changed
            });
            let changed = tokio::select! {
                changed = status.changed() => changed,
                changed = conntrack.changed() => changed,
                changed = nat.changed() => changed,
                changed = counted.changed() => changed,
            };
            if changed.is_err() {
                return;
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// Counts now and then, until nobody wants to know.
async fn count(census: Census, counts: watch::Sender<Counts>) {
    let census = Arc::new(census);
    while !counts.is_closed() {
        let now = Arc::clone(&census);
        match tokio::task::spawn_blocking(move || now.count()).await {
            Ok(Ok(counted)) => drop(counts.send_replace(counted)),
            Ok(Err(problem)) => warn!(%problem, "entries of maps are not counted"),
            Err(problem) => warn!(%problem, "entries of maps are not counted"),
        }
        tokio::time::sleep(COUNT).await;
    }
}
