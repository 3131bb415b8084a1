//! The socket hooks, tried with real sockets: each test has a network namespace, a BPF file system and a cgroup of its own.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "all of this is test code"
)]

mod adoption;
mod choice;
mod clients;
mod datagram;
mod programs;
mod stream;
mod world;
