use std::io;
use std::path::PathBuf;

/// Why the dataplane could not be loaded, read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel object itself could not be read or relocated, or a map of it not created.
    #[error("kernel object: {0}")]
    Object(#[from] aya::EbpfError),
    /// The object has no program or map of this name, or one of another type: agent and object were built apart.
    #[error("kernel object has no usable {0}")]
    NotInObject(&'static str),
    /// The kernel refused a program.
    #[error("program {name}: {source}")]
    Program {
        /// Name of the program in the object.
        name: &'static str,
        /// What aya or the verifier said.
        source: aya::programs::ProgramError,
    },
    /// A program could not be tried.
    #[error("trial of program {name}: {source}")]
    Trial {
        /// Name of the program in the object.
        name: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// A map operation failed.
    #[error("map {name}: {source}")]
    Map {
        /// Name of the map, one of `skep_abi::map`.
        name: &'static str,
        /// What the kernel said; `E2BIG` means that the map is full.
        source: aya::maps::MapError,
    },
    /// A pinned map of the same ABI version has another layout than this program.
    #[error(
        "map {name} is pinned with another layout ({found}, expected {expected}); remove the pin directory to start afresh"
    )]
    Layout {
        /// Name of the map.
        name: &'static str,
        /// Layout of the pinned map.
        found: String,
        /// Layout that the object asks for.
        expected: String,
    },
    /// A map holds more entries than it is to have room for. Nothing has changed.
    #[error("map {name} has {entries} entries in use: there is no room for them in {capacity}")]
    TooSmall {
        /// Name of the map.
        name: &'static str,
        /// Entries in it.
        entries: usize,
        /// Entries that were to be its capacity.
        capacity: u32,
    },
    /// A link could not be made, updated, opened or pinned.
    #[error("link {path}: {message}")]
    Link {
        /// Where it is, or would be, pinned.
        path: PathBuf,
        /// What the kernel said.
        message: String,
    },
    /// The interface that is to be the uplink is not there or cannot be read.
    #[error("interface {ifindex}: {source}")]
    Interface {
        /// Its index.
        ifindex: u32,
        /// Why.
        source: io::Error,
    },
    /// XDP was demanded, and cannot be.
    #[error("XDP on interface {ifindex}: {reason}")]
    Xdp {
        /// Index of the uplink.
        ifindex: u32,
        /// Why.
        reason: String,
    },
    /// A file or directory could not be used.
    #[error("{path}: {source}")]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The pin directory is not on a BPF file system and none could be mounted there.
    #[error("{0} is not on a BPF file system (mount one there with: mount -t bpf bpf DIR)")]
    NotBpfFs(PathBuf),
}

impl Error {
    /// Whether the cause is a full map: the entry is not there and nothing else changed.
    pub fn is_full(&self) -> bool {
        let os = match self {
            Self::Map { source: aya::maps::MapError::SyscallError(e), .. } => e.io_error.raw_os_error(),
            Self::Map { source: aya::maps::MapError::IoError(e), .. } => e.raw_os_error(),
            _ => None,
        };
        matches!(os, Some(nix::libc::E2BIG | nix::libc::ENOSPC))
    }
}
