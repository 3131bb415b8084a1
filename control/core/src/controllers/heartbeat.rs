//! When each node was last heard of, by this process's own clock.
//!
//! Times inside Leases are written by the nodes' clocks and are only compared for change. After a restart every node counts
//! as heard of at the first listing, so that an outage of the control service marks no node unreachable.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};

use super::kind::{Key, Kind};
use super::object::Object;

/// Namespace of the nodes' Leases.
pub(super) const LEASE_NAMESPACE: &str = "kube-node-lease";

#[derive(Debug)]
struct Heartbeat {
    renewed: Option<MicroTime>,
    reported: Option<Time>,
    heard: Timestamp,
}

/// Last sign of life by node name.
#[derive(Debug, Default)]
pub struct Heartbeats {
    nodes: BTreeMap<String, Heartbeat>,
}

impl Heartbeats {
    /// Takes note of a Lease or Node.
    pub(super) fn observe(&mut self, key: &Key, object: Option<&Object>, now: Timestamp) {
        match (key.kind, object) {
            (Kind::Lease, Some(Object::Lease(lease))) if key.namespace == LEASE_NAMESPACE => {
                let renewed = lease.spec.as_ref().and_then(|spec| spec.renew_time.clone());
                let beat = self.entry(&key.name, now);
                if renewed.is_some() && beat.renewed != renewed {
                    beat.renewed = renewed;
                    beat.heard = now;
                }
            }
            (Kind::Node, Some(Object::Node(node))) => {
                let reported = reported(node);
                let beat = self.entry(&key.name, now);
                if reported.is_some() && beat.reported != reported {
                    beat.reported = reported;
                    beat.heard = now;
                }
            }
            (Kind::Node, None) => {
                self.nodes.remove(&key.name);
            }
            _ => {}
        }
    }

    fn entry(&mut self, node: &str, now: Timestamp) -> &mut Heartbeat {
        self.nodes.entry(node.to_owned()).or_insert(Heartbeat { renewed: None, reported: None, heard: now })
    }

    /// When a node was last heard of.
    #[must_use]
    pub fn heard(&self, node: &str) -> Option<Timestamp> {
        self.nodes.get(node).map(|beat| beat.heard)
    }
}

fn reported(node: &Node) -> Option<Time> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == "Ready")?.last_heartbeat_time.clone()
}
