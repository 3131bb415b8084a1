use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use skep_abi::Addr;

use super::Problem;

/// Address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// The family of an address.
    #[must_use]
    pub fn of(ip: IpAddr) -> Self {
        if ip.is_ipv4() { Self::V4 } else { Self::V6 }
    }
}

impl FromStr for Family {
    type Err = Problem;

    /// Reads a family as the Kubernetes API names it.
    fn from_str(text: &str) -> Result<Self, Problem> {
        match text {
            "IPv4" => Ok(Self::V4),
            "IPv6" => Ok(Self::V6),
            _ => Err(Problem::Family(text.to_owned())),
        }
    }
}

/// An address prefix in CIDR form; bits beyond the prefix are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cidr {
    addr: IpAddr,
    prefix_len: u8,
}

impl Cidr {
    /// Every IPv4 address.
    pub const ALL_IPV4: Self = Self { addr: IpAddr::V4(Ipv4Addr::UNSPECIFIED), prefix_len: 0 };
    /// Every IPv6 address.
    pub const ALL_IPV6: Self = Self { addr: IpAddr::V6(Ipv6Addr::UNSPECIFIED), prefix_len: 0 };

    /// The prefix of `prefix_len` bits that holds `addr`.
    ///
    /// # Errors
    ///
    /// [`Problem::Cidr`] when the family has fewer bits than `prefix_len`.
    pub fn new(addr: IpAddr, prefix_len: u8) -> Result<Self, Problem> {
        let addr = match addr {
            IpAddr::V4(v4) if prefix_len <= 32 => {
                let mask = u32::MAX.checked_shl(32 - u32::from(prefix_len)).unwrap_or(0);
                IpAddr::V4((v4.to_bits() & mask).into())
            }
            IpAddr::V6(v6) if prefix_len <= 128 => {
                let mask = u128::MAX.checked_shl(128 - u32::from(prefix_len)).unwrap_or(0);
                IpAddr::V6((v6.to_bits() & mask).into())
            }
            _ => return Err(Problem::Cidr(format!("{addr}/{prefix_len}"))),
        };
        Ok(Self { addr, prefix_len })
    }

    /// The prefix that holds one address only.
    #[must_use]
    pub fn host(addr: IpAddr) -> Self {
        Self { addr, prefix_len: if addr.is_ipv4() { 32 } else { 128 } }
    }

    /// First address.
    #[must_use]
    pub fn addr(&self) -> IpAddr {
        self.addr
    }

    /// Length in bits of the family: 0 to 32, or 0 to 128.
    #[must_use]
    pub fn prefix_len(&self) -> u8 {
        self.prefix_len
    }

    /// The family of the addresses.
    #[must_use]
    pub fn family(&self) -> Family {
        Family::of(self.addr)
    }

    /// Whether `addr` is in the prefix. An address of the other family never is.
    #[must_use]
    pub fn contains(&self, addr: IpAddr) -> bool {
        addr.is_ipv4() == self.addr.is_ipv4()
            && Self::new(addr, self.prefix_len).is_ok_and(|other| other.addr == self.addr)
    }

    /// Whether every address of `other` is in this prefix.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self.prefix_len <= other.prefix_len && self.contains(other.addr)
    }

    /// Length of the prefix in the 128-bit form that the maps use: IPv4 is mapped, so 96 bits more.
    #[must_use]
    pub(crate) fn mapped_len(&self) -> u32 {
        u32::from(self.prefix_len) + if self.addr.is_ipv4() { 96 } else { 0 }
    }
}

impl FromStr for Cidr {
    type Err = Problem;

    fn from_str(text: &str) -> Result<Self, Problem> {
        let invalid = || Problem::Cidr(text.to_owned());
        let (addr, prefix_len) = text.split_once('/').ok_or_else(invalid)?;
        // u8::from_str takes "+8" and "008", which no CIDR is written as.
        let canonical = prefix_len == "0" || !prefix_len.starts_with(['0', '+']);
        let prefix_len: u8 = prefix_len.parse().ok().filter(|_| canonical).ok_or_else(invalid)?;
        let addr: IpAddr = addr.parse().map_err(|_| invalid())?;
        // IPv4 written as IPv6 is IPv4: the maps carry both alike.
        match addr.to_canonical() {
            v4 @ IpAddr::V4(_) if addr.is_ipv6() && prefix_len >= 96 => Self::new(v4, prefix_len - 96),
            _ => Self::new(addr, prefix_len),
        }
        .map_err(|_| invalid())
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr, self.prefix_len)
    }
}

/// The form in which the maps carry an address. An IPv4-mapped IPv6 address is the IPv4 address.
#[must_use]
pub fn abi_addr(addr: IpAddr) -> Addr {
    match addr {
        IpAddr::V4(v4) => Addr::v4(v4.octets()),
        IpAddr::V6(v6) => Addr::v6(v6.octets()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_canonical_text_and_clears_host_bits() {
        for (text, shown) in [
            ("10.1.2.3/8", "10.0.0.0/8"),
            ("10.1.2.3/32", "10.1.2.3/32"),
            ("10.1.2.3/0", "0.0.0.0/0"),
            ("fd00::1/64", "fd00::/64"),
            ("::/0", "::/0"),
            ("::ffff:10.1.2.3/104", "10.0.0.0/8"),
        ] {
            assert_eq!(text.parse::<Cidr>().map(|cidr| cidr.to_string()), Ok(shown.to_owned()), "{text}");
        }
        for text in
            ["", "10.0.0.0", "10.0.0.0/33", "fd00::/129", "10.0.0.0/+8", "10.0.0.0/08", "10.0.0/8", "a/8", "1.2.3.4/"]
        {
            assert_eq!(text.parse::<Cidr>(), Err(Problem::Cidr(text.to_owned())), "{text}");
        }
    }

    #[test]
    fn families_never_mix() {
        let all4: Cidr = "0.0.0.0/0".parse().unwrap();
        let all6: Cidr = "::/0".parse().unwrap();
        let v4: IpAddr = "10.0.0.1".parse().unwrap();
        let v6: IpAddr = "fd00::1".parse().unwrap();
        assert!(all4.contains(v4) && !all4.contains(v6));
        assert!(all6.contains(v6) && !all6.contains(v4));
        assert_eq!((all4.mapped_len(), all6.mapped_len()), (96, 0));
    }
}
