//! The machine is driven by values: a pretended runtime carries commands out the moment they are given, unless a test
//! holds them back.

mod deletion;
mod failures;
mod lifecycle;
mod status;
mod world;

pub(super) use world::World;
