//! Addresses in texts of objects: single ones, CIDR ranges and spans between two addresses.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Every address from a first to a last one of the same family, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    first: IpAddr,
    last: IpAddr,
}

/// Why a text is no [`Span`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSpan {
    /// Neither `ADDRESS/PREFIX` nor `FIRST-LAST`.
    #[error(
        "must be a CIDR (e.g. 192.0.2.0/24 or 2001:db8::/120) or a range of addresses (e.g. 192.0.2.10-192.0.2.20)"
    )]
    Form,
    /// The ends are of two families.
    #[error("both ends of a range must be of one family")]
    Families,
    /// The last address is before the first.
    #[error("the first address of a range must not be behind its last")]
    Order,
    /// Bits behind the prefix are set.
    #[error("has bits set behind its prefix")]
    HostBits,
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn address(number: u128, is_ipv4: bool) -> IpAddr {
    match u32::try_from(number) {
        Ok(number) if is_ipv4 => Ipv4Addr::from_bits(number).into(),
        _ => Ipv6Addr::from_bits(number).into(),
    }
}

/// Network address and prefix length of `ADDRESS/PREFIX`; bits behind the prefix stay as they are given.
#[must_use]
pub fn parse_cidr(text: &str) -> Option<(IpAddr, u8)> {
    let (address, length) = text.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    // A sign would be taken as part of a number.
    let length: u8 = length.bytes().all(|byte| byte.is_ascii_digit()).then(|| length.parse().ok())??;
    (length <= if address.is_ipv4() { 32 } else { 128 }).then_some((address, length))
}

impl Span {
    /// Reads `ADDRESS/PREFIX` or `FIRST-LAST`.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, InvalidSpan> {
        if let Some((first, last)) = text.split_once('-') {
            let end = |text: &str| text.trim().parse::<IpAddr>().map_err(|_| InvalidSpan::Form);
            let (first, last) = (end(first)?, end(last)?);
            if first.is_ipv4() != last.is_ipv4() {
                return Err(InvalidSpan::Families);
            }
            return if first <= last { Ok(Self { first, last }) } else { Err(InvalidSpan::Order) };
        }
        let (network, length) = parse_cidr(text).ok_or(InvalidSpan::Form)?;
        let span = Self::of_prefix(network, length).ok_or(InvalidSpan::Form)?;
        if span.first == network { Ok(span) } else { Err(InvalidSpan::HostBits) }
    }

    /// The network that an address with this prefix length lies in; `None` when the prefix is longer than an address.
    #[must_use]
    pub fn of_prefix(within: IpAddr, length: u8) -> Option<Self> {
        let width: u8 = if within.is_ipv4() { 32 } else { 128 };
        let host = match width.checked_sub(length)? {
            128 => u128::MAX,
            bits => (1_u128 << bits) - 1,
        };
        let first = number(within) & !host;
        Some(Self { first: address(first, within.is_ipv4()), last: address(first | host, within.is_ipv4()) })
    }

    /// Whether the addresses are of IPv4.
    #[must_use]
    pub fn is_ipv4(&self) -> bool {
        self.first.is_ipv4()
    }

    /// Whether the address is one of them.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.is_ipv4() && self.first <= address && address <= self.last
    }

    /// Whether both have an address in common.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.is_ipv4() == other.is_ipv4() && self.first <= other.last && other.first <= self.last
    }

    /// How many addresses there are; the whole of IPv6 counts as one less, which is the most that can be said.
    #[must_use]
    pub fn count(&self) -> u128 {
        (number(self.last) - number(self.first)).saturating_add(1)
    }

    /// The address at an offset from the first; `None` behind the last.
    #[must_use]
    pub fn nth(&self, offset: u128) -> Option<IpAddr> {
        let number = number(self.first).checked_add(offset)?;
        (number <= self::number(self.last)).then(|| address(number, self.is_ipv4()))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

/// What keeps packets from being sent to an address from anywhere, in the words of Kubernetes; `None` when nothing does.
#[must_use]
pub fn special(address: IpAddr) -> Option<String> {
    let (link_local, link_local_multicast) = match address {
        IpAddr::V4(ip) => (ip.is_link_local(), ip.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(ip) => (ip.is_unicast_link_local(), ip.segments()[0] & 0xff0f == 0xff02),
    };
    if address.is_unspecified() {
        Some(format!("may not be unspecified ({address})"))
    } else if address.is_loopback() {
        Some("may not be in the loopback range (127.0.0.0/8, ::1/128)".to_owned())
    } else if link_local {
        Some("may not be in the link-local range (169.254.0.0/16, fe80::/10)".to_owned())
    } else if link_local_multicast {
        Some("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)".to_owned())
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn span(text: &str) -> Span {
        Span::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn both_forms_of_both_families() {
        for (text, shown, count) in [
            ("192.0.2.0/30", "192.0.2.0-192.0.2.3", 4),
            ("192.0.2.7/32", "192.0.2.7-192.0.2.7", 1),
            ("192.0.2.9-192.0.2.20", "192.0.2.9-192.0.2.20", 12),
            ("192.0.2.9 - 192.0.2.9", "192.0.2.9-192.0.2.9", 1),
            ("0.0.0.0/0", "0.0.0.0-255.255.255.255", 1 << 32),
            ("2001:db8::/126", "2001:db8::-2001:db8::3", 4),
            ("2001:db8::fffe-2001:db8::1:1", "2001:db8::fffe-2001:db8::1:1", 4),
            ("::/0", "::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", u128::MAX),
        ] {
            assert_eq!((span(text).to_string().as_str(), span(text).count()), (shown, count), "{text}");
        }
    }

    #[test]
    fn what_is_no_span_says_why() {
        for (text, wrong) in [
            ("", InvalidSpan::Form),
            ("192.0.2.1", InvalidSpan::Form),
            ("192.0.2.0/33", InvalidSpan::Form),
            ("192.0.2.0/+8", InvalidSpan::Form),
            ("192.0.2.0/", InvalidSpan::Form),
            ("192.0.2.1-x", InvalidSpan::Form),
            ("192.0.2.1-2001:db8::1", InvalidSpan::Families),
            ("192.0.2.2-192.0.2.1", InvalidSpan::Order),
            ("192.0.2.1/24", InvalidSpan::HostBits),
        ] {
            assert_eq!(Span::parse(text), Err(wrong), "{text}");
        }
    }

    #[test]
    fn families_do_not_meet() {
        // The same bits in the other family.
        let (four, six) = (span("0.0.0.0/8"), span("::/104"));
        assert!(!four.overlaps(&six) && !six.overlaps(&four));
        assert!(!four.contains("::1".parse().unwrap()) && !six.contains("0.0.0.1".parse().unwrap()));
        assert!(span("192.0.2.0/24").overlaps(&span("192.0.2.255-192.0.3.1")));
        assert!(!span("192.0.2.0/24").overlaps(&span("192.0.3.0-192.0.3.1")));
    }

    #[test]
    fn special_addresses_are_named() {
        for (address, word) in [
            ("0.0.0.0", "unspecified"),
            ("::", "unspecified"),
            ("127.0.0.2", "loopback"),
            ("::1", "loopback"),
            ("169.254.1.1", "link-local range"),
            ("fe80::1", "link-local range"),
            ("224.0.0.251", "multicast"),
            ("ff02::1", "multicast"),
        ] {
            let said = special(address.parse().unwrap());
            assert!(said.as_deref().is_some_and(|said| said.contains(word)), "{address}: {said:?}");
        }
        for address in ["192.0.2.1", "10.0.0.1", "2001:db8::1", "224.0.1.1", "fd00::1"] {
            assert_eq!(special(address.parse().unwrap()), None, "{address}");
        }
    }

    proptest! {
        #[test]
        fn an_offset_leads_into_the_span(first: u32, size in 0_u32..10_000, offset in 0_u128..20_000) {
            let last = first.saturating_add(size);
            let span = span(&format!("{}-{}", Ipv4Addr::from_bits(first), Ipv4Addr::from_bits(last)));
            prop_assert_eq!(span.count(), u128::from(last - first) + 1);
            match span.nth(offset) {
                Some(address) => prop_assert!(span.contains(address)),
                None => prop_assert!(offset >= span.count()),
            }
        }
    }
}
