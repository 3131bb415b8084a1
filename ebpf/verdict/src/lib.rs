//! Pure decisions of the dataplane.
//!
//! The kernel object inlines this crate and only adds what a kernel gives: packet bytes, map lookups, the clock and
//! random numbers. Everything here is a function of its arguments, so that tests run the same code in userspace.
#![no_std]

#[cfg(test)]
extern crate std;

pub mod checksum;
pub mod conn;
pub mod nat;
pub mod neighbour;
pub mod packet;
pub mod plain;
pub mod policy;
pub mod refuse;
pub mod service;
pub mod tunnel;

/// IP protocol numbers that mean something to the dataplane (IANA).
pub mod proto {
    /// ICMP for IPv4.
    pub const ICMP: u8 = 1;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// ICMP for IPv6.
    pub const ICMPV6: u8 = 58;
    /// SCTP.
    pub const SCTP: u8 = 132;

    /// Whether the protocol's header begins with source and destination port.
    #[inline(always)]
    pub const fn has_ports(proto: u8) -> bool {
        matches!(proto, TCP | UDP | SCTP)
    }
}
