//! Label and field selectors.

mod field;
mod label;

pub use field::FieldSelector;
pub use label::{LabelSelector, Requirement, matches_typed};

#[cfg(test)]
mod tests;
