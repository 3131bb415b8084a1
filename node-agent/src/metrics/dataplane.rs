use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use skep_abi::Direction;
use tracing::warn;

use super::rows;
use crate::dataplane::{Dataplane, Occupancy};

/// Where the dataplane's metrics are read.
pub struct DataplaneSources {
    /// The driver.
    pub dataplane: Dataplane,
    /// Maps that programs count in.
    pub programs: Arc<skep_dataplane::Dataplane>,
    /// How full the maps are.
    pub occupancy: Occupancy,
}

impl fmt::Debug for DataplaneSources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataplaneSources").finish_non_exhaustive()
    }
}

impl Collector for DataplaneSources {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        let status = self.dataplane.status();
        let waiting = self.dataplane.queue_depth() as u64;
        rows::gauge(encoder, "dataplane_queue_depth", "Changes that wait to be brought to the maps", waiting)?;
        rows::counter(encoder, "map_writes", "Map writes that were done", status.writes)?;
        rows::counter(encoder, "map_write_failures", "Map writes that failed", status.failed_writes)?;
        let fills = self.occupancy.fills();
        let entries = fills.iter().map(|fill| ([("map", fill.map)], fill.entries));
        rows::gauges(encoder, "map_entries", "Entries of a map; of conntrack those that are not over", entries)?;
        let capacities = fills.iter().map(|fill| ([("map", fill.map)], fill.capacity));
        rows::gauges(encoder, "map_capacity", "Entries that a map has room for", capacities)?;
        self.drops(encoder)?;
        self.counters(encoder)
    }
}

impl DataplaneSources {
    fn drops(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let totals = match self.programs.maps().drops.totals() {
            Ok(totals) => totals,
            Err(problem) => {
                warn!(%problem, "dropped packets are missing from the metrics");
                return Ok(());
            }
        };
        let labels = |total: &skep_dataplane::DropTotal| {
            let direction = match total.direction {
                Direction::Ingress => "ingress",
                Direction::Egress => "egress",
            };
            [("reason", total.reason.name()), ("direction", direction)]
        };
        let packets = totals.iter().map(|total| (labels(total), total.packets));
        rows::counters(
            encoder,
            "dropped_packets",
            "Packets that were dropped or refused, as the pod sees them",
            packets,
        )?;
        let bytes = totals.iter().map(|total| (labels(total), total.bytes));
        rows::counters(encoder, "dropped_bytes", "Bytes of packets that were dropped or refused", bytes)
    }

    fn counters(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let totals = match self.programs.maps().counters.totals() {
            Ok(totals) => totals,
            Err(problem) => {
                warn!(%problem, "the programs' counters are missing from the metrics");
                return Ok(());
            }
        };
        for (counter, total) in totals {
            let name = counter.name();
            let help = format!("Counted by the kernel programs: {}", name.replace('_', " "));
            rows::counter(encoder, &format!("dataplane_{name}"), &help, total)?;
        }
        Ok(())
    }
}
