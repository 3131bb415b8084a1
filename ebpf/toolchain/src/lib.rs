//! Finds a BPF-capable Rust toolchain and builds the kernel object with it.
//!
//! Two kinds will do, and which of them is installed decides:
//!
//! - rustup's nightly with the `rust-src` component, which builds `core` for BPF itself (`-Z build-std`);
//! - a distribution's Rust that comes with a `core` already built for BPF (Debian: `rustc-web`, `cargo-web` and
//!   `libstd-rust-web-dev-bpf`), which needs no nightly but must be told so (`RUSTC_BOOTSTRAP=1`).
//!
//! Either way `bpf-linker` makes the object.

mod build;
mod detect;

pub use build::{build, inputs};
pub use detect::{Missing, Toolchain, detect, rustc_for_bpf};

/// The target of the kernel object: BPF in the byte order of the machine that runs it.
pub const TARGET: &str = if cfg!(target_endian = "big") { "bpfeb-unknown-none" } else { "bpfel-unknown-none" };
