//! Address pools, whose ranges are nobody else's.
//!
//! Whether two pools overlap can only be seen by looking at all of them. So that two writers do not look at the same time,
//! each takes a turn: a key that every change of a pool's ranges writes, and that must not have changed since the look.

use bytes::Bytes;
use serde_json::Value;
use skep_control_core::address::Span;
use skep_control_core::api::resources::{Reserved, overlaps};
use skep_control_core::api::{Resource, Status, meta};
use skep_store::{Compare, Op, Store, Txn};

use super::{Api, ListOptions, failure};

const TURN: &str = "/registry/ranges/addresspools";
const POOLS: &str = "addresspools.skep.io";

/// A turn at changing a pool's ranges.
pub(super) struct Turn {
    condition: Compare,
    write: Op,
}

impl Turn {
    pub(super) fn add_to(self, txn: &mut Txn) {
        txn.compares.push(self.condition);
        txn.ops.push(self.write);
    }
}

impl Api {
    /// A turn for a pool whose ranges are new; `None` for everything else. Errors: 422 when a range is in use already.
    pub(super) async fn pool_turn(
        &self,
        resource: &Resource,
        new: &Value,
        old: Option<&Value>,
    ) -> Result<Option<Turn>, Status> {
        if resource.storage != POOLS || old.is_some_and(|old| old["spec"]["addresses"] == new["spec"]["addresses"]) {
            return Ok(None);
        }
        let key = Bytes::from_static(TURN.as_bytes());
        let (_, turn) = self.inner.store.get(&key).await.map_err(failure::status)?;
        let condition = match turn {
            Some(turn) => Compare::ModRevision(key.clone(), turn.mod_revision),
            None => Compare::Absent(key.clone()),
        };
        let pools = self.list(POOLS, "", &ListOptions::default()).await?;
        let pools = pools.items.iter().map(super::Object::value).collect::<Result<Vec<_>, _>>()?;
        let faults = overlaps(new, pools.iter(), &self.reserved());
        if !faults.is_empty() {
            return Err(Status::invalid(resource.group, resource.kind, meta::name(new), &faults));
        }
        let write = Op::Put { key, value: Bytes::copy_from_slice(meta::name(new).as_bytes()), lease: 0 };
        Ok(Some(Turn { condition, write }))
    }

    fn reserved(&self) -> Vec<Reserved> {
        let config = self.config();
        let of = |what: &'static str| {
            move |range: &crate::cidr::Cidr| {
                let span = Span::of_prefix(range.network(), range.prefix())?;
                Some(Reserved { span, purpose: format!("the {what} range {range}") })
            }
        };
        let services = config.service_cidrs.iter().filter_map(of("Service"));
        services.chain(config.cluster_cidrs.iter().filter_map(of("pod"))).collect()
    }
}
