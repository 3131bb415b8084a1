//! The embedded kernel object and what is in it.

use std::fs;
use std::path::Path;

use aya::programs::{Program, ProgramError, ProgramFd, SchedClassifier};
use aya::util::KernelVersion;
use aya::{Ebpf, EbpfLoader};
use skep_abi::map;

use crate::Error;
use crate::pins::Pins;
use crate::sys::AttachType;

/// The kernel object that the build script made.
static OBJECT: &[u8] = aya::include_bytes_aligned!(env!("SKEP_EBPF_OBJECT"));

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

/// What the kernel can do beyond the minimum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// Socket hooks can choose the error of a refused connection (Linux 5.18). Without it a Service without endpoints
    /// sends the connection to the discard port of the loopback address, which refuses it.
    pub set_retval: bool,
    /// Pod programs are attached by links (Linux 6.6). Without it they are filters of a `clsact` qdisc.
    pub tcx: bool,
}

/// Loads every map (adopting pinned ones) and every program.
pub(crate) fn load(pins: &Pins, socket_hooks: bool) -> Result<(Ebpf, Features), Error> {
    let tcx = KernelVersion::current().is_ok_and(|version| version >= KernelVersion::new(6, 6, 0));
    let loaded = load_with(pins, socket_hooks, true).map(|object| (object, Features { set_retval: true, tcx }));
    match loaded {
        // The verifier of an older kernel refuses a program that names a helper it does not have.
        Err(Error::Program { .. }) if socket_hooks => {
            load_with(pins, socket_hooks, false).map(|object| (object, Features { set_retval: false, tcx }))
        }
        other => other,
    }
}

fn load_with(pins: &Pins, socket_hooks: bool, set_retval: bool) -> Result<Ebpf, Error> {
    let mut loader = EbpfLoader::new();
    let flag = u8::from(set_retval);
    loader.override_global("HAS_SET_RETVAL", &flag, true);
    for name in map::ALL {
        loader.map_pin_path(name, pins.map(name));
    }
    let mut object = loader.load(OBJECT)?;
    for name in [FROM_POD, TO_POD] {
        let program: &mut SchedClassifier = program(&mut object, name)?;
        program.load().map_err(|source| Error::Program { name, source })?;
    }
    if socket_hooks {
        for SocketHook { program: name, .. } in SOCKET_HOOKS {
            let loaded = match object.program_mut(name) {
                Some(Program::CgroupSockAddr(program)) => program.load(),
                Some(Program::CgroupSock(program)) => program.load(),
                _ => return Err(Error::NotInObject(name)),
            };
            loaded.map_err(|source| Error::Program { name, source })?;
        }
    }
    Ok(object)
}

/// A descriptor of a loaded program.
pub(crate) fn program_fd(object: &Ebpf, name: &'static str) -> Result<ProgramFd, Error> {
    let program = object.program(name).ok_or(Error::NotInObject(name))?;
    let fd = program.fd().map_err(|source| Error::Program { name, source })?;
    fd.try_clone().map_err(|source| Error::Program { name, source: source.into() })
}

/// A program of the object, loaded or not.
pub(crate) fn program<'a, T>(object: &'a mut Ebpf, name: &'static str) -> Result<&'a mut T, Error>
where
    &'a mut T: TryFrom<&'a mut Program>,
{
    let program = object.program_mut(name).ok_or(Error::NotInObject(name))?;
    program.try_into().map_err(|_| Error::NotInObject(name))
}

/// A program in the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramInfo {
    /// Name in the object and in `bpftool prog`.
    pub name: String,
    /// The kernel's number for it.
    pub id: u32,
    /// Instructions that the verifier followed, of the million that it would (Linux 5.16).
    pub verified_instructions: Option<u32>,
}

/// All loaded programs of the object, by name.
pub(crate) fn programs(object: &Ebpf) -> Result<Vec<ProgramInfo>, Error> {
    let mut programs = Vec::new();
    for (name, program) in object.programs() {
        let info = match program.info() {
            Ok(info) => info,
            // Socket hooks are not loaded when there is no cgroup for them.
            Err(ProgramError::NotLoaded) => continue,
            Err(source) => return Err(Error::Program { name: "of the object", source }),
        };
        let verified_instructions = info.verified_instruction_count();
        programs.push(ProgramInfo { name: name.to_owned(), id: info.id(), verified_instructions });
    }
    programs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(programs)
}

/// Whether a path exists, absence being the only error that means "no".
pub(crate) fn exists(path: &Path) -> Result<bool, Error> {
    fs::exists(path).map_err(|source| Error::Io { path: path.to_owned(), source })
}
