//! What the node is, and how it is.

mod conditions;
mod machine;
mod report;
mod status;

pub use conditions::{Conditions, Health};
pub use machine::{Machine, Readings};
pub use report::NodeReporter;
