use serde::Serialize;
use serde_json::Value;
use skep_abi::{Config, config_flags, map};
use skep_agent_core::dataplane::{MapFill, Pressure, can_run_full};

use crate::show;
use crate::table::{Row, columns};

/// Whether the dataplane is there and how full it is.
#[derive(Debug, Serialize)]
pub(crate) struct Status {
    /// Version of the map layouts.
    pub(crate) version: u32,
    pub(crate) directory: String,
    pub(crate) node_addresses: Vec<String>,
    pub(crate) flags: String,
    pub(crate) links: Links,
    pub(crate) endpoints: usize,
    pub(crate) closed_endpoints: usize,
    pub(crate) dropped_packets: u64,
    pub(crate) maps: Vec<MapRow>,
    /// The maps that are nearly full.
    pub(crate) nearly_full: Vec<MapFill>,
    /// The agent's own word; `None` when it does not answer.
    pub(crate) agent: Option<Value>,
}

/// Pinned links.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Links {
    /// Socket hooks, by name.
    pub(crate) socket_hooks: Vec<String>,
    /// Host-side interfaces of pods with programs in both directions.
    pub(crate) pods: Vec<u32>,
    /// Interfaces with a program in one direction only.
    pub(crate) half_attached: Vec<u32>,
    /// Interfaces with a program at their driver.
    pub(crate) xdp: Vec<u32>,
}

impl Links {
    /// Reads the names of pinned links: `cgroup-HOOK`, `xdp-INTERFACE`, `pod-INTERFACE-from` and `pod-INTERFACE-to`.
    pub(crate) fn new(names: impl IntoIterator<Item = String>) -> Self {
        let mut links = Self::default();
        let mut pods = std::collections::BTreeMap::<u32, u32>::new();
        for name in names {
            if let Some(hook) = name.strip_prefix("cgroup-") {
                links.socket_hooks.push(hook.to_owned());
            } else if let Some(ifindex) = name.strip_prefix("xdp-").and_then(|ifindex| ifindex.parse().ok()) {
                links.xdp.push(ifindex);
            } else if let Some(ifindex) = pod_interface(&name) {
                *pods.entry(ifindex).or_default() += 1;
            }
        }
        links.socket_hooks.sort();
        for (ifindex, hooks) in pods {
            if hooks == 2 { links.pods.push(ifindex) } else { links.half_attached.push(ifindex) }
        }
        links
    }
}

fn pod_interface(name: &str) -> Option<u32> {
    let (ifindex, side) = name.strip_prefix("pod-")?.split_once('-')?;
    matches!(side, "from" | "to").then(|| ifindex.parse().ok())?
}

/// A map.
#[derive(Debug, Serialize)]
pub(crate) struct MapRow {
    pub(crate) name: &'static str,
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    /// `None` when it cannot be counted.
    pub(crate) entries: Option<usize>,
    pub(crate) capacity: u32,
}

impl MapRow {
    /// The map's type, by name.
    pub(crate) fn kind(name: &str) -> &'static str {
        match name {
            map::ORIGINS | map::FRAGMENTS | map::AFFINITY => "LRU hash",
            map::SERVICE_HITS => "per-CPU hash",
            map::PORT_RULES | map::PREFIXES | map::SOURCE_RANGES | map::ROUTES => "LPM trie",
            map::DROPS | map::COUNTERS => "per-CPU array",
            map::EVENTS => "ring buffer",
            map::CONFIG => "array",
            _ => "hash",
        }
    }
}

impl Row for MapRow {
    const HEADER: &'static [&'static str] = &["MAP", "TYPE", "ENTRIES", "CAPACITY", "USED"];

    fn cells(&self) -> Vec<String> {
        let used = self.entries.map(|entries| {
            let tenths = entries as u64 * 1000 / u64::from(self.capacity.max(1));
            format!("{}.{}%", tenths / 10, tenths % 10)
        });
        vec![
            self.name.to_owned(),
            self.kind.to_owned(),
            self.entries.map(|entries| entries.to_string()).unwrap_or_default(),
            self.capacity.to_string(),
            used.unwrap_or_default(),
        ]
    }
}

/// The maps that are nearly full: as the agent says, or else as the rows show. Connections that are over stay in `conntrack`
/// until others need their place, so that its rows say nothing.
pub(crate) fn nearly_full(agent: Option<&Value>, rows: &[MapRow]) -> Vec<MapFill> {
    if let Some(said) = agent.and_then(|agent| agent.get("mapsNearlyFull")).and_then(Value::as_array) {
        return said.iter().filter_map(read_fill).collect();
    }
    let known = rows.iter().filter(|row| can_run_full(row.name) && row.name != map::CONNTRACK);
    let fills = known.filter_map(|row| {
        Some(MapFill { map: row.name, entries: row.entries? as u64, capacity: u64::from(row.capacity) })
    });
    let mut pressure = Pressure::default();
    pressure.observe(&fills.collect::<Vec<_>>());
    pressure.nearly_full()
}

/// What the agent says of one map.
fn read_fill(said: &Value) -> Option<MapFill> {
    let name = said.get("map")?.as_str()?;
    let map = map::ALL.into_iter().find(|known| *known == name)?;
    Some(MapFill { map, entries: said.get("entries")?.as_u64()?, capacity: said.get("capacity")?.as_u64()? })
}

/// Addresses of the node in the settings.
pub(crate) fn node_addresses(config: &Config) -> Vec<String> {
    [config.node_addr4, config.node_addr6].into_iter().map(show::address).filter(|addr| !addr.is_empty()).collect()
}

/// Names of the settings' flags.
pub(crate) fn config_flags_of(config: &Config) -> String {
    let names = [
        (config_flags::EVENTS_ALLOWED, "records-allowed"),
        (config_flags::NO_TC_SERVICES, "no-tc-services"),
        (config_flags::MASQUERADE, "masquerade"),
        (config_flags::DSR, "direct-return"),
        (config_flags::XDP_REDIRECT, "xdp-redirect"),
    ];
    show::flags(config.flags, &names)
}

impl Status {
    /// As text for people.
    pub(crate) fn text(&self) -> String {
        let or_none = |text: String| if text.is_empty() { "none".to_owned() } else { text };
        let interfaces = |list: &[u32]| list.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
        let mut lines = vec![
            ("dataplane", format!("version {} in {}", self.version, self.directory)),
            ("node", or_none(self.node_addresses.join(" "))),
            ("settings", or_none(self.flags.clone())),
            ("socket hooks", or_none(self.links.socket_hooks.join(" "))),
            ("pods", format!("{}, {} closed", self.endpoints, self.closed_endpoints)),
            ("pod links", format!("{} interfaces", self.links.pods.len())),
        ];
        if !self.links.half_attached.is_empty() {
            lines.push(("half attached", interfaces(&self.links.half_attached)));
        }
        lines.push(("XDP", self.xdp_text()));
        lines.push(("dropped", format!("{} packets", self.dropped_packets)));
        lines.push(("agent", self.agent_text()));
        lines.extend(self.nearly_full.iter().map(|fill| ("nearly full", fill.text())));
        let mut text: String = lines.into_iter().map(|(name, value)| format!("{name:15}{value}\n")).collect();
        text.push('\n');
        text.push_str(&columns(&self.maps));
        text
    }

    /// Where XDP is; where it is not, why.
    fn xdp_text(&self) -> String {
        if !self.links.xdp.is_empty() {
            let interfaces: Vec<_> = self.links.xdp.iter().map(u32::to_string).collect();
            return format!("interface {}", interfaces.join(" "));
        }
        let reason = self.agent.as_ref().and_then(|agent| agent.pointer("/xdp/reason")).and_then(Value::as_str);
        reason.map_or_else(|| "off".to_owned(), |reason| format!("unavailable: {reason}"))
    }

    fn agent_text(&self) -> String {
        let Some(agent) = &self.agent else { return "does not answer".to_owned() };
        let text = |pointer: &str| agent.pointer(pointer).and_then(Value::as_str);
        let synced = agent.pointer("/dataplane/synced").and_then(Value::as_bool) == Some(true);
        let mut shown =
            format!("{}, {}", text("/version").unwrap_or("?"), if synced { "synced" } else { "not synced" });
        for pointer in ["/dataplane/problem", "/dataplane/routeProblem"] {
            if let Some(problem) = text(pointer) {
                shown.push_str(&format!(", {problem}"));
            }
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn links_are_told_by_their_names() {
        let names = [
            "cgroup-sendmsg4",
            "cgroup-connect4",
            "pod-7-from",
            "pod-7-to",
            "pod-9-to",
            "pod-x-to",
            "xdp-2",
            "xdp-x",
            "other",
        ];
        assert_eq!(
            Links::new(names.map(str::to_owned)),
            Links {
                socket_hooks: vec!["connect4".to_owned(), "sendmsg4".to_owned()],
                pods: vec![7],
                half_attached: vec![9],
                xdp: vec![2],
            }
        );
    }

    #[test]
    fn the_agent_says_which_maps_are_nearly_full_and_without_it_the_rows_do() {
        let row = |name, entries| MapRow { name, kind: MapRow::kind(name), entries, capacity: 100 };
        let rows = [
            row(map::SLOTS, Some(90)),
            row(map::BACKENDS, Some(89)),
            row(map::CONNTRACK, Some(100)),
            row(map::AFFINITY, Some(100)),
            row(map::EVENTS, None),
        ];
        let fill = |map, entries| MapFill { map, entries, capacity: 100 };
        assert_eq!(nearly_full(None, &rows), [fill(map::SLOTS, 90)]);
        let agent = json!({"mapsNearlyFull": [{"map": "conntrack", "entries": 95, "capacity": 100}, {"map": "?"}]});
        assert_eq!(nearly_full(Some(&agent), &rows), [fill(map::CONNTRACK, 95)]);
        assert_eq!(nearly_full(Some(&json!({"mapsNearlyFull": []})), &rows), []);
        // An agent that does not know of it.
        assert_eq!(nearly_full(Some(&json!({})), &rows), [fill(map::SLOTS, 90)]);
    }

    #[test]
    fn the_status_is_a_page() {
        let mut status = Status {
            version: 1,
            directory: "/sys/fs/bpf/skep/v1".to_owned(),
            node_addresses: vec!["192.0.2.1".to_owned()],
            flags: String::new(),
            links: Links::new(["pod-7-from", "pod-7-to", "pod-9-to"].map(str::to_owned)),
            endpoints: 2,
            closed_endpoints: 1,
            dropped_packets: 3,
            maps: vec![
                MapRow { name: "frontends", kind: MapRow::kind("frontends"), entries: Some(131), capacity: 131_072 },
                MapRow { name: "events", kind: MapRow::kind("events"), entries: None, capacity: 262_144 },
            ],
            nearly_full: vec![MapFill { map: "slots", entries: 91, capacity: 100 }],
            agent: Some(json!({"version": "0.1.0", "dataplane": {"synced": true, "problem": "map is full"}})),
        };
        assert_eq!(
            status.text(),
            "\
dataplane      version 1 in /sys/fs/bpf/skep/v1
node           192.0.2.1
settings       none
socket hooks   none
pods           2, 1 closed
pod links      1 interfaces
half attached  9
XDP            off
dropped        3 packets
agent          0.1.0, synced, map is full
nearly full    map slots: 91 of 100 entries, 91% (--service-entries makes it larger)

MAP         TYPE          ENTRIES   CAPACITY   USED
frontends   hash          131       131072     0.0%
events      ring buffer   -         262144     -
"
        );
        status.agent = Some(json!({"xdp": {"state": "unavailable", "reason": "its driver cannot"}}));
        assert!(status.text().contains("\nXDP            unavailable: its driver cannot\n"), "{}", status.text());
        status.links.xdp = vec![2];
        assert!(status.text().contains("\nXDP            interface 2\n"), "{}", status.text());
    }
}
