//! Choice of a backend.

use skep_abi::{Addr, Backend, BackendState, Frontend, OriginKey, frontend_flags};

/// Slots that are looked at for one connection before the search is given up.
///
/// More than one, because an endpoint set may hold terminating backends or name one that was removed this moment.
pub const ATTEMPTS: u32 = 8;

/// Where a choice begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(pub u32);

impl Seed {
    /// The seed for a frontend: `random` unless the Service wants a client to stay, then a hash of the `client`.
    #[inline(always)]
    pub fn new(frontend: &Frontend, random: u32, client: u64) -> Self {
        if frontend.flags & frontend_flags::AFFINITY != 0 {
            Self::sticky(frontend.service, client)
        } else {
            Self(random)
        }
    }

    /// A seed that is the same for the same client and Service.
    #[inline(always)]
    pub fn sticky(service: u32, client: u64) -> Self {
        Self(mix(client ^ ((service as u64) << 32)))
    }

    /// The slot to look at in the `attempt`-th try; `count` must not be 0.
    #[inline(always)]
    pub fn index(self, attempt: u32, count: u32) -> u32 {
        // The high half of the product maps 32 bits evenly onto the count without a division by a variable.
        let first = ((self.0 as u64 * count as u64) >> 32) as u32;
        let index = first.wrapping_add(attempt);
        // One subtraction wraps: attempts beyond the count would only repeat slots that were seen.
        if index >= count { index.wrapping_sub(count) } else { index }
    }
}

/// A client's number for [`Seed::sticky`] out of its address.
#[inline(always)]
pub fn client(addr: &Addr) -> u64 {
    let a = &addr.0;
    let high = u64::from_ne_bytes([a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]]);
    let low = u64::from_ne_bytes([a[8], a[9], a[10], a[11], a[12], a[13], a[14], a[15]]);
    high.rotate_left(29) ^ low
}

/// What to do with a backend that a slot named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fitness {
    /// Take it.
    Take,
    /// Take it when no better one is found.
    LastResort,
}

/// Judges a candidate.
#[inline(always)]
pub fn fitness(backend: &Backend) -> Fitness {
    if backend.state == BackendState::Active as u8 { Fitness::Take } else { Fitness::LastResort }
}

/// The key under which a socket's translation is remembered.
#[inline(always)]
pub fn origin_key(cookie: u64, backend: &Addr, port_be: u16, proto: u8) -> OriginKey {
    OriginKey { cookie, addr: *backend, port_be, proto, pad: [0; 5] }
}

/// Spreads 64 bits over 32 (the finaliser of MurmurHash3).
#[inline(always)]
fn mix(mut x: u64) -> u32 {
    x ^= x >> 33;
    x = x.wrapping_mul(0xff51_afd7_ed55_8ccd);
    x ^= x >> 33;
    x = x.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^= x >> 33;
    x as u32
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_attempt_is_a_slot_and_no_slot_comes_twice(seed: u32, count in 1_u32..2000) {
            let tries: Vec<u32> = (0..ATTEMPTS.min(count)).map(|attempt| Seed(seed).index(attempt, count)).collect();
            prop_assert!(tries.iter().all(|index| *index < count));
            let distinct: BTreeSet<u32> = tries.iter().copied().collect();
            prop_assert_eq!(distinct.len(), tries.len());
        }

        #[test]
        fn a_client_stays(service: u32, client: u64, count in 1_u32..100) {
            let frontend = Frontend { service, generation: 1, count, flags: frontend_flags::AFFINITY, affinity_timeout: 10 };
            let seeds = [Seed::new(&frontend, 1, client), Seed::new(&frontend, u32::MAX, client)];
            prop_assert_eq!(seeds[0], seeds[1]);
        }
    }

    #[test]
    fn attempts_beyond_the_count_stay_within_it_when_the_count_is_small() {
        for count in 1..4 {
            for attempt in 0..count {
                assert!(Seed(u32::MAX).index(attempt, count) < count);
            }
        }
    }

    #[test]
    fn sticky_seeds_spread_clients() {
        let mut hits = [0_u32; 4];
        for client in 0..4000_u64 {
            hits[Seed::sticky(7, client).index(0, 4) as usize] += 1;
        }
        assert!(hits.iter().all(|n| (800..1200).contains(n)), "{hits:?}");
    }
}
