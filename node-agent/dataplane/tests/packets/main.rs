//! The pod hooks on made-up packets, run by the kernel (BPF_PROG_TEST_RUN) against maps that the test writes.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "all of this is test code"
)]

mod build;
mod choice;
mod cost;
mod malformed;
mod offload;
mod refuse;
mod resize;
mod translate;
mod world;
