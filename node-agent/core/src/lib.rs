//! The node agent's decisions: what its pods, its addresses and its maps must be. Pure: events in, commands out, time
//! passed in; the shell beside this crate executes.

pub mod dataplane;
pub mod dns;
pub mod ipam;
pub mod pods;
