//! Which slots belong to which backend when a Service asks for Maglev.
//!
//! As in Maglev (Eisenbud et al., NSDI 2016, section 3.4), a table that depends on nothing but the backends' addresses and
//! ports is looked up by a hash of the connection: every node has the same table, and a connection whose packets come to
//! another node from now on meets the same backend there.
//!
//! The table is filled otherwise. Maglev's own way makes shares equal to a slot and pays for it when a backend goes: one
//! and a half to two and a half times the slots of that backend move. Here each slot takes the backend with the highest
//! hash of both (rendezvous hashing), so that only the slots of the backend that goes move, and shares are kept even by a
//! bound: a backend that has a quarter more than its share gets no further slot.

use sha2::{Digest as _, Sha256};

use super::backends::BackendKey;
use super::mix;

/// Sizes of tables, in slots.
const SIZES: [usize; 7] = [251, 1_021, 4_093, 16_381, 32_749, 65_521, 131_071];
/// Slots for each backend, at least.
const SLOTS_EACH: usize = 100;

/// For each slot the place of its backend in `backends`, whose order must be that of the keys. Without backends there are
/// no slots. Beyond the largest size shares become coarser.
///
/// The step to another size of table moves nearly all slots; within one, hardly more than must move do.
pub(super) fn table(backends: &[BackendKey]) -> Vec<usize> {
    if backends.is_empty() {
        return Vec::new();
    }
    let wanted = backends.len().saturating_mul(SLOTS_EACH);
    let size = SIZES.into_iter().find(|&size| size >= wanted).unwrap_or(SIZES[SIZES.len() - 1]);
    let most = (size * 5).div_ceil(backends.len() * 4);
    let seeds: Vec<u64> = backends.iter().map(seed).collect();
    let mut shares = vec![0_usize; backends.len()];
    let mut owners = Vec::with_capacity(size);
    for slot in 0..size as u64 {
        let slot = mix(slot);
        let open = seeds.iter().zip(&shares).enumerate().filter(|(_, (_, share))| **share < most);
        let best = open.max_by_key(|(_, (seed, _))| mix(**seed ^ slot)).map_or(0, |(at, _)| at);
        if let Some(share) = shares.get_mut(best) {
            *share += 1;
        }
        owners.push(best);
    }
    owners
}

/// A number of the backend that is the same everywhere.
fn seed(key: &BackendKey) -> u64 {
    let mut hash = Sha256::new();
    hash.update(key.addr.0);
    hash.update(key.port.to_be_bytes());
    hash.update([key.proto]);
    hash.finalize().iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use skep_abi::Addr;

    use super::*;

    fn backends(count: u16) -> Vec<BackendKey> {
        (0..count)
            .map(|n| BackendKey { addr: Addr::v4([10, 0, (n >> 8) as u8, n as u8]), port: 8080, proto: 6 })
            .collect()
    }

    fn shares(table: &[usize]) -> BTreeMap<usize, usize> {
        let mut shares = BTreeMap::new();
        table.iter().for_each(|&backend| *shares.entry(backend).or_insert(0) += 1);
        shares
    }

    /// Slots that one has and the other has not with the same backend.
    fn moved(a: (&[BackendKey], &[usize]), b: (&[BackendKey], &[usize])) -> usize {
        assert_eq!(a.1.len(), b.1.len());
        a.1.iter().zip(b.1).filter(|(x, y)| a.0[**x] != b.0[**y]).count()
    }

    #[test]
    fn when_one_of_a_hundred_goes_hardly_more_than_its_own_slots_move() {
        let before = backends(100);
        let table_before = table(&before);
        let mut worst = 0.0_f64;
        for gone in 0..before.len() {
            let mut after = before.clone();
            after.remove(gone);
            let table_after = table(&after);
            let ideal = shares(&table_before)[&gone] as f64;
            worst = worst.max(moved((&before, &table_before), (&after, &table_after)) as f64 / ideal);
        }
        assert!((1.0..=1.2).contains(&worst), "{worst}");
    }

    #[test]
    fn every_node_has_the_same_table() {
        // Fixed: nodes of two versions must agree.
        let table = table(&backends(10));
        let fold = table.iter().fold(0_u64, |sum, &backend| mix(sum ^ backend as u64));
        assert_eq!((table.len(), fold), (1_021, 16_055_441_216_742_048_282));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn shares_are_even(count in 1_u16..160) {
            let table = table(&backends(count));
            let shares = shares(&table);
            prop_assert_eq!(shares.len(), usize::from(count));
            let even = table.len() as f64 / f64::from(count);
            prop_assert!(shares.values().all(|&share| (0.5 * even..1.25 * even + 1.0).contains(&(share as f64))));
            prop_assert!(table.len() >= usize::from(count) * SLOTS_EACH);
        }
    }

    #[test]
    fn no_backends_no_slots() {
        assert_eq!(table(&[]), Vec::<usize>::new());
        assert_eq!(shares(&table(&backends(1))), [(0, 251)].into());
    }
}
