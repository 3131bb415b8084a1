//! Service addresses and node ports, each held by one Service.
//!
//! What holds is in the store: one key for each address and port, written and deleted in the transaction that writes
//! the Service. The set in memory only says where to look for a free one; a wrong guess costs a retry.

use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use serde_json::Value;
use skep_control_core::api::Status;
use skep_control_core::api::service_ip::{NodePorts, ServiceCidrs, ServiceRanges, Taken, allocate};
use skep_store::{Compare, Op, Store, Txn};

use super::{failure, key};
use crate::Backend;
use crate::cidr::Cidr;

const ADDRESSES: &str = "/registry/ranges/serviceips/";
const NODE_PORTS: &str = "/registry/ranges/servicenodeports/";

pub(super) struct Addresses {
    ranges: ServiceRanges,
    taken: Mutex<Taken>,
}

/// What one transaction takes and frees. What it took is given back when it is dropped uncommitted.
pub(super) struct Claim<'a> {
    addresses: &'a Addresses,
    takes: Taken,
    frees: Taken,
    holder: String,
    committed: bool,
}

impl Addresses {
    pub(super) async fn load(store: &Backend, ranges: &[Cidr], node_ports: NodePorts) -> Result<Self, Status> {
        let mut cidrs = ServiceCidrs { v4: None, v6: None };
        for range in ranges {
            match range.network() {
                IpAddr::V4(network) => cidrs.v4 = Some((network, range.prefix())),
                IpAddr::V6(network) => cidrs.v6 = Some((network, range.prefix())),
            }
        }
        let mut taken = Taken::default();
        for prefix in [ADDRESSES, NODE_PORTS] {
            let result = store.range(key::prefix_range(prefix, None), None, 0).await.map_err(failure::status)?;
            for kv in result.kvs {
                add(&mut taken, &kv.key);
            }
        }
        Ok(Self { ranges: ServiceRanges { cidrs, node_ports }, taken: Mutex::new(taken) })
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        // The set is a hint: whatever a panicking thread left in it does no harm.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the Service what it lacks, and claims what it has more than `old`.
    ///
    /// Errors: 422 when an asked address or port cannot be had, 500 when there is none left.
    pub(super) fn claim(&self, service: &mut Value, old: Option<&Value>, holder: &str) -> Result<Claim<'_>, Status> {
        let mut taken = self.lock();
        let random = u64::from_le_bytes(first_eight(uuid::Uuid::new_v4().as_bytes()));
        allocate(service, old, &self.ranges, &taken, random)?;
        let (now, before) = (held(Some(service)), held(old));
        let takes = difference(&now, &before);
        let frees = difference(&before, &now);
        taken.addresses.extend(&takes.addresses);
        taken.node_ports.extend(&takes.node_ports);
        Ok(Claim { addresses: self, takes, frees, holder: holder.to_owned(), committed: false })
    }

    /// Frees all that a Service holds.
    pub(super) fn release(&self, service: &Value) -> Claim<'_> {
        let (takes, frees) = (Taken::default(), held(Some(service)));
        Claim { addresses: self, takes, frees, holder: String::new(), committed: false }
    }

    /// Learns from a conflict that a key is held after all.
    pub(super) fn learn(&self, key: &[u8]) {
        add(&mut self.lock(), key);
    }
}

impl Claim<'_> {
    /// Adds the conditions and writes to the transaction that writes the Service.
    pub(super) fn add_to(&self, txn: &mut Txn) {
        for key in keys(&self.takes) {
            txn.compares.push(Compare::Absent(key.clone()));
            txn.ops.push(Op::Put { key, value: Bytes::from(self.holder.clone()), lease: 0 });
        }
        txn.ops.extend(keys(&self.frees).map(|key| Op::Delete { key }));
    }

    pub(super) fn commit(mut self) {
        self.committed = true;
        forget(&mut self.addresses.lock(), &self.frees);
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if !self.committed {
            forget(&mut self.addresses.lock(), &self.takes);
        }
    }
}

fn forget(taken: &mut Taken, gone: &Taken) {
    for address in &gone.addresses {
        taken.addresses.remove(address);
    }
    for port in &gone.node_ports {
        taken.node_ports.remove(port);
    }
}

fn held(service: Option<&Value>) -> Taken {
    let mut held = Taken::default();
    if let Some(service) = service {
        held.add(service);
    }
    held
}

fn difference(of: &Taken, without: &Taken) -> Taken {
    Taken {
        addresses: of.addresses.difference(&without.addresses).copied().collect(),
        node_ports: of.node_ports.difference(&without.node_ports).copied().collect(),
    }
}

fn keys(of: &Taken) -> impl Iterator<Item = Bytes> {
    let addresses = of.addresses.iter().map(|address| Bytes::from(format!("{ADDRESSES}{address}")));
    let ports = of.node_ports.iter().map(|port| Bytes::from(format!("{NODE_PORTS}{port}")));
    addresses.chain(ports)
}

fn add(taken: &mut Taken, key: &[u8]) {
    let Ok(key) = std::str::from_utf8(key) else { return };
    if let Some(address) = key.strip_prefix(ADDRESSES) {
        taken.addresses.extend(address.parse::<IpAddr>().ok());
    } else if let Some(port) = key.strip_prefix(NODE_PORTS) {
        taken.node_ports.extend(port.parse::<u16>().ok());
    }
}

fn first_eight(bytes: &[u8; 16]) -> [u8; 8] {
    let mut eight = [0; 8];
    eight.copy_from_slice(&bytes[..8]);
    eight
}
