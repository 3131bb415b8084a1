use std::fmt;
use std::os::fd::{AsRawFd as _, BorrowedFd};

use futures_util::TryStreamExt as _;
use rtnetlink::packet_route::link::{InfoData, InfoVeth, LinkAttribute, LinkFlags, LinkMessage};
use rtnetlink::{LinkBridge, LinkDummy, LinkMessageBuilder, LinkUnspec, LinkVeth, LinkVxlan};

use super::{Netlink, NetlinkError, not_found};

/// A link-layer address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mac(pub [u8; 6]);

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// An interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its index.
    pub index: u32,
    /// Its link-layer address; zero when it has none.
    pub mac: Mac,
    /// Bytes.
    pub mtu: u32,
}

/// A pair of interfaces, one here and one in another namespace.
#[derive(Clone, Copy, Debug)]
pub struct VethPair<'a> {
    /// Name of the side that stays here.
    pub host: &'a str,
    /// Address of that side. Given at creation, so that no network manager thinks of changing it.
    pub host_mac: Mac,
    /// Name of the other side.
    pub peer: &'a str,
    /// Address of the other side.
    pub peer_mac: Mac,
    /// Where the other side is made.
    pub netns: BorrowedFd<'a>,
    /// Bytes.
    pub mtu: u32,
}

impl Netlink {
    /// Makes a pair, both sides down.
    ///
    /// # Errors
    /// [`NetlinkError`], also when either name is taken.
    pub async fn add_veth(&self, pair: &VethPair<'_>) -> Result<(), NetlinkError> {
        let peer = LinkMessageBuilder::<LinkUnspec>::new()
            .name(pair.peer.to_owned())
            .address(pair.peer_mac.0.to_vec())
            .mtu(pair.mtu)
            .setns_by_fd(pair.netns.as_raw_fd())
            .build();
        let message = LinkVeth::new(pair.host, pair.peer)
            .address(pair.host_mac.0.to_vec())
            .mtu(pair.mtu)
            .set_info_data(InfoData::Veth(InfoVeth::Peer(peer)))
            .build();
        let failed = NetlinkError::of(|| format!("create interface {} with peer {}", pair.host, pair.peer));
        self.handle.link().add(message).execute().await.map_err(failed)
    }

    /// Makes a VXLAN interface whose packets say themselves where they go (`external`), on this UDP port, or takes the one
    /// of that name; sets its MTU, turns neighbour discovery off on it, and brings it up. Gives its index.
    ///
    /// # Errors
    /// [`NetlinkError`].
    pub async fn ensure_overlay(&self, name: &str, port: u16, mtu: u32) -> Result<u32, NetlinkError> {
        let failed = || NetlinkError::of(|| format!("create interface {name}"));
        if self.link(name).await?.is_none() {
            let vxlan = LinkMessageBuilder::<LinkVxlan>::new(name).collect_metadata(true).port(port);
            // Link-layer addresses in it are no machine's: there is nothing to learn from them.
            let message = vxlan.learning(false).build();
            self.handle.link().add(message).execute().await.map_err(failed())?;
        }
        let missing = || rtnetlink::Error::RequestFailed;
        let index = self.link(name).await?.ok_or_else(|| failed()(missing()))?.index;
        let mut message = LinkUnspec::new_with_index(index).mtu(mtu).up().build();
        message.header.flags |= LinkFlags::Noarp;
        message.header.change_mask |= LinkFlags::Noarp;
        let failed = NetlinkError::of(|| format!("set up interface {name}"));
        self.handle.link().change(message).set_flags(ACKNOWLEDGED).execute().await.map_err(failed)?;
        Ok(index)
    }

    /// Makes an interface that leads nowhere, down: something to have addresses of the node on. It is a dummy, or where the
    /// kernel was built without that driver, a bridge without ports.
    ///
    /// # Errors
    /// [`NetlinkError`], also when the name is taken.
    pub async fn add_dead_end(&self, name: &str) -> Result<(), NetlinkError> {
        let failed = || NetlinkError::of(|| format!("create interface {name}"));
        let dummy = self.handle.link().add(LinkDummy::new(name).build()).execute().await.map_err(failed());
        match dummy {
            Err(error) if error.errno() == Some(nix::libc::EOPNOTSUPP) => {
                self.handle.link().add(LinkBridge::new(name).build()).execute().await.map_err(failed())
            }
            result => result,
        }
    }

    /// The interface of that name, if there is one.
    ///
    /// # Errors
    /// [`NetlinkError`].
    pub async fn link(&self, name: &str) -> Result<Option<Link>, NetlinkError> {
        self.find_link(self.handle.link().get().match_name(name.to_owned()), || format!("look up interface {name}"))
            .await
    }

    /// The interface of that index, if there is one.
    ///
    /// # Errors
    /// [`NetlinkError`].
    pub async fn link_by_index(&self, index: u32) -> Result<Option<Link>, NetlinkError> {
        self.find_link(self.handle.link().get().match_index(index), || format!("look up interface {index}")).await
    }

    /// The name of the interface of that index, if there is one.
    ///
    /// # Errors
    /// [`NetlinkError`].
    pub async fn link_name(&self, index: u32) -> Result<Option<String>, NetlinkError> {
        let named = self.links_with_prefix("").await?;
        Ok(named.into_iter().find(|&(_, found)| found == index).map(|(name, _)| name))
    }

    async fn find_link(
        &self,
        request: rtnetlink::LinkGetRequest,
        operation: impl FnOnce() -> String,
    ) -> Result<Option<Link>, NetlinkError> {
        let mut answers = std::pin::pin!(request.execute());
        match answers.try_next().await.map_err(NetlinkError::of(operation)) {
            Ok(message) => Ok(message.as_ref().map(link)),
            Err(error) if not_found(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Names and indexes of all interfaces whose name begins with `prefix`.
    ///
    /// # Errors
    /// [`NetlinkError`].
    pub async fn links_with_prefix(&self, prefix: &str) -> Result<Vec<(String, u32)>, NetlinkError> {
        let failed = NetlinkError::of(|| "list interfaces".to_owned());
        let messages: Vec<LinkMessage> = self.handle.link().get().execute().try_collect().await.map_err(failed)?;
        let named = |message: LinkMessage| {
            let name = message.attributes.into_iter().find_map(|attribute| match attribute {
                LinkAttribute::IfName(name) => Some(name),
                _ => None,
            })?;
            name.starts_with(prefix).then_some((name, message.header.index))
        };
        Ok(messages.into_iter().filter_map(named).collect())
    }

    /// Brings an interface up.
    ///
    /// # Errors
    /// [`NetlinkError`].
    pub async fn set_up(&self, index: u32) -> Result<(), NetlinkError> {
        let message = LinkUnspec::new_with_index(index).up().build();
        let failed = NetlinkError::of(|| format!("bring interface {index} up"));
        self.handle.link().change(message).set_flags(ACKNOWLEDGED).execute().await.map_err(failed)
    }

    /// Removes an interface, and its peer with it. That it is not there is no error.
    ///
    /// # Errors
    /// [`NetlinkError`].
    pub async fn delete_link(&self, index: u32) -> Result<(), NetlinkError> {
        let failed = NetlinkError::of(|| format!("remove interface {index}"));
        match self.handle.link().del(index).execute().await.map_err(failed) {
            Err(error) if !not_found(&error) => Err(error),
            _ => Ok(()),
        }
    }
}

/// Flags of a request that changes what exists.
const ACKNOWLEDGED: u16 = rtnetlink::packet_core::NLM_F_REQUEST | rtnetlink::packet_core::NLM_F_ACK;

fn link(message: &LinkMessage) -> Link {
    let mut link = Link { index: message.header.index, mac: Mac::default(), mtu: 0 };
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::Address(bytes) => {
                if let Ok(mac) = bytes.as_slice().try_into() {
                    link.mac = Mac(mac);
                }
            }
            LinkAttribute::Mtu(mtu) => link.mtu = *mtu,
            _ => {}
        }
    }
    link
}
