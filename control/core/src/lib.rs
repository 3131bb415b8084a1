//! The control service's decisions, as values in and values out: API machinery, controllers, scheduler.
//!
//! Nothing here reads a clock, draws a random number, opens a file or waits; whoever calls passes those in.

pub mod address;
pub mod api;
pub mod controllers;
pub mod scheduler;
