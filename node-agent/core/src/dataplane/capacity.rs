use skep_abi::map;

/// How many entries the maps that users size have room for.
///
/// What belongs together grows together: a number of frontends needs slots for its endpoints, a number of rules by peer needs
/// rules by port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacities {
    /// Addresses and ports of Services, as many backends, and four times as many places in endpoint sets.
    pub services: u32,
    /// Addresses of pods, of the whole cluster.
    pub identities: u32,
    /// Rules of NetworkPolicies by peer; by port and by address prefix half as many.
    pub policies: u32,
    /// Connections of local pods.
    pub conntrack: u32,
    /// Entries of translations at the uplink, two a connection.
    pub nat: u32,
    /// Clients that are to stay with a backend.
    pub affinity: u32,
    /// Sockets that are connected to a Service.
    pub sockets: u32,
}

impl Default for Capacities {
    /// As the kernel object has them.
    fn default() -> Self {
        Self {
            services: 262_144,
            identities: 524_288,
            policies: 524_288,
            conntrack: 524_288,
            nat: 524_288,
            affinity: 16_384,
            sockets: 32_768,
        }
    }
}

impl Capacities {
    /// The entries of each map, by its name; other maps are as large as the kernel object makes them.
    #[must_use]
    pub fn maps(&self) -> [(&'static str, u32); 14] {
        let part = |whole: u32, divisor: u32| (whole / divisor).max(1);
        [
            (map::FRONTENDS, self.services),
            (map::BACKENDS, self.services),
            (map::SLOTS, self.services.saturating_mul(4)),
            (map::SOURCE_RANGES, part(self.services, 4)),
            (map::SERVICE_HITS, self.services),
            (map::IDENTITIES, self.identities),
            (map::PEER_RULES, self.policies),
            (map::PORT_RULES, part(self.policies, 2)),
            (map::PREFIXES, part(self.policies, 2)),
            (map::RULE_LISTS, part(self.policies, 32)),
            (map::CONNTRACK, self.conntrack),
            (map::NAT, self.nat),
            (map::AFFINITY, self.affinity),
            (map::ORIGINS, self.sockets),
        ]
    }

    /// The agent's flag that sizes a map.
    #[must_use]
    pub fn flag(name: &str) -> Option<&'static str> {
        Some(match name {
            map::FRONTENDS | map::BACKENDS | map::SLOTS | map::SOURCE_RANGES | map::SERVICE_HITS => "--service-entries",
            map::IDENTITIES => "--identity-entries",
            map::PEER_RULES | map::PORT_RULES | map::PREFIXES | map::RULE_LISTS => "--policy-entries",
            map::CONNTRACK => "--conntrack-entries",
            map::NAT => "--nat-entries",
            map::AFFINITY => "--affinity-entries",
            map::ORIGINS => "--socket-entries",
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_map_that_is_sized_has_a_flag_and_no_other_has() {
        let sized = Capacities::default().maps().map(|(name, _)| name);
        for name in map::ALL {
            assert_eq!(Capacities::flag(name).is_some(), sized.contains(&name), "{name}");
        }
    }

    #[test]
    fn what_belongs_together_grows_together() {
        let sized = Capacities { services: 1000, policies: 3200, ..Capacities::default() }.maps();
        let of = |map| sized.iter().find(|(name, _)| *name == map).unwrap().1;
        assert_eq!([map::FRONTENDS, map::BACKENDS, map::SLOTS, map::SOURCE_RANGES].map(of), [1000, 1000, 4000, 250]);
        assert_eq!([map::PEER_RULES, map::PORT_RULES, map::RULE_LISTS].map(of), [3200, 1600, 100]);
        let least = Capacities { policies: 1, ..Capacities::default() }.maps();
        assert!(least.iter().all(|(_, entries)| *entries > 0));
    }
}
