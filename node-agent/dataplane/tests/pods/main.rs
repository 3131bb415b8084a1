//! The pod hooks, tried with real packets: each test has a node, a network namespace with a BPF file system, and pods,
//! namespaces of their own behind veth pairs as the agent makes them. There are no socket hooks.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "all of this is test code"
)]

mod as_they_are;
mod changes;
mod choice;
mod fragments;
mod icmp;
mod lifecycle;
mod policy;
mod service;
mod short_way;
mod spoof;
mod sweep;
mod world;
