//! The maps. Each symbol is the map's name in `skep_abi::map`; the agent pins them all.
//!
//! Hashes allocate entries as they come: an empty map costs its bucket array only. LRU maps cannot and are kept small.
#![allow(non_upper_case_globals, reason = "the symbol is the map's name")]

use aya_ebpf::bindings::BPF_F_NO_PREALLOC;
use aya_ebpf::btf_maps::{Array, HashMap, LpmTrie, LruHashMap, PerCpuArray, RingBuf};
use aya_ebpf::macros::btf_map;
use skep_abi::{
    Addr, Backend, Bits, Config, ConnKey, ConnValue, Drops, Endpoint, FlowEvent, FragmentKey, FragmentValue, Frontend,
    FrontendKey, OriginKey, OriginValue, PeerKey, PortKey, PrefixKey, Reason, RuleList, RuleListKey, SlotKey,
};

const LAZY: usize = BPF_F_NO_PREALLOC as usize;

#[btf_map]
pub(crate) static frontends: HashMap<FrontendKey, Frontend, 131_072, LAZY> = HashMap::new();
#[btf_map]
pub(crate) static slots: HashMap<SlotKey, u32, 1_048_576, LAZY> = HashMap::new();
#[btf_map]
pub(crate) static backends: HashMap<u32, Backend, 262_144, LAZY> = HashMap::new();
#[btf_map]
pub(crate) static socket_origin: LruHashMap<OriginKey, OriginValue, 32_768> = LruHashMap::new();
#[btf_map]
pub(crate) static conntrack: LruHashMap<ConnKey, ConnValue, 65_536> = LruHashMap::new();
#[btf_map]
pub(crate) static fragments: LruHashMap<FragmentKey, FragmentValue, 4_096> = LruHashMap::new();
#[btf_map]
pub(crate) static endpoints: HashMap<u32, Endpoint, 4_096, LAZY> = HashMap::new();
#[btf_map]
pub(crate) static identities: HashMap<Addr, u64, 524_288, LAZY> = HashMap::new();
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
pub(crate) static events: RingBuf<FlowEvent, 262_144> = RingBuf::new();
#[btf_map]
pub(crate) static config: Array<Config, 1> = Array::new();
