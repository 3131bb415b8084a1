/// An IPv6 address, or an IPv4 address mapped into IPv6, in network byte order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C, align(4))]
pub struct Addr(pub [u8; 16]);

impl Addr {
    /// The all-zero address: "none".
    pub const NONE: Self = Self([0; 16]);

    /// Maps an IPv4 address given in network byte order.
    #[inline(always)]
    pub const fn v4(octets: [u8; 4]) -> Self {
        // By words: what begins with ten zero bytes would become a call of a byte-wise memset in the kernel object.
        let words = [0, 0, u32::from_ne_bytes([0, 0, 0xff, 0xff]), u32::from_ne_bytes(octets)];
        // SAFETY: four words are sixteen bytes, and any bytes are valid.
        #[allow(unsafe_code, reason = "no safe conversion keeps the words together")]
        Self(unsafe { core::mem::transmute::<[u32; 4], [u8; 16]>(words) })
    }

    /// An IPv6 address given in network byte order.
    #[inline(always)]
    pub const fn v6(octets: [u8; 16]) -> Self {
        Self(octets)
    }

    /// Whether this is an IPv4-mapped address.
    #[inline(always)]
    pub const fn is_v4(&self) -> bool {
        let a = &self.0;
        (a[0] | a[1] | a[2] | a[3] | a[4] | a[5] | a[6] | a[7] | a[8] | a[9]) == 0 && (a[10] & a[11]) == 0xff
    }
}

#[cfg(feature = "user")]
impl From<core::net::IpAddr> for Addr {
    fn from(ip: core::net::IpAddr) -> Self {
        match ip {
            core::net::IpAddr::V4(v4) => Self::v4(v4.octets()),
            core::net::IpAddr::V6(v6) => Self(v6.octets()),
        }
    }
}

#[cfg(feature = "user")]
impl From<Addr> for core::net::IpAddr {
    fn from(addr: Addr) -> Self {
        core::net::Ipv6Addr::from(addr.0).to_canonical()
    }
}

const _: () = assert!(core::mem::size_of::<Addr>() == 16);
