//! Address ranges: parsing, membership, and the n-th address.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Which address of each Service range is that of cluster DNS.
pub const DNS_ADDRESS: u128 = 10;

/// A range of addresses in CIDR form, its host bits zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cidr {
    network: IpAddr,
    prefix: u8,
}

/// Why a text is no range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCidr {
    /// Not `ADDRESS/PREFIX`.
    #[error("{0:?} is not of the form ADDRESS/PREFIX")]
    Form(String),
    /// The prefix is longer than an address.
    #[error("{text:?}: the prefix may be at most {max}")]
    Prefix {
        /// What was given.
        text: String,
        /// Bits of an address of that family.
        max: u8,
    },
    /// Bits behind the prefix are set.
    #[error("{text:?} has bits set behind its prefix; did you mean {network}?")]
    HostBits {
        /// What was given.
        text: String,
        /// The range it lies in.
        network: Cidr,
    },
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

impl Cidr {
    /// The range's first address.
    pub fn network(&self) -> IpAddr {
        self.network
    }

    /// Length of the prefix in bits.
    pub fn prefix(&self) -> u8 {
        self.prefix
    }

    /// Whether the range is of IPv4 addresses.
    pub fn is_ipv4(&self) -> bool {
        self.network.is_ipv4()
    }

    fn host_mask(&self) -> u128 {
        match width(self.network) - self.prefix {
            128 => u128::MAX,
            host => (1 << host) - 1,
        }
    }

    /// Number of addresses less one.
    pub fn last_offset(&self) -> u128 {
        self.host_mask()
    }

    /// Whether the address lies in the range.
    pub fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.is_ipv4() && bits(address) & !self.host_mask() == bits(self.network)
    }

    /// The address at an offset from the first one; `None` behind the last.
    pub fn nth(&self, offset: u128) -> Option<IpAddr> {
        if offset > self.host_mask() {
            return None;
        }
        let value = bits(self.network) | offset;
        match self.network {
            IpAddr::V4(_) => u32::try_from(value).ok().map(|v| IpAddr::V4(Ipv4Addr::from_bits(v))),
            IpAddr::V6(_) => Some(IpAddr::V6(Ipv6Addr::from_bits(value))),
        }
    }
}

impl FromStr for Cidr {
    type Err = InvalidCidr;

    fn from_str(text: &str) -> Result<Self, InvalidCidr> {
        let form = || InvalidCidr::Form(text.to_owned());
        let (address, prefix) = text.split_once('/').ok_or_else(form)?;
        let address: IpAddr = address.parse().map_err(|_| form())?;
        let prefix: u8 = prefix.parse().map_err(|_| form())?;
        let max = width(address);
        if prefix > max {
            return Err(InvalidCidr::Prefix { text: text.to_owned(), max });
        }
        let given = Self { network: address, prefix };
        let network = match address {
            IpAddr::V4(v4) => {
                let mask = u32::try_from(given.host_mask()).unwrap_or(u32::MAX);
                IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & !mask))
            }
            IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !given.host_mask())),
        };
        let network = Self { network, prefix };
        if network == given { Ok(given) } else { Err(InvalidCidr::HostBits { text: text.to_owned(), network }) }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_and_counts() {
        let v4: Cidr = "10.96.0.0/16".parse().unwrap();
        assert_eq!(v4.to_string(), "10.96.0.0/16");
        assert_eq!(v4.nth(1), Some("10.96.0.1".parse().unwrap()));
        assert_eq!(v4.nth(65_535), Some("10.96.255.255".parse().unwrap()));
        assert_eq!(v4.nth(65_536), None);
        assert!(v4.contains("10.96.3.4".parse().unwrap()));
        assert!(!v4.contains("10.97.0.0".parse().unwrap()));
        assert!(!v4.contains("fd53::".parse().unwrap()));
        let v6: Cidr = "fd53:6b65:7073::/112".parse().unwrap();
        assert_eq!(v6.nth(0xffff), Some("fd53:6b65:7073::ffff".parse().unwrap()));
        assert_eq!(v6.nth(0x1_0000), None);
        let all: Cidr = "::/0".parse().unwrap();
        assert!(all.contains("ffff::1".parse().unwrap()));
    }

    #[test]
    fn refuses_what_is_no_range() {
        for text in ["", "10.0.0.0", "10.0.0.0/", "10.0.0.0/x", "10.0.0/8"] {
            assert_eq!(text.parse::<Cidr>(), Err(InvalidCidr::Form(text.into())));
        }
        assert_eq!("10.0.0.0/33".parse::<Cidr>(), Err(InvalidCidr::Prefix { text: "10.0.0.0/33".into(), max: 32 }));
        let error = "10.0.0.1/8".parse::<Cidr>().unwrap_err().to_string();
        assert_eq!(error, "\"10.0.0.1/8\" has bits set behind its prefix; did you mean 10.0.0.0/8?");
    }
}
