//! The pod hooks on made-up packets, run by the kernel (BPF_PROG_TEST_RUN) against maps that the test writes.

mod build;
mod cost;
mod malformed;
mod refuse;
mod translate;
mod world;
