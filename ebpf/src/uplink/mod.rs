//! The programs on the interface that leads to other nodes and out of the cluster.
//!
//! ```text
//! from uplink:  neighbour answers -> parse -> known flow -> Service of the external scope -> backend here: to the stack
//!                                                                                         -> backend there: out again
//! to uplink:    parse -> known flow (answers of local backends, masqueraded pods)
//!                     -> pod that leaves the cluster: the node's address
//!                     -> host socket whose tuple a flow above has: another port
//! ```
//!
//! Flows are in `nat`, two entries for each (see `skep_verdict::nat`), keyed by the packet as it comes. A packet that one
//! program sends out of the uplink itself carries a mark, by which the other lets it pass.

mod allocate;
mod conclude;
mod egress;
pub(crate) mod flow;
pub(crate) mod forward;
mod fragment;
mod icmp;
mod ingress;
mod neighbour;
pub(crate) mod overlay;
mod parse;
mod scratch;
mod service;

/// Goes on to the next program or to the stack.
const PASS: i32 = aya_ebpf::bindings::TC_ACT_UNSPEC;
/// Drops the packet.
const SHOT: i32 = aya_ebpf::bindings::TC_ACT_SHOT as i32;
