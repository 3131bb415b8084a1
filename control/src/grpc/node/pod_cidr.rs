//! Which node has which range of pod addresses.
//!
//! A claim is a key of its own, `/registry/ranges/podcidrs/INDEX`, whose value is the node's name: two nodes can never
//! hold the same range, whoever hands them out. The index counts /24 (IPv4) and /64 (IPv6) subnets of the cluster's
//! ranges, so both families of a node have the same one.

use std::collections::BTreeMap;

use bytes::Bytes;
use skep_store::{Compare, Error, KeyRange, Op, Store, Txn, TxnOutcome};
use tonic::Status;

use crate::api::Api;
use crate::cidr::Cidr;

const CLAIMS: &str = "/registry/ranges/podcidrs/";
/// Claims that are tried before the node is asked to come again; each failure means that another node got one.
const ATTEMPTS: usize = 100;

/// Prefix lengths of a node's ranges.
const NODE_PREFIX_V4: u8 = 24;
const NODE_PREFIX_V6: u8 = 64;

/// The cluster's ranges, cut into those of nodes.
#[derive(Debug)]
pub(super) struct PodCidrs {
    /// IPv4 first.
    ranges: Vec<Cidr>,
}

/// A claim that is stored.
#[derive(Debug)]
struct Claim {
    node: String,
    revision: u64,
}

impl PodCidrs {
    pub(super) fn new(cluster: &[Cidr]) -> Self {
        let mut ranges = cluster.to_vec();
        ranges.sort_by_key(|range| !range.is_ipv4());
        Self { ranges }
    }

    /// Number of nodes that there are ranges for.
    fn size(&self) -> u64 {
        self.ranges.iter().map(|range| 1_u64 << subnet_bits(range).min(63)).min().unwrap_or(0)
    }

    /// The ranges of an index in CIDR form; empty beyond the last one.
    fn at(&self, index: u64) -> Vec<String> {
        let subnet = |range: &Cidr| {
            let (prefix, width) = node_prefix(range);
            let address = range.nth(u128::from(index) << (width - prefix))?;
            Some(format!("{address}/{prefix}"))
        };
        if index >= self.size() { Vec::new() } else { self.ranges.iter().filter_map(subnet).collect() }
    }

    /// Claims ranges for a node, or finds what it has claimed. Errors: `RESOURCE_EXHAUSTED` when all are taken.
    pub(super) async fn claim(&self, api: &Api, node: &str) -> Result<Vec<String>, Status> {
        for _ in 0..ATTEMPTS {
            let claims = claims(api).await?;
            if let Some((index, _)) = claims.iter().find(|(_, claim)| claim.node == node) {
                return Ok(self.at(*index));
            }
            let (index, compare) = match lowest_free(&claims, self.size()) {
                Some(index) => (index, Compare::Absent(key(index))),
                None => self.abandoned(api, &claims).await?,
            };
            let value = Bytes::copy_from_slice(node.as_bytes());
            let ops = vec![Op::Put { key: key(index), value, lease: 0 }];
            let outcome =
                api.store().txn(Txn { compares: vec![compare], ops }).await.map_err(|error| failed(&error))?;
            if let TxnOutcome::Committed(_) = outcome {
                return Ok(self.at(index));
            }
        }
        Err(Status::aborted("too many nodes register at once; please try again"))
    }

    /// A claim of a node that is no more.
    async fn abandoned(&self, api: &Api, claims: &BTreeMap<u64, Claim>) -> Result<(u64, Compare), Status> {
        for (index, claim) in claims {
            if let Err(error) = api.get("nodes", "", &claim.node).await
                && error.is_not_found()
            {
                return Ok((*index, Compare::ModRevision(key(*index), claim.revision)));
            }
        }
        let size = self.size();
        Err(Status::resource_exhausted(format!(
            "all {size} ranges of pod addresses in --cluster-cidr are taken by nodes"
        )))
    }
}

fn node_prefix(range: &Cidr) -> (u8, u8) {
    if range.is_ipv4() { (NODE_PREFIX_V4, 32) } else { (NODE_PREFIX_V6, 128) }
}

/// Bits that number the nodes of a range.
fn subnet_bits(range: &Cidr) -> u32 {
    u32::from(node_prefix(range).0.saturating_sub(range.prefix()))
}

fn key(index: u64) -> Bytes {
    // A fixed width keeps the claims in the order of their numbers.
    Bytes::from(format!("{CLAIMS}{index:010}"))
}

async fn claims(api: &Api) -> Result<BTreeMap<u64, Claim>, Status> {
    let list = api.store().range(KeyRange::prefix(CLAIMS), None, 0).await.map_err(|error| failed(&error))?;
    let claims = list.kvs.iter().filter_map(|kv| {
        let index = std::str::from_utf8(kv.key.strip_prefix(CLAIMS.as_bytes())?).ok()?.parse().ok()?;
        let node = String::from_utf8(kv.value.to_vec()).ok()?;
        Some((index, Claim { node, revision: kv.mod_revision }))
    });
    Ok(claims.collect())
}

fn lowest_free(claims: &BTreeMap<u64, Claim>, size: u64) -> Option<u64> {
    let taken = claims.keys().zip(0..).take_while(|(index, expected)| *index == expected).count() as u64;
    (taken < size).then_some(taken)
}

fn failed(error: &Error) -> Status {
    Status::unavailable(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(texts: &[&str]) -> PodCidrs {
        PodCidrs::new(&texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<_>>())
    }

    #[test]
    fn nodes_get_consecutive_subnets_ipv4_first() {
        let cidrs = ranges(&["fd53:6b65:7070::/56", "10.244.0.0/16"]);
        assert_eq!(cidrs.size(), 256);
        assert_eq!(cidrs.at(0), ["10.244.0.0/24", "fd53:6b65:7070::/64"]);
        assert_eq!(cidrs.at(255), ["10.244.255.0/24", "fd53:6b65:7070:ff::/64"]);
        assert!(cidrs.at(256).is_empty());
        assert_eq!(ranges(&["10.0.0.0/24"]).at(0), ["10.0.0.0/24"]);
    }

    #[test]
    fn the_lowest_free_one_is_taken() {
        let claim = || Claim { node: String::new(), revision: 1 };
        let claims = |taken: &[u64]| taken.iter().map(|index| (*index, claim())).collect();
        assert_eq!(lowest_free(&claims(&[]), 2), Some(0));
        assert_eq!(lowest_free(&claims(&[0, 2]), 3), Some(1));
        assert_eq!(lowest_free(&claims(&[0, 1]), 2), None);
    }
}
