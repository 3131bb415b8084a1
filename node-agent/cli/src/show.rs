//! How the small things look: addresses, ports, protocols, names of pods.

use std::net::{IpAddr, SocketAddr};

use skep_abi::{Addr, Bits};
use skep_agent_core::dataplane::{Names, PodName};

/// An address, or "" for none.
pub(crate) fn address(addr: Addr) -> String {
    if addr == Addr::NONE { String::new() } else { IpAddr::from(addr).to_string() }
}

/// `address:port`, or "" for no address.
pub(crate) fn socket(addr: Addr, port_be: u16) -> String {
    if addr == Addr::NONE { String::new() } else { SocketAddr::new(addr.into(), u16::from_be(port_be)).to_string() }
}

/// Name of an IP protocol.
pub(crate) fn protocol(number: u8) -> String {
    match number {
        1 => "ICMP".to_owned(),
        6 => "TCP".to_owned(),
        17 => "UDP".to_owned(),
        58 => "ICMPv6".to_owned(),
        132 => "SCTP".to_owned(),
        other => other.to_string(),
    }
}

/// `namespace/name`.
pub(crate) fn pod(pod: &PodName) -> String {
    format!("{}/{}", pod.namespace, pod.name)
}

/// The pod at an address, or "".
pub(crate) fn pod_at(addr: Addr, names: &Names) -> String {
    names.addresses.get(&addr.into()).map(pod).unwrap_or_default()
}

/// The pod behind a local endpoint, or "".
pub(crate) fn endpoint(id: u32, names: &Names) -> String {
    names.endpoints.get(&id).map(pod).unwrap_or_default()
}

/// The pod behind a backend, or "".
pub(crate) fn backend(id: u32, names: &Names) -> String {
    names.backends.get(&id).map(|pod| format!("{}/{}", pod.namespace, pod.pod)).unwrap_or_default()
}

/// `namespace/name:port` of a Service, or "".
pub(crate) fn service(id: u32, names: &Names) -> String {
    let name = names.services.get(&id);
    name.map(|name| {
        let colon = if name.port.is_empty() { "" } else { ":" };
        format!("{}/{}{colon}{}", name.namespace, name.name, name.port)
    })
    .unwrap_or_default()
}

/// Namespace and labels of an identity, or "".
pub(crate) fn identity(identity: u64, names: &Names) -> String {
    let name = names.identities.get(&identity);
    name.map(|name| {
        let labels: Vec<_> = name.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        format!("{} {}", name.namespace, labels.join(",")).trim_end().to_owned()
    })
    .unwrap_or_default()
}

/// An identity's number.
pub(crate) fn identity_number(identity: u64) -> String {
    format!("{identity:016x}")
}

/// Where a rule list comes from: `namespace: policies`, or "".
pub(crate) fn rule_list(list: u32, names: &Names) -> String {
    let name = names.rule_lists.get(&list);
    name.map(|name| format!("{} {}: {}", name.direction, name.namespace, name.policies.join(","))).unwrap_or_default()
}

/// Positions of the bits that are set.
pub(crate) fn bits(bits: &Bits) -> Vec<usize> {
    (0..256).filter(|&bit| has_bit(bits, bit)).collect()
}

/// The positions as ranges: `0-3,7`.
pub(crate) fn bit_ranges(value: &Bits) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for bit in bits(value) {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == bit => *last = bit,
            _ => ranges.push((bit, bit)),
        }
    }
    let shown = ranges
        .into_iter()
        .map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") });
    shown.collect::<Vec<_>>().join(",")
}

/// Whether bit `bit` is set.
pub(crate) fn has_bit(bits: &Bits, bit: usize) -> bool {
    bits.0.get(bit / 64).is_some_and(|element| element >> (bit % 64) & 1 == 1)
}

/// The prefix of a 128-bit map key: IPv4 when it lies in the mapped range.
pub(crate) fn prefix(addr: Addr, len: u32) -> String {
    match len.checked_sub(96) {
        Some(len) if addr.is_v4() => format!("{}/{len}", IpAddr::from(addr)),
        _ => format!("{}/{len}", std::net::Ipv6Addr::from(addr.0)),
    }
}

/// Whole seconds from `now` to `then`, both in nanoseconds of one clock; negative when `then` is past.
pub(crate) fn seconds_until(then: u64, now: u64) -> i64 {
    let nanos = i128::from(then) - i128::from(now);
    i64::try_from(nanos / 1_000_000_000).unwrap_or(i64::MAX)
}

/// How long something is still valid.
pub(crate) fn expiry(seconds: i64) -> String {
    if seconds < 0 { "expired".to_owned() } else { format!("{seconds}s") }
}

/// Names of the flags that are set.
pub(crate) fn flags(value: u32, names: &[(u32, &str)]) -> String {
    let set: Vec<_> = names.iter().filter(|(bit, _)| value & bit != 0).map(|(_, name)| *name).collect();
    set.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_prefixes() {
        assert_eq!(address(Addr::NONE), "");
        assert_eq!(socket(Addr::v4([10, 0, 0, 1]), 80_u16.to_be()), "10.0.0.1:80");
        let v6 = Addr::v6("fd00::1".parse::<std::net::Ipv6Addr>().unwrap().octets());
        assert_eq!(socket(v6, 80_u16.to_be()), "[fd00::1]:80");
        assert_eq!(prefix(Addr::v4([10, 0, 0, 0]), 104), "10.0.0.0/8");
        assert_eq!(prefix(v6, 64), "fd00::1/64");
        assert_eq!(prefix(Addr::NONE, 0), "::/0");
        assert_eq!(prefix(Addr::v4([0, 0, 0, 0]), 96), "0.0.0.0/0");
    }

    #[test]
    fn bits_as_ranges() {
        assert_eq!(bit_ranges(&Bits::default()), "");
        assert_eq!(bit_ranges(&Bits([0b1011, 1, 0, 1 << 63])), "0-1,3,64,255");
    }
}
