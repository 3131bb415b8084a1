use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::NodeCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use skep_agent_core::dataplane::MapFill;

use super::Readings;

/// Memory below which the node is short of it (Kubernetes' `memory.available<100Mi`), bytes.
const LITTLE_MEMORY: u64 = 100 * 1024 * 1024;
/// Disk space that is enough however large the disk is, bytes.
const PLENTY_OF_DISK: u64 = 5 * 1024 * 1024 * 1024;

/// How the parts of a node are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Why the container runtime cannot run pods; `None` when it can.
    pub runtime: Option<String>,
    /// Why the maps are not what they should be.
    pub dataplane: Option<String>,
    /// Why other nodes' pods cannot be reached.
    pub routes: Option<String>,
    /// The dataplane's maps that are nearly full.
    pub nearly_full: Vec<MapFill>,
    /// The node has been told its pod address ranges.
    pub registered: bool,
    /// How much there is.
    pub readings: Readings,
}

/// The conditions of the node, which remember since when they hold.
#[derive(Clone, Debug, Default)]
pub struct Conditions {
    since: BTreeMap<&'static str, (bool, Timestamp)>,
}

impl Conditions {
    /// The conditions at `now`.
    pub fn observe(&mut self, health: &Health, now: Timestamp) -> Vec<NodeCondition> {
        let Readings { memory, memory_available, disk, disk_available, tasks, most_tasks } = health.readings;
        // Kubernetes' `nodefs.available<10%`, but a large disk is not full with gigabytes to spare.
        let disk_short = disk > 0 && disk_available < disk / 10 && disk_available < PLENTY_OF_DISK;
        let memory_short = memory > 0 && memory_available < LITTLE_MEMORY;
        let tasks_short = most_tasks > 0 && tasks > most_tasks - most_tasks / 20;
        let network = match (&health.dataplane, &health.routes) {
            (Some(problem), _) => Some(("MapsIncomplete", problem.clone())),
            (None, Some(problem)) => Some(("RoutesIncomplete", problem.clone())),
            (None, None) => None,
        };
        let ready = match (&health.runtime, health.registered) {
            (Some(problem), _) => Err(("ContainerRuntimeNotReady", problem.clone())),
            (None, false) => Err(("NetworkNotReady", "the node has no pod address ranges yet".to_owned())),
            (None, true) => Ok(()),
        };
        let pressure = |short: bool, yes, no, what: &str| match short {
            true => (true, yes, format!("the node is short of {what}")),
            false => (false, no, format!("the node has enough {what}")),
        };
        let (memory_status, memory_reason, memory_message) =
            pressure(memory_short, "InsufficientMemory", "SufficientMemory", "memory");
        let (disk_status, disk_reason, disk_message) = pressure(disk_short, "DiskIsFull", "EnoughDisk", "disk space");
        let (tasks_status, tasks_reason, tasks_message) =
            pressure(tasks_short, "InsufficientPIDs", "SufficientPIDs", "process ids");
        let (network_status, network_reason, network_message) = match network {
            Some((reason, problem)) => (true, reason, problem),
            None => (false, "DataplaneReady", "maps and routes are as they should be".to_owned()),
        };
        let maps: Vec<String> = health.nearly_full.iter().map(MapFill::text).collect();
        let (maps_status, maps_reason, maps_message) = match maps.is_empty() {
            true => (false, "MapsHaveRoom", "the dataplane's maps have room".to_owned()),
            false => (true, "MapsNearlyFull", maps.join("; ")),
        };
        let (ready_status, ready_reason, ready_message) = match ready {
            Ok(()) => (true, "AgentReady", "skep-agent runs pods".to_owned()),
            Err((reason, problem)) => (false, reason, problem),
        };
        vec![
            self.condition("MemoryPressure", memory_status, memory_reason, memory_message, now),
            self.condition("DiskPressure", disk_status, disk_reason, disk_message, now),
            self.condition("PIDPressure", tasks_status, tasks_reason, tasks_message, now),
            self.condition("NetworkUnavailable", network_status, network_reason, network_message, now),
            self.condition("DataplaneMapPressure", maps_status, maps_reason, maps_message, now),
            self.condition("Ready", ready_status, ready_reason, ready_message, now),
        ]
    }

    fn condition(
        &mut self,
        name: &'static str,
        status: bool,
        reason: &str,
        message: String,
        now: Timestamp,
    ) -> NodeCondition {
        let since = self.since.entry(name).or_insert((status, now));
        if since.0 != status {
            *since = (status, now);
        }
        NodeCondition {
            type_: name.to_owned(),
            status: if status { "True" } else { "False" }.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message),
            last_heartbeat_time: Some(Time(now)),
            last_transition_time: Some(Time(since.1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn good() -> Health {
        Health {
            registered: true,
            readings: Readings {
                memory: 1 << 33,
                memory_available: 1 << 32,
                disk: 1 << 40,
                disk_available: 1 << 35,
                tasks: 100,
                most_tasks: 32768,
            },
            ..Health::default()
        }
    }

    fn find<'a>(conditions: &'a [NodeCondition], name: &str) -> &'a NodeCondition {
        conditions.iter().find(|condition| condition.type_ == name).unwrap()
    }

    #[test]
    fn a_healthy_node_is_ready_and_has_no_pressure() {
        let conditions = Conditions::default().observe(&good(), at(1));
        for condition in &conditions {
            let expected = if condition.type_ == "Ready" { "True" } else { "False" };
            assert_eq!(condition.status, expected, "{}", condition.type_);
        }
    }

    #[test]
    fn a_silent_runtime_makes_the_node_not_ready_since_then() {
        let mut conditions = Conditions::default();
        conditions.observe(&good(), at(1));
        let silent = Health { runtime: Some("connection refused".to_owned()), ..good() };
        for now in [5, 9] {
            let seen = conditions.observe(&silent, at(now));
            let ready = find(&seen, "Ready");
            assert_eq!(ready.status, "False");
            assert_eq!(ready.last_transition_time, Some(Time(at(5))));
            assert_eq!(ready.last_heartbeat_time, Some(Time(at(now))));
            assert_eq!(find(&seen, "MemoryPressure").last_transition_time, Some(Time(at(1))));
        }
    }

    #[test]
    fn shortages_show() {
        let mut readings = good().readings;
        readings.memory_available = 50 << 20;
        readings.disk_available = 1 << 30;
        readings.tasks = 32000;
        let short = Health { readings, dataplane: Some("map slots: full".to_owned()), ..good() };
        let conditions = Conditions::default().observe(&short, at(1));
        for name in ["MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"] {
            assert_eq!(find(&conditions, name).status, "True", "{name}");
        }
        // A map that is nearly full is named, with its numbers.
        let slots = MapFill { map: "slots", entries: 95, capacity: 100 };
        let full = Health { nearly_full: vec![slots], ..good() };
        let conditions = Conditions::default().observe(&full, at(1));
        let pressure = find(&conditions, "DataplaneMapPressure");
        assert_eq!((pressure.status.as_str(), find(&conditions, "Ready").status.as_str()), ("True", "True"));
        assert!(pressure.message.as_deref().unwrap().starts_with("map slots: 95 of 100 entries"), "{pressure:?}");
        // 5 % of a terabyte is no shortage.
        let large = Readings { disk_available: (1u64 << 40) / 20, ..good().readings };
        let conditions = Conditions::default().observe(&Health { readings: large, ..good() }, at(1));
        assert_eq!(find(&conditions, "DiskPressure").status, "False");
    }
}
