//! Keeps the kernel's maps at what the index asks for.
//!
//! ```text
//! dataplane stream ─┐                    ┌─► maps
//! CNI ──────────────┼─► Driver (Index) ──┼─► routes ──► netlink
//!                   │   one thread       ├─► duties, gone backends ──► DNS, health checks, sockets
//!                   │                    ├─► names ───► names.json, flow records
//! local API ◄───────┴── status ◄─────────┘
//!                           └─► Occupancy ◄── collect, census ──► metrics, node condition
//!
//! conntrack, nat ──► collect: what is over goes
//! ```

mod capacity;
mod collect;
mod driver;
mod duties;
mod flows;
mod hits;
mod maps;
mod names_file;
mod occupancy;
mod routes;
mod status;

pub use capacity::CapacityArgs;
pub use collect::{CollectError, SweptMaps, collect};
pub use driver::{Dataplane, DataplaneError, Start};
pub use duties::{Duties, end_stale_sockets, keep_announced, keep_health_checks};
pub use flows::{FlowStream, follow_flows};
pub use maps::{apply_run, read_contents, run_length};
pub use names_file::NAMES_FILE;
pub use occupancy::Occupancy;
pub use routes::keep_routes;
pub use status::DataplaneStatus;
