//! What each command shows, computed from what the maps hold. Pure.

pub(crate) mod connections;
pub(crate) mod dns;
pub(crate) mod drops;
pub(crate) mod endpoints;
pub(crate) mod flows;
pub(crate) mod north_south;
pub(crate) mod policy;
pub(crate) mod policy_entries;
pub(crate) mod service_entries;
pub(crate) mod services;
pub(crate) mod status;

#[cfg(test)]
mod samples;
