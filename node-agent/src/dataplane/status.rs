use std::time::Duration;

use serde::Serialize;
use skep_agent_core::dataplane::MapCounts;

/// What the dataplane has done, for people and for the node's conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DataplaneStatus {
    /// The state has been complete once since the agent started.
    pub synced: bool,
    /// Local pods.
    pub endpoints: usize,
    /// Entries that the agent wants in the maps.
    pub entries: usize,
    /// The same for each map.
    #[serde(skip)]
    pub map_entries: MapCounts,
    /// Map writes since the agent started.
    pub writes: u64,
    /// Map writes that failed since the agent started.
    pub failed_writes: u64,
    /// From the arrival of the last change that led to map writes to the last of these, microseconds.
    pub last_programming_micros: u64,
    /// Why the maps are not what they should be; absent when they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Why routes to other nodes are not what they should be; absent when they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route_problem: Option<String>,
}

impl DataplaneStatus {
    /// Notes how long the last change took.
    pub(super) fn programmed(&mut self, took: Duration) {
        self.last_programming_micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
    }
}
