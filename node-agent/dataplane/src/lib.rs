//! Skep's dataplane as the agent sees it: the kernel object loaded, its maps and links pinned, typed access to both.
//!
//! This crate executes and does not decide: what is written into the maps is computed by `skep-agent-core`, what the
//! kernel does with it by `skep-verdict` and `skep-ebpf`. Layouts are `skep-abi`'s.
//!
//! ```text
//! BPF_DIR/v1/maps/frontends ...      every map, by its name in skep_abi::map
//! BPF_DIR/v1/maps-new, maps-old      maps that take another size, until they have it
//! BPF_DIR/v1/links/cgroup-connect4   socket hooks
//! BPF_DIR/v1/links/pod-7-from        hooks on the host side (interface index 7) of a pod's interface
//! BPF_DIR/v1/links/pod-7-to
//! BPF_DIR/v1/links/uplink-2-from     hooks on the interface that leads to other nodes and out of the cluster
//! BPF_DIR/v1/links/uplink-2-to
//! BPF_DIR/v1/links/xdp-2             the program at that interface's driver
//! BPF_DIR/v1/links/overlay-3-from    hooks on the interface that leads to pods of other nodes
//! BPF_DIR/v1/links/overlay-3-to
//! BPF_DIR/v1/programs-HASH/skep_from_pod ...   programs of the kernel object with this hash, by name
//! ```
//!
//! The directory carries [`skep_abi::VERSION`]. [`Dataplane::open`] adopts what is pinned there: maps are reused, and so
//! are programs when they were made from the same object, which makes a restart a matter of milliseconds. Otherwise they
//! are loaded, and those of running links are exchanged in place, so that no packet passes without them.

mod ability;
mod bpffs;
mod census;
mod clsact;
mod counters;
mod dataplane;
mod drops;
mod error;
mod events;
mod interface;
mod layout;
mod link;
mod maps;
mod object;
mod pins;
mod prefix_table;
mod programs;
mod raw;
mod resize;
mod setting;
mod sweep;
mod sys;
mod table;
mod trial;
mod xdp;

pub use census::Census;
pub use counters::{Counters, ServiceHits};
pub use dataplane::{Dataplane, Options};
pub use drops::{DropCounters, DropTotal};
pub use error::Error;
pub use events::Events;
pub use maps::{MapUse, Maps};
pub use object::Features;
pub use prefix_table::PrefixTable;
pub use programs::ProgramInfo;
pub use setting::Setting;
pub use sweep::{ConntrackSweeper, NatSweeper, Swept};
pub use table::Table;
pub use trial::{Action, Trial};
pub use xdp::{XdpMode, XdpState};
