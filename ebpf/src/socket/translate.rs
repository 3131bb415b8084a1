//! What all socket hooks share.

use aya_ebpf::Global;
use aya_ebpf::helpers::bpf_set_retval;
use skep_abi::{Addr, Direction, OriginKey, OriginValue, Reason, Verdict, scope};
use skep_verdict::proto;
use skep_verdict::service::{self, Seed, origin_key};

use super::context::Socket;
use crate::{maps, record, select};

/// Goes on with the system call.
pub(crate) const PROCEED: i32 = 1;
/// Ends the system call with an error.
pub(crate) const REFUSE: i32 = 0;

const ECONNREFUSED: i32 = 111;

/// Whether the kernel has `bpf_set_retval` (5.18); the agent finds out and sets it before the programs are loaded.
#[unsafe(no_mangle)]
pub(crate) static HAS_SET_RETVAL: Global<u8> = Global::new(0);

/// How the choice is made when the Service has no affinity.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spread {
    /// A new choice each time.
    Connections,
    /// The same choice for each datagram of a socket, as long as the endpoints stay the same: a datagram protocol that
    /// spans several datagrams must not be torn apart.
    Sockets,
}

/// Exchanges a Service's address for a backend's. Other addresses are left alone, and so is what packet programs do better.
#[inline(always)]
pub(crate) fn to_backend(socket: Socket, spread: Spread) -> i32 {
    let (service, port_be, proto) = (socket.addr(), socket.port_be(), socket.proto());
    let netns = socket.netns();
    let Some(config) = maps::config.get(0) else { return PROCEED };
    if spread == Spread::Connections && proto == proto::UDP && service::leaves_datagrams(config, netns) {
        return PROCEED;
    }
    let host = service::is_host(config, netns);
    let Some(frontend) = select::frontend(&service, port_be, proto, scope::INTERNAL, host) else {
        return PROCEED;
    };
    let (cookie, client) = (socket.cookie(), service::netns_client(netns));
    let own = || Seed::of_socket(frontend.service, netns, cookie);
    let seed = match spread {
        Spread::Connections => select::seed(frontend, &client, own),
        Spread::Sockets => own(),
    };
    let (id, chosen) = select::choose_for(frontend, &client, seed);
    let Some(backend) = chosen else {
        return refuse(socket, &service, port_be, proto, service::refusal(frontend));
    };
    let key = origin_key(cookie, &backend.addr, backend.port_be, proto);
    let origin = OriginValue { addr: service, port_be, pad: 0, backend: id, netns };
    // A socket that sends one datagram after the other is looked up each time, but written and counted once.
    if spread == Spread::Connections || !is_noted(&key, &origin) {
        // An LRU map makes room; when it cannot for a moment, the connection works all the same and only shows its backend.
        let _ = maps::socket_origin.insert(&key, &origin, 0);
        select::count(frontend.service);
    }
    socket.set(&backend.addr, backend.port_be);
    PROCEED
}

/// Whether the entry is there as it is to be.
#[inline(always)]
fn is_noted(key: &OriginKey, origin: &OriginValue) -> bool {
    // SAFETY: an entry that is recycled meanwhile is another socket's: this one then only shows its backend.
    unsafe { maps::socket_origin.get(key) }.is_some_and(|noted| {
        noted.backend == origin.backend && noted.port_be == origin.port_be && noted.addr == origin.addr
    })
}

/// Shows the Service's address in place of a backend's that the socket was translated to.
#[inline(always)]
pub(crate) fn to_service(socket: Socket) {
    let key = origin_key(socket.cookie(), &socket.addr(), socket.port_be(), socket.proto());
    // SAFETY: a recycled entry could at worst show another Service's address for this once.
    if let Some(origin) = unsafe { maps::socket_origin.get(&key) } {
        socket.set(&origin.addr, origin.port_be);
    }
}

/// Ends the system call as if the peer had refused.
#[inline(always)]
fn refuse(socket: Socket, service: &Addr, port_be: u16, proto: u8, reason: Reason) -> i32 {
    record::count(reason, Direction::Egress, 0);
    record::event(|event| {
        event.service = *service;
        event.service_port_be = port_be;
        event.proto = proto;
        event.rule = u32::MAX;
        event.direction = Direction::Egress as u8;
        event.verdict = Verdict::Dropped as u8;
        event.reason = reason as u8;
    });
    if HAS_SET_RETVAL.load() != 0 {
        // SAFETY: the helper only sets the return value of this system call.
        unsafe { bpf_set_retval(-ECONNREFUSED) };
        return REFUSE;
    }
    // Without the helper an error would be EPERM, which programs take for a firewall. The discard port on the loopback
    // address refuses by itself.
    let loopback =
        if service.is_v4() { Addr::v4([127, 0, 0, 1]) } else { Addr([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]) };
    socket.set(&loopback, 9_u16.to_be());
    PROCEED
}
