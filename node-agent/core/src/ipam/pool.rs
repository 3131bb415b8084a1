use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::dataplane::Cidr;

/// Addresses of a range that are used at most: a /64 has more than are worth remembering, and a node has few pods.
const MOST: u32 = 1024;

/// The addresses of one range: those never used yet, in order, and then those given back, longest unused first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pool {
    /// In CIDR form.
    range: String,
    first: IpAddr,
    /// Addresses from `first` on that may be used.
    size: u32,
    /// How many of them have been used at least once.
    fresh: u32,
    given_back: VecDeque<IpAddr>,
}

impl Pool {
    /// Leaves out the first and, for IPv4, the last address of the range: programs take them for the network's and the
    /// broadcast address.
    pub(super) fn new(range: &Cidr) -> Self {
        let family_bits: u8 = if range.addr().is_ipv4() { 32 } else { 128 };
        let bits = family_bits - range.prefix_len();
        let all = 1u32.checked_shl(bits.into()).unwrap_or(u32::MAX);
        let (skip, size) = match (range.addr(), all) {
            (_, 1 | 2) => (0, all),
            (IpAddr::V4(_), _) => (1, all - 2),
            (IpAddr::V6(_), _) => (1, all - 1),
        };
        Self {
            range: range.to_string(),
            first: offset(range.addr(), skip),
            size: size.min(MOST),
            fresh: 0,
            given_back: VecDeque::new(),
        }
    }

    pub(super) fn range(&self) -> &str {
        &self.range
    }

    pub(super) fn is_ipv4(&self) -> bool {
        self.first.is_ipv4()
    }

    /// The address that was unused for longest, none of `used`.
    pub(super) fn take(&mut self, used: &BTreeSet<IpAddr>) -> Option<IpAddr> {
        while self.fresh < self.size {
            let addr = offset(self.first, self.fresh);
            self.fresh += 1;
            if !used.contains(&addr) {
                return Some(addr);
            }
        }
        let position = self.given_back.iter().position(|addr| !used.contains(addr))?;
        self.given_back.remove(position)
    }

    /// Queues `addr` for reuse when it is of this pool.
    pub(super) fn give_back(&mut self, addr: IpAddr) {
        if self.holds(addr) && !self.given_back.contains(&addr) {
            self.given_back.push_back(addr);
        }
    }

    /// Whether `addr` is one that was given before.
    fn holds(&self, addr: IpAddr) -> bool {
        match (self.first, addr) {
            (IpAddr::V4(first), IpAddr::V4(addr)) => {
                addr.to_bits().checked_sub(first.to_bits()).is_some_and(|n| n < self.fresh)
            }
            (IpAddr::V6(first), IpAddr::V6(addr)) => {
                addr.to_bits().checked_sub(first.to_bits()).is_some_and(|n| n < self.fresh.into())
            }
            _ => false,
        }
    }
}

fn offset(addr: IpAddr, n: u32) -> IpAddr {
    match addr {
        IpAddr::V4(addr) => IpAddr::V4(addr.to_bits().saturating_add(n).into()),
        IpAddr::V6(addr) => IpAddr::V6(addr.to_bits().saturating_add(n.into()).into()),
    }
}
