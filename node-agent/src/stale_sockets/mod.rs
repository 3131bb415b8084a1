//! Sockets that are stuck on a backend that is gone.
//!
//! A socket that the hooks translated speaks to the backend itself: nobody tells it that the pod is gone, and a program
//! that only waits would wait for ever. The agent ends such sockets in the namespace of every pod that has one, and in
//! the node's own.

mod diag;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use nix::sched::{CloneFlags, setns};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use skep_abi::{OriginKey, OriginValue};
use tracing::{info, warn};

use diag::Diag;

/// A backend that is gone: where it was, and the number of its protocol.
pub type GoneBackend = (SocketAddr, u8);

/// Ends the sockets of `gone` backends in every namespace that `origins` names, the node's own among them. `namespaces`
/// are those of the node's pods. Returns how many sockets were ended.
///
/// Blocks: for a thread that may.
pub fn end(
    gone: &BTreeSet<GoneBackend>,
    origins: &[(OriginKey, OriginValue)],
    namespaces: impl FnOnce() -> Vec<PathBuf> + Send,
) -> usize {
    let of_gone = |key: &OriginKey| {
        let address = SocketAddr::new(key.addr.into(), u16::from_be(key.port_be));
        gone.contains(&(address, key.proto))
    };
    let mut cookies: BTreeSet<u64> =
        origins.iter().filter(|(key, _)| of_gone(key)).map(|(_, value)| value.netns).collect();
    if cookies.is_empty() {
        return 0;
    }
    let mut ended = 0;
    // On a thread that ends with it: one that came back into the wrong namespace would be worse than the cost of a new one.
    let worker = || {
        let own = cookie();
        if own.as_ref().is_ok_and(|own| cookies.remove(own)) {
            ended += in_this_namespace(gone).unwrap_or_else(|problem| failed("the node", &problem));
        }
        for path in if cookies.is_empty() { Vec::new() } else { namespaces() } {
            let entered = std::fs::File::open(&path).and_then(|file| Ok(setns(file, CloneFlags::CLONE_NEWNET)?));
            let result = entered
                .and_then(|()| cookie())
                .and_then(|cookie| if cookies.remove(&cookie) { in_this_namespace(gone) } else { Ok(0) });
            match result {
                Ok(count) => ended += count,
                // The pod has ended meanwhile, and its sockets with it.
                Err(problem) if problem.kind() == io::ErrorKind::NotFound => {}
                Err(problem) => ended += failed(&path.display().to_string(), &problem),
            }
        }
    };
    std::thread::scope(|scope| {
        if scope.spawn(worker).join().is_err() {
            warn!("the thread that ends sockets has panicked");
        }
    });
    if ended > 0 {
        info!(sockets = ended, backends = gone.len(), "sockets of backends that are gone are ended");
    }
    ended
}

fn failed(place: &str, problem: &io::Error) -> usize {
    warn!(place, %problem, "sockets of backends that are gone cannot be ended");
    0
}

/// Cookie of this thread's network namespace, as BPF programs see it.
fn cookie() -> io::Result<u64> {
    let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    netns_cookie(&socket)
}

/// Cookie of the network namespace of a socket (Linux 5.14).
///
/// # Errors
/// The kernel has none.
pub fn netns_cookie(socket: &impl std::os::fd::AsRawFd) -> io::Result<u64> {
    let mut cookie = 0_u64;
    let mut length = size_of::<u64>() as nix::libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `cookie`.
    #[allow(unsafe_code, reason = "no crate has this option yet")]
    let done = unsafe {
        nix::libc::getsockopt(
            socket.as_raw_fd(),
            nix::libc::SOL_SOCKET,
            SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut length,
        )
    };
    if done == 0 { Ok(cookie) } else { Err(io::Error::last_os_error()) }
}

/// `asm-generic/socket.h`.
const SO_NETNS_COOKIE: nix::libc::c_int = 71;

fn in_this_namespace(gone: &BTreeSet<GoneBackend>) -> io::Result<usize> {
    let mut by_protocol: BTreeMap<u8, BTreeSet<SocketAddr>> = BTreeMap::new();
    for &(address, protocol) in gone {
        by_protocol.entry(protocol).or_default().insert(address);
    }
    let mut diag = Diag::open()?;
    let mut ended = 0;
    for (protocol, addresses) in by_protocol {
        for socket in diag.peered(protocol)? {
            if addresses.contains(&socket.peer) && diag.destroy(&socket)? {
                ended += 1;
            }
        }
    }
    Ok(ended)
}

#[cfg(test)]
mod tests;
