//! Interfaces, addresses, neighbours and routes of the node and of its pods, by netlink.
//!
//! A [`Netlink`] acts in the network namespace in which its socket was opened, whatever thread uses it afterwards.

mod error;
mod link;
mod namespace;
mod route;
mod sysctl;

pub use error::{NetlinkError, not_found};
pub use link::{Link, Mac, VethPair};
pub use namespace::Namespace;
pub use route::{OWN_PROTOCOL, Route};
pub use sysctl::{SysctlError, set_sysctl, set_sysctl_if_present};

use std::net::IpAddr;

use futures_util::TryStreamExt as _;
use rtnetlink::packet_route::address::{AddressAttribute, AddressFlags};

/// A netlink socket.
#[derive(Clone, Debug)]
pub struct Netlink {
    handle: rtnetlink::Handle,
}

/// An address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// The address.
    pub addr: IpAddr,
    /// Index of the interface.
    pub ifindex: u32,
}

impl Netlink {
    /// Opens a socket in the calling thread's network namespace. Must be called inside a tokio runtime, which drives it.
    ///
    /// # Errors
    /// The socket cannot be opened.
    pub fn open() -> std::io::Result<Self> {
        let (connection, handle, _) = rtnetlink::new_connection()?;
        tokio::spawn(connection);
        Ok(Self { handle })
    }

    /// Adds `addr` alone (/32 or /128) to an interface, without duplicate address detection: nobody else can have it, and
    /// the second that detection takes is a second in which the pod cannot use its address.
    ///
    /// # Errors
    /// [`NetlinkError`]; that the address is there already is none.
    pub async fn add_host_address(&self, ifindex: u32, addr: IpAddr) -> Result<(), NetlinkError> {
        let prefix_len = if addr.is_ipv4() { 32 } else { 128 };
        let mut request = self.handle.address().add(ifindex, addr, prefix_len).replace();
        if addr.is_ipv6() {
            request.message_mut().attributes.push(AddressAttribute::Flags(AddressFlags::Nodad));
        }
        request.execute().await.map_err(NetlinkError::of(|| format!("add address {addr} to interface {ifindex}")))
    }

    /// Takes an address from an interface. That it is not there is no error.
    ///
    /// # Errors
    /// [`NetlinkError`].
    pub async fn remove_address(&self, ifindex: u32, addr: IpAddr) -> Result<(), NetlinkError> {
        let failed = || NetlinkError::of(|| format!("remove address {addr} from interface {ifindex}"));
        let of_interface = self.handle.address().get().set_link_index_filter(ifindex).set_address_filter(addr);
        let found: Vec<_> = of_interface.execute().try_collect().await.map_err(failed())?;
        for message in found {
            match self.handle.address().del(message).execute().await.map_err(failed()) {
                Err(error) if !not_found(&error) && error.errno() != Some(nix::libc::EADDRNOTAVAIL) => {
                    return Err(error);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// A neighbour entry that never expires and is never asked for.
    ///
    /// # Errors
    /// [`NetlinkError`].
    pub async fn add_neighbour(&self, ifindex: u32, addr: IpAddr, mac: Mac) -> Result<(), NetlinkError> {
        self.handle
            .neighbours()
            .add(ifindex, addr)
            .link_local_address(&mac.0)
            .replace()
            .execute()
            .await
            .map_err(NetlinkError::of(|| format!("add neighbour {addr} to interface {ifindex}")))
    }

    /// All addresses of the namespace.
    ///
    /// # Errors
    /// [`NetlinkError`].
    pub async fn addresses(&self) -> Result<Vec<InterfaceAddress>, NetlinkError> {
        let failed = NetlinkError::of(|| "list addresses".to_owned());
        let messages: Vec<_> = self.handle.address().get().execute().try_collect().await.map_err(failed)?;
        let address = |message: rtnetlink::packet_route::address::AddressMessage| {
            let ifindex = message.header.index;
            let find = |local: bool| {
                message.attributes.iter().find_map(|attribute| match attribute {
                    AddressAttribute::Local(addr) if local => Some(*addr),
                    AddressAttribute::Address(addr) if !local => Some(*addr),
                    _ => None,
                })
            };
            // On a point-to-point interface `Address` is the other side.
            find(true).or_else(|| find(false)).map(|addr| InterfaceAddress { addr, ifindex })
        };
        Ok(messages.into_iter().filter_map(address).collect())
    }
}
