//! What the programs of the uplink leave to the agent.
//!
//! ```text
//! announced addresses ──► announce: everybody on the link is told at once where they are now
//! driver of the uplink ──► xdp: the program there, as long as the driver can
//! overlay: the interface that packets to pods of other nodes leave by
//! ```

mod announce;
mod find;
mod overlay;
mod xdp;

pub use announce::{Announcer, keep_announced};
pub(crate) use find::find;
pub use overlay::{OVERLAY, overhead, prepare_overlay, remove_overlay};
pub use xdp::{XdpStatus, keep_xdp};
