use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use skep_agent_core::dataplane::Cidr;
use tracing::{info, warn};

use super::Dataplane;
use crate::netlink::{Netlink, NetlinkError, Route};
use crate::upstream::Backoff;

/// Other programs may take our routes away; this is how soon we notice.
const REVIEW: Duration = Duration::from_secs(60);

/// Routes to the pods of other nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WantedRoutes {
    /// Next hop to each range.
    pub(super) routes: BTreeMap<Cidr, IpAddr>,
    /// There are no others.
    pub(super) complete: bool,
}

/// Keeps the routes to the pods of other nodes at what the index asks for, for ever: by the nodes' addresses, or by the
/// interface of an `overlay`. `source` gives this node's address of a family, for the connections that the node itself opens.
pub async fn keep_routes(
    dataplane: Dataplane,
    netlink: Netlink,
    overlay: Option<u32>,
    source: impl Fn(bool) -> Option<IpAddr> + Send + 'static,
) {
    let mut wanted = dataplane.routes();
    let mut backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(30));
    loop {
        let now = wanted.borrow_and_update().clone();
        let wait = match reconcile(&netlink, &now, overlay, &source).await {
            Ok(()) => {
                dataplane.set_route_problem(None);
                backoff.reset();
                REVIEW
            }
            Err(error) => {
                let wait = backoff.next_wait();
                warn!(problem = %error, retry_in = ?wait, "routes to other nodes are not complete");
                dataplane.set_route_problem(Some(error.to_string()));
                wait
            }
        };
        // The time being up and a change call for the same.
        if let Ok(Err(_ended)) = tokio::time::timeout(wait, wanted.changed()).await {
            return;
        }
    }
}

/// Sets what is missing, removes what is stale, and goes on after a failure; the first one is returned.
async fn reconcile(
    netlink: &Netlink,
    wanted: &WantedRoutes,
    overlay: Option<u32>,
    source: &impl Fn(bool) -> Option<IpAddr>,
) -> Result<(), NetlinkError> {
    let mut first_failure = Ok(());
    let mut note = |result: Result<(), NetlinkError>| {
        if let Err(error) = result {
            if first_failure.is_ok() {
                first_failure = Err(error);
            } else {
                warn!(problem = %error, "route");
            }
        }
    };
    // Routes that go by neither are those to our own pods.
    let leads_away = |route: &Route| route.gateway.is_some() || (overlay.is_some() && route.ifindex == overlay);
    let installed: Vec<Route> = netlink.own_routes().await?.into_iter().filter(leads_away).collect();
    for (&destination, &node) in &wanted.routes {
        let source = source(destination.addr().is_ipv4());
        // The programs of the overlay know the node.
        let gateway = overlay.is_none().then_some(node);
        let there = installed.iter().any(|route| {
            let same_way = route.gateway == gateway && (overlay.is_none() || route.ifindex == overlay);
            route.destination == destination && same_way && route.source == source
        });
        if !there {
            let route = Route { destination, gateway, ifindex: overlay, source, onlink: false };
            info!(%destination, %node, overlay = overlay.is_some(), "route to another node's pods");
            note(netlink.set_route(&route).await);
        }
    }
    if wanted.complete {
        for route in installed.iter().filter(|route| !wanted.routes.contains_key(&route.destination)) {
            info!(destination = %route.destination, "route is stale");
            note(netlink.delete_route(route).await);
        }
    }
    first_failure
}
