use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use futures_util::TryStreamExt as _;
use rtnetlink::RouteMessageBuilder;
use rtnetlink::packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope,
};
use skep_agent_core::dataplane::Cidr;

use super::{Netlink, NetlinkError, not_found};

/// Who made a route, as `ip route` shows it: a number that no other routing program is registered with.
pub const OWN_PROTOCOL: u8 = 83;

/// A route of the main table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route {
    /// Where to.
    pub destination: Cidr,
    /// Next hop; `None` when the destination is on the link itself.
    pub gateway: Option<IpAddr>,
    /// Outgoing interface; `None` leaves it to the gateway's own route.
    pub ifindex: Option<u32>,
    /// Source address of connections that this namespace opens itself.
    pub source: Option<IpAddr>,
    /// The gateway is on the link although no prefix of the interface says so.
    pub onlink: bool,
}

impl Route {
    fn message(&self) -> RouteMessage {
        let mut message = match self.destination.addr() {
            IpAddr::V4(_) => RouteMessageBuilder::<Ipv4Addr>::new().build(),
            IpAddr::V6(_) => RouteMessageBuilder::<Ipv6Addr>::new().build(),
        };
        message.header.protocol = RouteProtocol::Other(OWN_PROTOCOL);
        message.header.destination_prefix_length = self.destination.prefix_len();
        if self.gateway.is_none() && self.destination.addr().is_ipv4() {
            message.header.scope = RouteScope::Link;
        }
        if self.onlink {
            message.header.flags.insert(rtnetlink::packet_route::route::RouteFlags::Onlink);
        }
        if self.destination.prefix_len() > 0 {
            message.attributes.push(RouteAttribute::Destination(self.destination.addr().into()));
        }
        message.attributes.extend(self.gateway.map(|gateway| RouteAttribute::Gateway(gateway.into())));
        message.attributes.extend(self.ifindex.map(RouteAttribute::Oif));
        message.attributes.extend(self.source.map(|source| RouteAttribute::PrefSource(source.into())));
        message
    }
}

impl Netlink {
    /// Adds a route, or changes the one to the same destination.
    ///
    /// # Errors
    /// [`NetlinkError`].
    pub async fn set_route(&self, route: &Route) -> Result<(), NetlinkError> {
        let failed = NetlinkError::of(|| format!("add route to {}{}", route.destination, via(route)));
        self.handle.route().add(route.message()).replace().execute().await.map_err(failed)
    }

    /// Removes a route of our own. That it is not there is no error.
    ///
    /// # Errors
    /// [`NetlinkError`].
    pub async fn delete_route(&self, route: &Route) -> Result<(), NetlinkError> {
        let failed = NetlinkError::of(|| format!("remove route to {}{}", route.destination, via(route)));
        match self.handle.route().del(route.message()).execute().await.map_err(failed) {
            Err(error) if !not_found(&error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Routes of the main table that have [`OWN_PROTOCOL`].
    ///
    /// # Errors
    /// [`NetlinkError`].
    pub async fn own_routes(&self) -> Result<Vec<Route>, NetlinkError> {
        let mut routes = Vec::new();
        for family in [RouteMessageBuilder::<Ipv4Addr>::new().build(), RouteMessageBuilder::<Ipv6Addr>::new().build()] {
            let failed = NetlinkError::of(|| "list routes".to_owned());
            let messages: Vec<RouteMessage> =
                self.handle.route().get(family).execute().try_collect().await.map_err(failed)?;
            routes.extend(messages.iter().filter_map(own_route));
        }
        Ok(routes)
    }
}

fn via(route: &Route) -> String {
    route.gateway.map(|gateway| format!(" via {gateway}")).unwrap_or_default()
}

fn own_route(message: &RouteMessage) -> Option<Route> {
    let header = &message.header;
    if header.protocol != RouteProtocol::Other(OWN_PROTOCOL) || header.table != RouteHeader::RT_TABLE_MAIN {
        return None;
    }
    let (mut destination, mut gateway, mut ifindex, mut source) = (None, None, None, None);
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Destination(addr) => destination = ip(addr),
            RouteAttribute::Gateway(addr) => gateway = ip(addr),
            RouteAttribute::PrefSource(addr) => source = ip(addr),
            RouteAttribute::Oif(index) => ifindex = Some(*index),
            _ => {}
        }
    }
    let destination = Cidr::new(destination?, header.destination_prefix_length).ok()?;
    let onlink = header.flags.contains(rtnetlink::packet_route::route::RouteFlags::Onlink);
    Some(Route { destination, gateway, ifindex, source, onlink })
}

fn ip(addr: &RouteAddress) -> Option<IpAddr> {
    match addr {
        RouteAddress::Inet(addr) => Some(IpAddr::V4(*addr)),
        RouteAddress::Inet6(addr) => Some(IpAddr::V6(*addr)),
        _ => None,
    }
}
