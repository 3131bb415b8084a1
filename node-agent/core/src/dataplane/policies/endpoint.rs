use std::collections::BTreeSet;
use std::net::IpAddr;

use skep_abi::{Addr, Endpoint, endpoint_flags};

use crate::dataplane::population::Population;
use crate::dataplane::staged::Staged;
use crate::dataplane::{LocalEndpoint, abi_addr};

/// Closes a new endpoint until its policies are known; one that the maps have already stays as it is.
pub(crate) fn write_unsynced(population: &Population, interfaces: &BTreeSet<u32>, staged: &mut Staged) {
    for &ifindex in interfaces {
        match population.local().get(&ifindex) {
            Some(endpoint) => {
                let known = staged.contents().endpoints.get(&ifindex).is_some_and(|known| known.id == endpoint.id);
                if !known {
                    staged.put_endpoint(ifindex, value(endpoint, 0, [None, None], true));
                }
            }
            None => staged.delete_endpoint(ifindex),
        }
    }
}

/// The map entry of an endpoint; `lists` are the number and words of each direction's rule list.
pub(super) fn value(
    endpoint: &LocalEndpoint,
    identity: u64,
    lists: [Option<(u32, usize)>; 2],
    closed: bool,
) -> Endpoint {
    let words = |(_, words)| u16::try_from(words).unwrap_or(u16::MAX);
    Endpoint {
        identity,
        addr4: endpoint.addr4.map_or(Addr::NONE, |addr| abi_addr(IpAddr::V4(addr))),
        addr6: endpoint.addr6.map_or(Addr::NONE, |addr| abi_addr(IpAddr::V6(addr))),
        id: endpoint.id,
        flags: if closed { endpoint_flags::CLOSED } else { 0 },
        rule_list: lists.map(|list| list.map_or(0, |(number, _)| number)),
        words: lists.map(|list| list.map_or(0, words)),
        mac: endpoint.mac,
        pad: [0; 6],
    }
}
