//! The programs on the host side of a pod's interface.
//!
//! ```text
//! from pod:  parse -> source check -> conntrack -> Service translation -> policy -> out
//! to pod:    parse -> conntrack -> policy -> reverse translation -> pod
//! ```
//!
//! Packets of a flow that both have let through before go from one pod to the other without the rest, see `peer`. To pods of
//! other nodes and from there they go past the node's routing, see `away` and `inward`.
//!
//! Each sees both directions of every connection of its pod, so that one conntrack entry, keyed by the pod, serves both.

mod away;
mod classify;
mod fragment;
mod from;
mod hairpin;
mod icmp;
pub(crate) mod inward;
mod peer;
pub(crate) mod refuse;
mod scratch;
mod service;
mod to;
mod track;

/// Goes on to the next program or to the stack.
const PASS: i32 = aya_ebpf::bindings::TC_ACT_UNSPEC;
/// Drops the packet.
const SHOT: i32 = aya_ebpf::bindings::TC_ACT_SHOT as i32;
