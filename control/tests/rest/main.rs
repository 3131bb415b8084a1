//! The API server as clients meet it: a whole service on loopback, with real TLS.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests end at the first surprise"
)]

mod address_pools;
mod auth;
mod bad_input;
mod crud;
mod deletion;
mod harness;
mod kubectl;
mod lists;
mod logs;
mod patches;
mod restart;
mod services;
mod tables;
mod watches;
