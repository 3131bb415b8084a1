use std::path::Path;

use aya::maps::{Map, MapData};
use skep_abi::{
    Addr, AffinityKey, AffinityValue, Backend, Bits, Config, ConnKey, ConnValue, Endpoint, Frontend, FrontendKey,
    NatKey, NatValue, NodeAddr, OriginKey, OriginValue, PeerKey, PortKey, PrefixKey, Route, RouteKey, RuleList,
    RuleListKey, SlotKey, SourceRangeKey, map,
};

use crate::pins::Pins;
use crate::{Counters, DropCounters, Error, Events, PrefixTable, ServiceHits, Setting, Table};

/// Typed handles of every pinned map.
pub struct Maps {
    /// Service address -> what it stands for.
    pub frontends: Table<FrontendKey, Frontend>,
    /// Service, generation, index -> backend id.
    pub slots: Table<SlotKey, u32>,
    /// Backend id -> backend.
    pub backends: Table<u32, Backend>,
    /// Client and endpoint set -> backend to stay with.
    pub affinity: Table<AffinityKey, AffinityValue>,
    /// Clients that may use an endpoint set.
    pub source_ranges: PrefixTable<SourceRangeKey, u32>,
    /// Endpoint set -> connections that it was given.
    pub service_hits: ServiceHits,
    /// Translations at the uplink.
    pub nat: Table<NatKey, NatValue>,
    /// Addresses of the cluster's nodes.
    pub node_addrs: Table<Addr, NodeAddr>,
    /// Ranges of pods, and those that pods reach with their own address.
    pub routes: PrefixTable<RouteKey, Route>,
    /// Load balancer addresses that this node answers for.
    pub announced: Table<Addr, u32>,
    /// Socket and backend -> Service address that was asked for.
    pub origins: Table<OriginKey, OriginValue>,
    /// Connections of local pods.
    pub conntrack: Table<ConnKey, ConnValue>,
    /// Host-side interface index -> local pod.
    pub endpoints: Table<u32, Endpoint>,
    /// Pod address -> identity.
    pub identities: Table<Addr, u64>,
    /// Identity -> its tail, by which other nodes know that it is the same.
    pub identity_tails: Table<u64, u64>,
    /// Word of a rule list.
    pub rule_lists: Table<RuleListKey, RuleList>,
    /// Rules of a word by identity.
    pub peer_rules: Table<PeerKey, Bits>,
    /// Rules of a word by port.
    pub port_rules: PrefixTable<PortKey, Bits>,
    /// Rules of a word by address prefix.
    pub prefixes: PrefixTable<PrefixKey, Bits>,
    /// Counters of things that are no drops.
    pub counters: Counters,
    /// Drop counters.
    pub drops: DropCounters,
    /// Node-wide settings.
    pub config: Setting<Config>,
    pins: Pins,
}

/// How full a map is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapUse {
    /// Name of the map, one of `skep_abi::map`.
    pub name: &'static str,
    /// Most entries that it can hold (bytes for the ring buffer).
    pub capacity: u32,
}

impl Maps {
    /// Opens the maps pinned below `bpf_dir` by this ABI version; loads and changes nothing.
    ///
    /// # Errors
    ///
    /// When a map is not there (the agent has never run with this version), may not be opened, or has another layout.
    pub fn open(bpf_dir: &Path) -> Result<Self, Error> {
        let pins = Pins::new(bpf_dir);
        Ok(Self {
            frontends: Table::new(map::FRONTENDS, open(&pins, map::FRONTENDS)?)?,
            slots: Table::new(map::SLOTS, open(&pins, map::SLOTS)?)?,
            backends: Table::new(map::BACKENDS, open(&pins, map::BACKENDS)?)?,
            affinity: Table::new(map::AFFINITY, open(&pins, map::AFFINITY)?)?,
            source_ranges: PrefixTable::new(map::SOURCE_RANGES, open(&pins, map::SOURCE_RANGES)?)?,
            service_hits: ServiceHits::new(open(&pins, map::SERVICE_HITS)?)?,
            nat: Table::new(map::NAT, open(&pins, map::NAT)?)?,
            node_addrs: Table::new(map::NODE_ADDRS, open(&pins, map::NODE_ADDRS)?)?,
            routes: PrefixTable::new(map::ROUTES, open(&pins, map::ROUTES)?)?,
            announced: Table::new(map::ANNOUNCED, open(&pins, map::ANNOUNCED)?)?,
            counters: Counters::new(open(&pins, map::COUNTERS)?)?,
            origins: Table::new(map::ORIGINS, open(&pins, map::ORIGINS)?)?,
            conntrack: Table::new(map::CONNTRACK, open(&pins, map::CONNTRACK)?)?,
            endpoints: Table::new(map::ENDPOINTS, open(&pins, map::ENDPOINTS)?)?,
            identities: Table::new(map::IDENTITIES, open(&pins, map::IDENTITIES)?)?,
            identity_tails: Table::new(map::IDENTITY_TAILS, open(&pins, map::IDENTITY_TAILS)?)?,
            rule_lists: Table::new(map::RULE_LISTS, open(&pins, map::RULE_LISTS)?)?,
            peer_rules: Table::new(map::PEER_RULES, open(&pins, map::PEER_RULES)?)?,
            port_rules: PrefixTable::new(map::PORT_RULES, open(&pins, map::PORT_RULES)?)?,
            prefixes: PrefixTable::new(map::PREFIXES, open(&pins, map::PREFIXES)?)?,
            drops: DropCounters::new(open(&pins, map::DROPS)?)?,
            config: Setting::new(map::CONFIG, open(&pins, map::CONFIG)?)?,
            pins,
        })
    }

    /// A reader of flow events; see [`Events`] about several readers.
    ///
    /// # Errors
    ///
    /// When the ring buffer is not there or cannot be mapped into memory.
    pub fn events(&self) -> Result<Events, Error> {
        Events::new(open(&self.pins, map::EVENTS)?)
    }

    /// The capacity of every map.
    ///
    /// # Errors
    ///
    /// When a map is not there.
    pub fn capacities(&self) -> Result<Vec<MapUse>, Error> {
        map::ALL
            .into_iter()
            .map(|name| {
                let data = pinned(&self.pins, name)?;
                let info = data.info().map_err(|source| Error::Map { name, source })?;
                Ok(MapUse { name, capacity: info.max_entries() })
            })
            .collect()
    }
}

/// The pinned map of this name, whatever its layout.
pub(crate) fn pinned(pins: &Pins, name: &'static str) -> Result<MapData, Error> {
    MapData::from_pin(pins.map(name)).map_err(|source| Error::Map { name, source })
}

fn open(pins: &Pins, name: &'static str) -> Result<Map, Error> {
    Map::from_map_data(pinned(pins, name)?).map_err(|source| Error::Map { name, source })
}
