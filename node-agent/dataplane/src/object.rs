//! The embedded kernel object and what is in it.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use aya::programs::{Program, ProgramError, ProgramType};
use aya::sys::{BpfHelper, is_helper_supported};
use aya::util::KernelVersion;
use aya::{Ebpf, EbpfLoader};
use skep_abi::map;

use crate::Error;
use crate::pins::Pins;
use crate::resize::Resize;
use crate::sys::AttachType;

/// The kernel object that the build script made.
static OBJECT: &[u8] = aya::include_bytes_aligned!(env!("SKEP_EBPF_OBJECT"));

/// SHA-256 of [`OBJECT`] in hexadecimal digits: programs pinned under another were made from another object.
pub(crate) const OBJECT_HASH: &str = env!("SKEP_EBPF_OBJECT_SHA256");

/// A socket hook: name of the program, name of its link, where it is attached.
pub(crate) struct SocketHook {
    pub(crate) program: &'static str,
    pub(crate) link: &'static str,
    pub(crate) attach: AttachType,
}

const fn hook(program: &'static str, link: &'static str, attach: AttachType) -> SocketHook {
    SocketHook { program, link, attach }
}

/// All socket hooks. Those that show or forget addresses come first, so that no socket is translated that could not be
/// shown or forgotten.
pub(crate) const SOCKET_HOOKS: [SocketHook; 9] = [
    hook("skep_sock_release", "sock_release", AttachType::InetSockRelease),
    hook("skep_getpeername4", "getpeername4", AttachType::Inet4Getpeername),
    hook("skep_getpeername6", "getpeername6", AttachType::Inet6Getpeername),
    hook("skep_recvmsg4", "recvmsg4", AttachType::Udp4Recvmsg),
    hook("skep_recvmsg6", "recvmsg6", AttachType::Udp6Recvmsg),
    hook("skep_sendmsg4", "sendmsg4", AttachType::Udp4Sendmsg),
    hook("skep_sendmsg6", "sendmsg6", AttachType::Udp6Sendmsg),
    hook("skep_connect4", "connect4", AttachType::Inet4Connect),
    hook("skep_connect6", "connect6", AttachType::Inet6Connect),
];

/// Name of the program for packets that a pod sends.
pub(crate) const FROM_POD: &str = "skep_from_pod";
/// Name of the program for packets to a pod.
pub(crate) const TO_POD: &str = "skep_to_pod";

/// Name of the program for packets that come in by the uplink.
pub(crate) const FROM_UPLINK: &str = "skep_from_uplink";
/// Name of the program for packets that leave by the uplink.
pub(crate) const TO_UPLINK: &str = "skep_to_uplink";

/// Name of the program at the uplink's driver.
pub(crate) const XDP_UPLINK: &str = "skep_xdp_uplink";

/// Name of the program for packets that come by the overlay.
pub(crate) const FROM_OVERLAY: &str = "skep_from_overlay";
/// Name of the program for packets that leave by the overlay.
pub(crate) const TO_OVERLAY: &str = "skep_to_overlay";

/// Which programs are needed beside those of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// Socket hooks.
    pub(crate) sockets: bool,
    /// Those of the uplink.
    pub(crate) uplink: bool,
    /// Those of the overlay.
    pub(crate) overlay: bool,
    /// That of the uplink's driver.
    pub(crate) xdp: bool,
}

/// What the kernel can do beyond the minimum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// Socket hooks can choose the error of a refused connection (Linux 5.18). Without it a Service without endpoints
    /// sends the connection to the discard port of the loopback address, which refuses it.
    pub set_retval: bool,
    /// The programs can know whether a packet fits through an interface (`bpf_check_mtu` of Linux 5.12). Packets of known flows to
    /// pods of other nodes go past the node's routing then, and what does not fit into the overlay is answered.
    pub check_mtu: bool,
    /// Packets of known flows go into pods past the node's routing (`bpf_redirect_peer` of Linux 5.10, and `check_mtu`).
    pub redirect_peer: bool,
    /// Pod programs are attached by links (Linux 6.6). Without it they are filters of a `clsact` qdisc.
    pub tcx: bool,
}

/// Asks the kernel what it can do.
pub(crate) fn features() -> Result<Features, Error> {
    let set_retval = is_helper_supported(ProgramType::CgroupSockAddr, BpfHelper::BPF_FUNC_set_retval)
        .map_err(|source| Error::Program { name: "that tries bpf_set_retval", source })?;
    let classifier_has = |helper, name| {
        is_helper_supported(ProgramType::SchedClassifier, helper).map_err(|source| Error::Program { name, source })
    };
    let check_mtu = classifier_has(BpfHelper::BPF_FUNC_check_mtu, "that tries bpf_check_mtu")?;
    let redirect_peer = check_mtu && classifier_has(BpfHelper::BPF_FUNC_redirect_peer, "that tries bpf_redirect_peer")?;
    let tcx = KernelVersion::current().is_ok_and(|version| version >= KernelVersion::new(6, 6, 0));
    Ok(Features { set_retval, check_mtu, redirect_peer, tcx })
}

/// Loads every map (adopting pinned ones) and every program. Maps that are made have these capacities, or those of the object.
pub(crate) fn load(
    pins: &Pins,
    features: Features,
    wanted: Wanted,
    capacities: &BTreeMap<&'static str, u32>,
    resize: &Resize,
) -> Result<Ebpf, Error> {
    let mut loader = EbpfLoader::new();
    let flag = u8::from(features.set_retval);
    loader.override_global("HAS_SET_RETVAL", &flag, true);
    let mtu = u8::from(features.check_mtu);
    loader.override_global("HAS_CHECK_MTU", &mtu, true);
    let peer = u8::from(features.redirect_peer);
    loader.override_global("HAS_REDIRECT_PEER", &peer, true);
    for name in map::ALL {
        loader.map_pin_path(name, resize.path(pins, name));
        if let Some(&capacity) = capacities.get(name) {
            loader.map_max_entries(name, capacity);
        }
    }
    let mut object = loader.load(OBJECT)?;
    for name in program_names(wanted) {
        load_program(&mut object, name)?;
    }
    Ok(object)
}

/// Attempts at loading one program.
const LOAD_ATTEMPTS: u32 = 5;

/// Loads one program. The verifier breaks off when a signal comes for the thread (EAGAIN), which says nothing about the
/// program.
fn load_program(object: &mut Ebpf, name: &'static str) -> Result<(), Error> {
    let mut attempt = 1;
    loop {
        let loaded = match object.program_mut(name) {
            Some(Program::SchedClassifier(program)) => program.load(),
            Some(Program::CgroupSockAddr(program)) => program.load(),
            Some(Program::CgroupSock(program)) => program.load(),
            Some(Program::Xdp(program)) => program.load(),
            _ => return Err(Error::NotInObject(name)),
        };
        match loaded {
            Err(ProgramError::LoadError { io_error, .. })
                if io_error.kind() == ErrorKind::WouldBlock && attempt < LOAD_ATTEMPTS =>
            {
                attempt += 1;
            }
            loaded => return loaded.map_err(|source| Error::Program { name, source }),
        }
    }
}

/// Names of the tc programs that are needed.
pub(crate) fn classifier_names(wanted: Wanted) -> impl Iterator<Item = &'static str> {
    let uplink = [FROM_UPLINK, TO_UPLINK].into_iter().filter(move |_| wanted.uplink);
    let overlay = [FROM_OVERLAY, TO_OVERLAY].into_iter().filter(move |_| wanted.overlay);
    [FROM_POD, TO_POD].into_iter().chain(uplink).chain(overlay)
}

/// Names of all programs that are needed.
pub(crate) fn program_names(wanted: Wanted) -> impl Iterator<Item = &'static str> {
    let sockets = SOCKET_HOOKS.iter().filter(move |_| wanted.sockets).map(|hook| hook.program);
    let xdp = Some(XDP_UPLINK).filter(|_| wanted.xdp);
    classifier_names(wanted).chain(sockets).chain(xdp)
}

/// Whether a path exists, absence being the only error that means "no".
pub(crate) fn exists(path: &Path) -> Result<bool, Error> {
    fs::exists(path).map_err(|source| Error::Io { path: path.to_owned(), source })
}
