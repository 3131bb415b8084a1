//! A node's maps and names for tests.

use std::net::Ipv6Addr;

use skep_abi::{
    Addr, Backend, Bits, Endpoint, Frontend, FrontendKey, PeerKey, PortKey, PrefixKey, RuleList, RuleListKey, SlotKey,
    endpoint_flags, frontend_flags, rule_list_flags,
};
use skep_agent_core::dataplane::{
    BackendName, IdentityName, MapContents, Names, PodName, RuleListName, RuleName, ServiceName,
};

fn v6(text: &str) -> Addr {
    Addr::v6(text.parse::<Ipv6Addr>().unwrap().octets())
}

/// Service `web` (4 backends in IPv4, one in IPv6) and `empty`; pod `client` with rule list 3 for ingress, and a closed
/// endpoint that nobody knows.
pub(crate) fn contents() -> MapContents {
    let mut maps = MapContents::default();
    let key = |addr| FrontendKey { addr, port_be: 80_u16.to_be(), proto: 6, scope: 0 };
    let web = |service, count| Frontend {
        service,
        generation: 4,
        count,
        flags: frontend_flags::AFFINITY,
        affinity_timeout: 10800,
    };
    maps.frontends.insert(key(Addr::v4([10, 96, 0, 1])), web(1, 4));
    maps.frontends.insert(key(v6("fd00::1")), web(2, 1));
    let empty = Frontend { service: 3, generation: 0, count: 0, flags: 0, affinity_timeout: 0 };
    maps.frontends.insert(key(Addr::v4([10, 96, 0, 2])), empty);
    for i in 0..4 {
        maps.slots.insert(SlotKey { service: 1, generation: 4, index: i }, i + 1);
        let addr = Addr::v4([10, 0, 0, u8::try_from(i).unwrap() + 1]);
        maps.backends
            .insert(i + 1, Backend { addr, node: Addr::NONE, flags: 0, port_be: 80_u16.to_be(), proto: 6, state: 0 });
    }
    maps.slots.insert(SlotKey { service: 2, generation: 4, index: 0 }, 9);
    maps.backends.insert(
        9,
        Backend { addr: v6("fd01::1"), node: Addr::NONE, flags: 0, port_be: 80_u16.to_be(), proto: 6, state: 0 },
    );

    let client = Endpoint {
        identity: 0xab,
        addr4: Addr::v4([10, 0, 0, 9]),
        addr6: v6("fd01::9"),
        id: 7,
        flags: 0,
        rule_list: [3, 0],
        words: [1, 0],
        mac: [2, 0, 0, 0, 0, 9],
        pad: [0; 6],
    };
    maps.endpoints.insert(12, client);
    let unknown = Endpoint {
        identity: 0,
        addr4: Addr::v4([10, 0, 0, 10]),
        addr6: Addr::NONE,
        id: 8,
        flags: endpoint_flags::CLOSED,
        rule_list: [0, 99],
        words: [0, 1],
        ..client
    };
    maps.endpoints.insert(13, unknown);
    rule_list_3(&mut maps);
    maps
}

/// Rule 0: identity 0xab to TCP 80 and 8000-8010. Rule 1: 10.0.0.0/8 but for 10.1.0.0/16, any port. Rule 2: anybody to
/// every TCP port.
fn rule_list_3(maps: &mut MapContents) {
    let bits = |bits: u64| Bits([bits, 0, 0, 0]);
    let flags = rule_list_flags::PEERS | rule_list_flags::PREFIXES | rule_list_flags::PORTS;
    let list = RuleList { any_peer: bits(0b100), any_port: bits(0b010), flags, pad: 0 };
    maps.rule_lists.insert(RuleListKey { list: 3, word: 0 }, list);
    maps.peer_rules.insert(PeerKey { identity: 0xab, list: 3, word: 0 }, bits(0b001));
    for (len, port, rules) in
        [(0, 0_u16, 0b100), (16, 80, 0b101), (13, 8000, 0b101), (15, 8008, 0b101), (16, 8010, 0b101)]
    {
        let key = PortKey { list: 3, word: 0, proto: 6, pad: 0, port_be: port.to_be(), tail: [0; 6] };
        maps.port_rules.insert((PortKey::BASE_BITS + len, key), bits(rules));
    }
    for (len, addr, rules) in [(8, [10, 0, 0, 0], 0b010), (16, [10, 1, 0, 0], 0)] {
        let key = PrefixKey { list: 3, word: 0, addr: Addr::v4(addr) };
        maps.prefixes.insert((PrefixKey::BASE_BITS + 96 + len, key), bits(rules));
    }
}

/// Names to [`contents`].
pub(crate) fn names() -> Names {
    let pod = |name: &str| PodName { namespace: "shop".to_owned(), name: name.to_owned() };
    let service =
        |name: &str| ServiceName { namespace: "shop".to_owned(), name: name.to_owned(), port: "http".to_owned() };
    let backend =
        |n: u32| BackendName { namespace: "shop".to_owned(), pod: format!("web-{n}"), node: "node-1".to_owned() };
    let rule = |policy: &str, rule| RuleName { policy: policy.to_owned(), rule };
    let list = RuleListName {
        direction: "ingress".to_owned(),
        namespace: "shop".to_owned(),
        policies: vec!["allow".to_owned(), "deny".to_owned()],
        rules: vec![rule("allow", 0), rule("allow", 1), rule("allow", 2)],
    };
    let labels = [("app".to_owned(), "client".to_owned())].into();
    Names {
        services: [(1, service("web")), (2, service("web")), (3, service("empty"))].into(),
        backends: (1..=4).map(|n| (n, backend(n))).collect(),
        identities: [(0xab, IdentityName { namespace: "shop".to_owned(), labels })].into(),
        endpoints: [(7, pod("client"))].into(),
        addresses: [("10.0.0.1".parse().unwrap(), pod("web-1")), ("10.0.0.9".parse().unwrap(), pod("client"))].into(),
        rule_lists: [(3, list)].into(),
    }
}
