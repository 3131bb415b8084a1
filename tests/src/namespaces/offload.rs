//! What interfaces leave to hardware: `ethtool -K`, which not every machine has.

use std::fs::File;
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd as _;
use std::thread;

use anyhow::{Context as _, Result, anyhow};
use nix::errno::Errno;
use nix::libc;
use nix::sched::{CloneFlags, setns};

/// Received packets are joined (`ETHTOOL_SGRO`); for that an interface has a queue, which takes frames from XDP, too.
const GRO: u32 = 0x2c;
/// Checksums of sent packets are finished by hardware (`ETHTOOL_STXCSUM`).
const SENT_CHECKSUMS: u32 = 0x17;

/// Makes one side of a veth pair fit for XDP on the other: it takes frames from there, and sends none whose checksum is
/// unfinished, which only the kernel's packet buffer could tell.
pub(super) fn fit_for_xdp(netns: &str, link: &str) -> Result<()> {
    let namespace = File::open(format!("/run/netns/{netns}")).with_context(|| format!("open the namespace {netns}"))?;
    let name = link.to_owned();
    // A thread of its own: it does not come back from the namespace.
    let work = thread::spawn(move || -> io::Result<()> {
        setns(namespace, CloneFlags::CLONE_NEWNET)?;
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        set(&socket, &name, GRO, true)?;
        set(&socket, &name, SENT_CHECKSUMS, false)
    });
    let result = work.join().map_err(|_| anyhow!("a thread panicked"))?;
    result.with_context(|| format!("features of {link} in {netns}"))
}

fn set(socket: &UdpSocket, link: &str, feature: u32, on: bool) -> io::Result<()> {
    let mut value = [feature, on.into()];
    // SAFETY: plain integers and a union of such, for which zeroes are valid.
    #[allow(unsafe_code, reason = "libc has no constructor for this structure")]
    let mut request = unsafe { std::mem::zeroed::<libc::ifreq>() };
    for (to, from) in request.ifr_name.iter_mut().zip(link.bytes().take(libc::IFNAMSIZ - 1)) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = value.as_mut_ptr().cast();
    // SAFETY: the kernel reads the name and two words, all of which outlive the call.
    #[allow(unsafe_code, reason = "raw system call")]
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
    Errno::result(result)?;
    Ok(())
}
