//! Guards against maps that were pinned under this ABI version but look otherwise.

use std::mem::size_of;

use skep_abi::{
    Addr, AffinityKey, AffinityValue, Backend, Bits, Config, ConnKey, ConnValue, Drops, Endpoint, FragmentKey,
    FragmentValue, Frontend, FrontendKey, NatKey, NatValue, NodeAddr, OriginKey, OriginValue, PeerKey, PortKey,
    PrefixKey, Route, RouteKey, RuleList, RuleListKey, SlotKey, SourceRangeKey, map,
};

use crate::Error;
use crate::maps::pinned;
use crate::object::exists;
use crate::pins::Pins;

/// Bytes of key and value as the kernel counts them.
const fn sizes<K, V>() -> (usize, usize) {
    (size_of::<K>(), size_of::<V>())
}

/// The prefix length that precedes the data of an LPM key.
const PREFIX_LEN: usize = size_of::<u32>();

fn expected(name: &str) -> Option<(usize, usize)> {
    Some(match name {
        map::FRONTENDS => sizes::<FrontendKey, Frontend>(),
        map::SLOTS => sizes::<SlotKey, u32>(),
        map::BACKENDS => sizes::<u32, Backend>(),
        map::ORIGINS => sizes::<OriginKey, OriginValue>(),
        map::CONNTRACK => sizes::<ConnKey, ConnValue>(),
        map::FRAGMENTS => sizes::<FragmentKey, FragmentValue>(),
        map::ENDPOINTS => sizes::<u32, Endpoint>(),
        map::IDENTITIES => sizes::<Addr, u64>(),
        map::IDENTITY_TAILS => sizes::<u64, u64>(),
        map::RULE_LISTS => sizes::<RuleListKey, RuleList>(),
        map::PEER_RULES => sizes::<PeerKey, Bits>(),
        map::PORT_RULES => (PREFIX_LEN + size_of::<PortKey>(), size_of::<Bits>()),
        map::PREFIXES => (PREFIX_LEN + size_of::<PrefixKey>(), size_of::<Bits>()),
        map::AFFINITY => sizes::<AffinityKey, AffinityValue>(),
        map::SOURCE_RANGES => (PREFIX_LEN + size_of::<SourceRangeKey>(), size_of::<u32>()),
        map::SERVICE_HITS => sizes::<u32, u64>(),
        map::NAT => sizes::<NatKey, NatValue>(),
        map::NODE_ADDRS => sizes::<Addr, NodeAddr>(),
        map::ROUTES => (PREFIX_LEN + size_of::<RouteKey>(), size_of::<Route>()),
        map::ANNOUNCED => sizes::<Addr, u32>(),
        map::COUNTERS => sizes::<u32, u64>(),
        map::DROPS => sizes::<u32, Drops>(),
        map::EVENTS => (0, 0),
        map::CONFIG => sizes::<u32, Config>(),
        _ => return None,
    })
}

/// Compares every pinned map with what this program expects; maps that are not pinned yet are fine.
pub(crate) fn check(pins: &Pins) -> Result<(), Error> {
    for name in map::ALL {
        let Some((key, value)) = expected(name) else { return Err(Error::NotInObject(name)) };
        if !exists(&pins.map(name))? {
            continue;
        }
        let info = pinned(pins, name)?.info().map_err(|source| Error::Map { name, source })?;
        let found = (info.key_size() as usize, info.value_size() as usize);
        if found != (key, value) {
            return Err(Error::Layout {
                name,
                found: format!("{} + {} bytes", found.0, found.1),
                expected: format!("{key} + {value} bytes"),
            });
        }
    }
    Ok(())
}
