use crate::ability::{self, Ability};
use crate::object::XDP_UPLINK;
use crate::pins::Pins;
use crate::programs::Programs;
use crate::sys::{AttachType, Target};
use crate::{Error, interface, link};

/// Whether packets that only pass through this node are sent on at the uplink's driver already (XDP).
///
/// There is no mode for drivers that cannot: the kernel's own stand-in for them (generic XDP) comes after the packet buffer
/// is made, and wins nothing over tc.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XdpMode {
    /// No.
    #[default]
    Off,
    /// When the kernel says that the driver can.
    Auto,
    /// Yes: when the driver cannot, the dataplane does not open.
    Native,
}

/// What became of an [`XdpMode`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum XdpState {
    /// Not wanted, or there is no uplink.
    #[default]
    Off,
    /// Packets are sent on at the driver.
    On,
    /// It is wanted, and cannot be: why.
    Unavailable(String),
}

/// The XDP program on the uplink.
#[derive(Debug)]
pub(crate) struct Xdp {
    pub(crate) mode: XdpMode,
    pub(crate) uplink: Option<u32>,
    /// Why the program is not there.
    pub(crate) refused: Option<String>,
}

impl Xdp {
    /// Puts the program on the uplink, or takes it off, as the driver is able now; takes it off what was the uplink before.
    pub(crate) fn settle(&self, pins: &Pins, programs: &Programs) -> Result<XdpState, Error> {
        let state = self.attach(pins, programs)?;
        let keep = self.uplink.filter(|_| state == XdpState::On);
        for ifindex in pins.xdp_links()? {
            if Some(ifindex) != keep {
                link::remove(&pins.xdp_link(ifindex))?;
            }
        }
        Ok(state)
    }

    /// Whether frames leave by redirection.
    pub(crate) fn redirects(&self) -> Result<bool, Error> {
        let Some(ifindex) = self.uplink.filter(|_| self.mode != XdpMode::Off) else { return Ok(false) };
        ability::is_veth(&interface::name(ifindex)?).map_err(|source| Error::Interface { ifindex, source })
    }

    fn attach(&self, pins: &Pins, programs: &Programs) -> Result<XdpState, Error> {
        let Some(ifindex) = self.uplink.filter(|_| self.mode != XdpMode::Off) else { return Ok(XdpState::Off) };
        if let Some(refused) = &self.refused {
            return Ok(XdpState::Unavailable(refused.clone()));
        }
        let ability = ability::ask(&interface::name(ifindex)?, ifindex);
        match ability.map_err(|source| Error::Interface { ifindex, source })? {
            Ability::Able => {}
            Ability::Unable(reason) => return Ok(XdpState::Unavailable(reason)),
            Ability::Unknown if self.mode == XdpMode::Native => {}
            Ability::Unknown => {
                let reason = "the kernel does not say what its driver can (Linux 6.3 does)";
                return Ok(XdpState::Unavailable(reason.to_owned()));
            }
        }
        let (path, program) = (pins.xdp_link(ifindex), programs.get(XDP_UPLINK)?);
        match link::ensure(&path, program, Target::Interface(ifindex), ifindex.into(), AttachType::Xdp) {
            Ok(()) => Ok(XdpState::On),
            Err(Error::Link { message, .. }) => Ok(XdpState::Unavailable(message)),
            Err(error) => Err(error),
        }
    }
}
