//! The maps. Each symbol is the map's name in `skep_abi::map`; the agent pins them all.
//!
//! Hashes allocate entries as they come: an empty map costs its bucket array only. LRU maps cannot and are kept small.
#![allow(non_upper_case_globals, reason = "the symbol is the map's name")]

use aya_ebpf::bindings::BPF_F_NO_PREALLOC;
use aya_ebpf::btf_maps::{Array, HashMap, LpmTrie, LruHashMap, PerCpuArray, PerCpuHashMap, RingBuf};
use aya_ebpf::macros::btf_map;
use skep_abi::{
    Addr, AffinityKey, AffinityValue, Backend, Bits, Config, ConnKey, ConnValue, Counter, Drops, Endpoint, FlowEvent,
    FragmentKey, FragmentValue, Frontend, FrontendKey, NatKey, NatValue, NodeAddr, OriginKey, OriginValue, PeerKey,
    PortKey, PrefixKey, Reason, Route, RouteKey, RuleList, RuleListKey, SlotKey, SourceRangeKey,
};

const LAZY: usize = BPF_F_NO_PREALLOC as usize;

#[btf_map]
pub(crate) static frontends: HashMap<FrontendKey, Frontend, 262_144, LAZY> = HashMap::new();
#[btf_map]
pub(crate) static slots: HashMap<SlotKey, u32, 1_048_576, LAZY> = HashMap::new();
#[btf_map]
pub(crate) static backends: HashMap<u32, Backend, 262_144, LAZY> = HashMap::new();
#[btf_map]
pub(crate) static socket_origin: LruHashMap<OriginKey, OriginValue, 32_768> = LruHashMap::new();
#[btf_map]
pub(crate) static conntrack: HashMap<ConnKey, ConnValue, 524_288, LAZY> = HashMap::new();
#[btf_map]
pub(crate) static fragments: LruHashMap<FragmentKey, FragmentValue, 4_096> = LruHashMap::new();
#[btf_map]
pub(crate) static affinity: LruHashMap<AffinityKey, AffinityValue, 16_384> = LruHashMap::new();
#[btf_map]
pub(crate) static source_ranges: LpmTrie<SourceRangeKey, u32, 65_536> = LpmTrie::new();
#[btf_map]
pub(crate) static nat: HashMap<NatKey, NatValue, 524_288, LAZY> = HashMap::new();
#[btf_map]
pub(crate) static node_addrs: HashMap<Addr, NodeAddr, 16_384, LAZY> = HashMap::new();
#[btf_map]
pub(crate) static routes: LpmTrie<RouteKey, Route, 16_384> = LpmTrie::new();
#[btf_map]
pub(crate) static announced: HashMap<Addr, u32, 16_384, LAZY> = HashMap::new();
#[btf_map]
pub(crate) static service_hits: PerCpuHashMap<u32, u64, 262_144, LAZY> = PerCpuHashMap::new();
#[btf_map]
pub(crate) static endpoints: HashMap<u32, Endpoint, 4_096, LAZY> = HashMap::new();
#[btf_map]
pub(crate) static identities: HashMap<Addr, u64, 524_288, LAZY> = HashMap::new();
#[btf_map]
pub(crate) static identity_tails: HashMap<u64, u64, 65_536, LAZY> = HashMap::new();
#[btf_map]
pub(crate) static rule_lists: HashMap<RuleListKey, RuleList, 16_384, LAZY> = HashMap::new();
#[btf_map]
pub(crate) static peer_rules: HashMap<PeerKey, Bits, 524_288, LAZY> = HashMap::new();
#[btf_map]
pub(crate) static port_rules: LpmTrie<PortKey, Bits, 262_144> = LpmTrie::new();
#[btf_map]
pub(crate) static prefixes: LpmTrie<PrefixKey, Bits, 262_144> = LpmTrie::new();
#[btf_map]
pub(crate) static drops: PerCpuArray<Drops, { Reason::COUNT as usize * 2 }> = PerCpuArray::new();
#[btf_map]
pub(crate) static counters: PerCpuArray<u64, { Counter::COUNT as usize }> = PerCpuArray::new();
#[btf_map]
pub(crate) static events: RingBuf<FlowEvent, 262_144> = RingBuf::new();
#[btf_map]
pub(crate) static config: Array<Config, 1> = Array::new();
