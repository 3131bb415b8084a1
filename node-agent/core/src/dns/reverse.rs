use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::Name;

/// The address that a name below `in-addr.arpa` (RFC 1035, 3.5) or `ip6.arpa` (RFC 3596, 2.5) stands for; `None` for any
/// other name, and for one that stands for a range of addresses.
#[must_use]
pub fn address_of(name: &Name) -> Option<IpAddr> {
    let mut labels: Vec<&[u8]> = name.iter().map(|label| label.as_slice()).collect();
    // The root.
    labels.pop()?;
    if !labels.pop()?.eq_ignore_ascii_case(b"arpa") {
        return None;
    }
    let zone = labels.pop()?;
    if zone.eq_ignore_ascii_case(b"in-addr") && labels.len() == 4 {
        let mut octets = [0; 4];
        for (octet, label) in octets.iter_mut().rev().zip(labels) {
            *octet = decimal(label)?;
        }
        Some(Ipv4Addr::from(octets).into())
    } else if zone.eq_ignore_ascii_case(b"ip6") && labels.len() == 32 {
        let mut bits = 0_u128;
        for label in labels.iter().rev() {
            let &[digit] = *label else { return None };
            bits = bits << 4 | u128::from(char::from(digit).to_digit(16)?);
        }
        Some(Ipv6Addr::from(bits).into())
    } else {
        None
    }
}

/// Without leading zeros: names that only look alike are not one name.
fn decimal(label: &[u8]) -> Option<u8> {
    let text = std::str::from_utf8(label).ok()?;
    let number: u8 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

/// An address as one label, as endpoints without a host name and pods have it: `10-1-2-3`, `fd00--1`.
pub(super) fn dashed(addr: IpAddr) -> String {
    match addr {
        // Half of its text would be in IPv4's notation.
        IpAddr::V6(addr) if addr.to_ipv4_mapped().is_some() => {
            addr.segments().map(|segment| format!("{segment:x}")).join("-")
        }
        addr => addr.to_string().replace(['.', ':'], "-"),
    }
}

/// The address of such a label.
pub(super) fn undashed(label: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(label).ok()?;
    if let Ok(addr) = text.replace('-', ".").parse::<Ipv4Addr>() {
        return Some(addr.into());
    }
    // With a dot in it the label would be another notation of an address, not the one with dashes.
    let addr = text.replace('-', ":").parse::<Ipv6Addr>().ok()?;
    (!text.contains(['.', ':'])).then_some(addr.into())
}
