//! Keeps the kernel's maps at what the index asks for.
//!
//! ```text
//! dataplane stream ─┐                    ┌─► maps
//! CNI ──────────────┼─► Driver (Index) ──┼─► routes ──► netlink
//!                   │   one thread       ├─► names ───► names.json, flow records
//! local API ◄───────┴── status ◄─────────┘
//! ```

mod driver;
mod flows;
mod maps;
mod names_file;
mod routes;
mod status;

pub use driver::{Dataplane, DataplaneError, Start};
pub use flows::{FlowStream, follow_flows};
pub use maps::read_contents;
pub use names_file::NAMES_FILE;
pub use routes::keep_routes;
pub use status::DataplaneStatus;
