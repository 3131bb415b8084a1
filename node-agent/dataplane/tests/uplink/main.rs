//! The programs of the uplink, tried with plain sockets: each test has a switch, a client outside of the cluster and two
//! nodes with pods, every one of them a network namespace.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "all of this is test code"
)]

mod adoption;
#[path = "../packets/build.rs"]
#[allow(dead_code, reason = "not all of it is needed here")]
mod build;
mod direct;
mod icmp;
mod lan;
mod local;
mod machine;
mod masquerade;
mod neighbour;
mod newcomer;
mod offload;
mod overlay;
mod path_mtu;
mod ports;
mod service;
mod short_way;
mod sweep;
mod xdp;
