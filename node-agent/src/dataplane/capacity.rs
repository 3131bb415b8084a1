use clap::builder::RangedI64ValueParser;
use skep_agent_core::dataplane::Capacities;

/// What the command line says of the maps' sizes. A map that has another size takes the new one, with its entries and without
/// a connection lost; one that has more entries than it is to have room for stops the agent.
#[derive(Clone, Debug, clap::Args)]
pub struct CapacityArgs {
    /// Addresses and ports of Services that the maps have room for, as many backends, and four times as many places in
    /// endpoint sets.
    #[arg(long, value_name = "N", default_value_t = Capacities::default().services, value_parser = entries())]
    pub service_entries: u32,

    /// Addresses of pods, of the whole cluster, that the maps have room for.
    #[arg(long, value_name = "N", default_value_t = Capacities::default().identities, value_parser = entries())]
    pub identity_entries: u32,

    /// Rules of NetworkPolicies by peer that the maps have room for; by port and by address prefix half as many.
    #[arg(long, value_name = "N", default_value_t = Capacities::default().policies, value_parser = entries())]
    pub policy_entries: u32,

    /// Connections of this node's pods that are remembered.
    #[arg(long, value_name = "N", default_value_t = Capacities::default().conntrack, value_parser = entries())]
    pub conntrack_entries: u32,

    /// Entries of translations at the uplink, two a connection.
    #[arg(long, value_name = "N", default_value_t = Capacities::default().nat, value_parser = entries())]
    pub nat_entries: u32,

    /// Clients that are remembered to stay with a backend (sessionAffinity).
    #[arg(long, value_name = "N", default_value_t = Capacities::default().affinity, value_parser = entries())]
    pub affinity_entries: u32,

    /// Sockets that are remembered to be connected to a Service.
    #[arg(long, value_name = "N", default_value_t = Capacities::default().sockets, value_parser = entries())]
    pub socket_entries: u32,
}

/// Enough for a node, and not more than the kernel can make a map of.
fn entries() -> RangedI64ValueParser<u32> {
    RangedI64ValueParser::new().range(1024..=8_388_608)
}

impl CapacityArgs {
    /// The sizes.
    #[must_use]
    pub fn capacities(&self) -> Capacities {
        Capacities {
            services: self.service_entries,
            identities: self.identity_entries,
            policies: self.policy_entries,
            conntrack: self.conntrack_entries,
            nat: self.nat_entries,
            affinity: self.affinity_entries,
            sockets: self.socket_entries,
        }
    }
}
