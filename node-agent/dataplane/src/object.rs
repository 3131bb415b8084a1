//! The embedded kernel object.

/// The kernel object that the build script made.
pub(crate) static OBJECT: &[u8] = aya::include_bytes_aligned!(env!("SKEP_EBPF_OBJECT"));
