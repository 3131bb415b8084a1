//! The `bpf(2)` calls that aya has no safe form of: links as plain file descriptors, and trials of programs
//! that it cannot take from their pins.
//!
//! aya ties a link to the program object that made it. Skep's links outlive the agent and change their program while
//! they run, so that they are handled by descriptor and path here, cgroup and TCX ones alike.
#![allow(unsafe_code, reason = "raw system calls")]

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use nix::libc;

const BPF_MAP_LOOKUP_ELEM: libc::c_int = 1;
const BPF_MAP_UPDATE_ELEM: libc::c_int = 2;
const BPF_MAP_GET_NEXT_KEY: libc::c_int = 4;
const BPF_OBJ_PIN: libc::c_int = 6;
const BPF_OBJ_GET: libc::c_int = 7;
const BPF_PROG_TEST_RUN: libc::c_int = 10;
const BPF_OBJ_GET_INFO_BY_FD: libc::c_int = 15;
const BPF_MAP_LOOKUP_BATCH: libc::c_int = 24;
const BPF_MAP_UPDATE_BATCH: libc::c_int = 26;
const BPF_LINK_CREATE: libc::c_int = 28;
const BPF_LINK_UPDATE: libc::c_int = 29;
const BPF_LINK_DETACH: libc::c_int = 34;

/// `XDP_FLAGS_DRV_MODE` of the kernel's `if_link.h`.
const XDP_DRIVER: u32 = 1 << 2;

/// Where a program can be attached (`enum bpf_attach_type` of the kernel's interface).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum AttachType {
    Inet4Connect = 10,
    Inet6Connect = 11,
    Udp4Sendmsg = 14,
    Udp6Sendmsg = 15,
    Udp4Recvmsg = 19,
    Udp6Recvmsg = 20,
    Inet4Getpeername = 29,
    Inet6Getpeername = 30,
    InetSockRelease = 34,
    /// At the interface's driver: the kernel's own stand-in for drivers that cannot run programs is not taken.
    Xdp = 37,
    TcxIngress = 46,
    TcxEgress = 47,
}

/// What a link hangs on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target<'a> {
    /// A cgroup2 directory.
    Cgroup(BorrowedFd<'a>),
    /// A network interface of the calling thread's namespace.
    Interface(u32),
}

/// `bpf_attr` for the pin commands.
#[repr(C)]
struct ObjAttr {
    pathname: u64,
    bpf_fd: u32,
    file_flags: u32,
}

/// `bpf_attr` for the commands on one entry.
#[repr(C)]
struct EntryAttr {
    map_fd: u32,
    pad: u32,
    key: u64,
    /// The value, or where the next key goes.
    value: u64,
    flags: u64,
}

/// `bpf_attr` for the batch commands.
#[repr(C)]
struct BatchAttr {
    in_batch: u64,
    out_batch: u64,
    keys: u64,
    values: u64,
    count: u32,
    map_fd: u32,
    elem_flags: u64,
    flags: u64,
}

#[repr(C)]
struct LinkCreateAttr {
    prog_fd: u32,
    target: u32,
    attach_type: u32,
    flags: u32,
    relative: u64,
    expected_revision: u64,
}

#[repr(C)]
struct LinkUpdateAttr {
    link_fd: u32,
    new_prog_fd: u32,
    flags: u32,
    old_prog_fd: u32,
}

#[repr(C)]
struct InfoAttr {
    bpf_fd: u32,
    info_len: u32,
    info: u64,
}

/// `bpf_attr` for a trial.
#[repr(C)]
struct TestRunAttr {
    prog_fd: u32,
    retval: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
}

/// Head of the kernel's `bpf_link_info`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(8))]
pub(crate) struct LinkInfo {
    kind: u32,
    id: u32,
    prog_id: u32,
    pad: u32,
    /// cgroup link: id of the cgroup in two words, attach type. TCX link: interface index (0 once the interface is
    /// gone), attach type. XDP link: interface index alone.
    words: [u32; 8],
}

impl LinkInfo {
    /// Whether the link still hangs on the target in this way.
    pub(crate) fn is_on(&self, target: Target<'_>, target_id: u64, attach: AttachType) -> bool {
        let [a, b, c, ..] = self.words;
        let (id, attach_type) = match target {
            Target::Cgroup(_) => (u64::from_ne_bytes(two(a, b)), c),
            Target::Interface(_) if attach == AttachType::Xdp => (u64::from(a), attach as u32),
            Target::Interface(_) => (u64::from(a), b),
        };
        id == target_id && attach_type == attach as u32
    }
}

/// Two words as they lie in memory.
fn two(a: u32, b: u32) -> [u8; 8] {
    let ([a, b, c, d], [e, f, g, h]) = (a.to_ne_bytes(), b.to_ne_bytes());
    [a, b, c, d, e, f, g, h]
}

/// Calls `bpf(2)` with an attribute structure of the command's layout.
fn bpf<T>(command: libc::c_int, attr: &mut T) -> io::Result<libc::c_long> {
    // SAFETY: every caller passes the structure that the command expects, with pointers into memory that outlives the
    // call; the kernel reads no more than the given size and treats what is missing as zero.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attr), size_of::<T>() as libc::c_uint) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn new_fd(result: libc::c_long) -> OwnedFd {
    // SAFETY: the kernel has just made this descriptor for us; nobody else knows it.
    unsafe { OwnedFd::from_raw_fd(result as libc::c_int) }
}

fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
}

fn raw(fd: BorrowedFd<'_>) -> u32 {
    // Descriptors are never negative.
    fd.as_raw_fd().unsigned_abs()
}

/// Opens what is pinned at a path.
pub(crate) fn get(path: &Path) -> io::Result<OwnedFd> {
    let path = c_path(path)?;
    let mut attr = ObjAttr { pathname: path.as_ptr() as u64, bpf_fd: 0, file_flags: 0 };
    bpf(BPF_OBJ_GET, &mut attr).map(new_fd)
}

/// Pins a descriptor at a path where nothing is.
pub(crate) fn pin(fd: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let path = c_path(path)?;
    let mut attr = ObjAttr { pathname: path.as_ptr() as u64, bpf_fd: raw(fd), file_flags: 0 };
    bpf(BPF_OBJ_PIN, &mut attr).map(drop)
}

/// Attaches a program; dropping the descriptor detaches it unless it is pinned.
pub(crate) fn link_create(program: BorrowedFd<'_>, target: Target<'_>, attach: AttachType) -> io::Result<OwnedFd> {
    let target = match target {
        Target::Cgroup(fd) => raw(fd),
        Target::Interface(ifindex) => ifindex,
    };
    let mut attr = LinkCreateAttr {
        prog_fd: raw(program),
        target,
        attach_type: attach as u32,
        flags: if attach == AttachType::Xdp { XDP_DRIVER } else { 0 },
        relative: 0,
        expected_revision: 0,
    };
    bpf(BPF_LINK_CREATE, &mut attr).map(new_fd)
}

/// Exchanges the program of a running link in one step.
pub(crate) fn link_update(link: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    let mut attr = LinkUpdateAttr { link_fd: raw(link), new_prog_fd: raw(program), flags: 0, old_prog_fd: 0 };
    bpf(BPF_LINK_UPDATE, &mut attr).map(drop)
}

/// Takes a link off what it hangs on, at once and whoever still refers to it (Linux 5.9).
pub(crate) fn link_detach(link: BorrowedFd<'_>) -> io::Result<()> {
    let mut attr = raw(link);
    bpf(BPF_LINK_DETACH, &mut attr).map(drop)
}

/// What the kernel knows about a link.
pub(crate) fn link_info(link: BorrowedFd<'_>) -> io::Result<LinkInfo> {
    let mut info = LinkInfo::default();
    let mut attr = InfoAttr {
        bpf_fd: raw(link),
        info_len: size_of::<LinkInfo>() as u32,
        info: std::ptr::from_mut(&mut info) as u64,
    };
    bpf(BPF_OBJ_GET_INFO_BY_FD, &mut attr)?;
    Ok(info)
}

/// Runs a program on a packet, `repeat` times; gives what it returned, the length of the packet in `out` as the program left
/// it, and the mean time of a run.
pub(crate) fn test_run(
    program: BorrowedFd<'_>,
    packet: &[u8],
    out: &mut [u8],
    repeat: u32,
) -> io::Result<(u32, usize, Duration)> {
    let size = |bytes: &[u8]| u32::try_from(bytes.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput));
    let mut attr = TestRunAttr {
        prog_fd: raw(program),
        retval: 0,
        data_size_in: size(packet)?,
        data_size_out: size(out)?,
        data_in: packet.as_ptr() as u64,
        data_out: out.as_mut_ptr() as u64,
        repeat,
        duration: 0,
    };
    bpf(BPF_PROG_TEST_RUN, &mut attr)?;
    Ok((attr.retval, attr.data_size_out as usize, Duration::from_nanos(attr.duration.into())))
}

/// What [`map_update_batch`] came to.
#[derive(Debug)]
pub(crate) enum Batch {
    /// Every entry is written.
    Done,
    /// So many are, the next one could not be.
    Stopped(usize),
    /// The kernel, or this kind of map, has no such call: nothing is known to be written.
    Unsupported,
}

/// Writes entries in one call (Linux 5.6). Each is written on its own, as by single calls.
pub(crate) fn map_update_batch<K: aya::Pod, V: aya::Pod>(map: BorrowedFd<'_>, keys: &[K], values: &[V]) -> Batch {
    update_entries(map, keys.as_ptr() as u64, values.as_ptr() as u64, keys.len().min(values.len()))
}

/// As [`map_update_batch`], of keys and values that lie one behind the other.
pub(crate) fn map_update_batch_bytes(map: BorrowedFd<'_>, sizes: Sizes, keys: &[u8], values: &[u8]) -> Batch {
    update_entries(map, keys.as_ptr() as u64, values.as_ptr() as u64, sizes.room(keys.len(), values.len()))
}

/// Keys and values are at these addresses, `given` of each.
fn update_entries(map: BorrowedFd<'_>, keys: u64, values: u64, given: usize) -> Batch {
    let Ok(count) = u32::try_from(given) else { return Batch::Unsupported };
    let mut attr =
        BatchAttr { in_batch: 0, out_batch: 0, keys, values, count, map_fd: raw(map), elem_flags: 0, flags: 0 };
    match bpf(BPF_MAP_UPDATE_BATCH, &mut attr) {
        Ok(_) => Batch::Done,
        // What has no batch calls says ENOTSUPP, a number that only the kernel knows; older kernels do not know the
        // command. Either leaves the count as it was.
        Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | ENOTSUPP | libc::EFAULT)) => {
            Batch::Unsupported
        }
        Err(_) => Batch::Stopped((attr.count as usize).min(given)),
    }
}

/// `ENOTSUPP` of the kernel's own `errno.h`.
const ENOTSUPP: i32 = 524;

/// Where a walk over a hash map goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    /// At the beginning.
    Start,
    /// At this bucket.
    At(u32),
    /// Nowhere: it has seen everything.
    End,
}

/// Reads entries of a hash map, as many as there is room for in both slices, and says how many they are (Linux 5.6).
///
/// Entries that come or go meanwhile may be among them or not. `K` and `V` are as long as the map's keys and values.
///
/// # Errors
///
/// `ENOSPC` when there is no room for the entries of one bucket.
pub(crate) fn lookup_batch<K: aya::Pod, V: aya::Pod>(
    map: BorrowedFd<'_>,
    position: &mut Position,
    keys: &mut [K],
    values: &mut [V],
) -> io::Result<usize> {
    let room = keys.len().min(values.len());
    lookup_entries(map, position, keys.as_mut_ptr() as u64, values.as_mut_ptr() as u64, room)
}

/// Bytes of a map's keys and of its values. Neither is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub(crate) key: usize,
    pub(crate) value: usize,
}

impl Sizes {
    /// How many entries there are in so many bytes of keys and of values.
    fn room(self, keys: usize, values: usize) -> usize {
        (keys / self.key).min(values / self.value)
    }
}

/// As [`lookup_batch`], with keys and values one behind the other.
///
/// # Errors
///
/// See there.
pub(crate) fn lookup_batch_bytes(
    map: BorrowedFd<'_>,
    position: &mut Position,
    sizes: Sizes,
    keys: &mut [u8],
    values: &mut [u8],
) -> io::Result<usize> {
    let room = sizes.room(keys.len(), values.len());
    lookup_entries(map, position, keys.as_mut_ptr() as u64, values.as_mut_ptr() as u64, room)
}

/// There is room for `room` keys and values at these addresses.
fn lookup_entries(
    map: BorrowedFd<'_>,
    position: &mut Position,
    keys: u64,
    values: u64,
    room: usize,
) -> io::Result<usize> {
    let mut next = 0_u32;
    let in_batch = match position {
        Position::Start => 0,
        Position::At(bucket) => std::ptr::from_ref(bucket) as u64,
        Position::End => return Ok(0),
    };
    let mut attr = BatchAttr {
        in_batch,
        out_batch: std::ptr::from_mut(&mut next) as u64,
        keys,
        values,
        count: u32::try_from(room).unwrap_or(u32::MAX),
        map_fd: raw(map),
        elem_flags: 0,
        flags: 0,
    };
    match bpf(BPF_MAP_LOOKUP_BATCH, &mut attr) {
        Ok(_) => *position = Position::At(next),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => *position = Position::End,
        Err(error) => return Err(error),
    }
    Ok(attr.count as usize)
}

/// The key behind another one, or the first one, is written to `key`; says whether there is one. All keys are as long as the
/// map's.
pub(crate) fn next_key(map: BorrowedFd<'_>, after: Option<&[u8]>, key: &mut [u8]) -> io::Result<bool> {
    let mut attr = EntryAttr {
        map_fd: raw(map),
        pad: 0,
        key: after.map_or(0, |after| after.as_ptr() as u64),
        value: key.as_mut_ptr() as u64,
        flags: 0,
    };
    there(bpf(BPF_MAP_GET_NEXT_KEY, &mut attr))
}

/// The value of a key is written to `value`; says whether there is one. Both are as long as the map's.
pub(crate) fn lookup(map: BorrowedFd<'_>, key: &[u8], value: &mut [u8]) -> io::Result<bool> {
    let mut attr =
        EntryAttr { map_fd: raw(map), pad: 0, key: key.as_ptr() as u64, value: value.as_mut_ptr() as u64, flags: 0 };
    there(bpf(BPF_MAP_LOOKUP_ELEM, &mut attr))
}

fn there(result: io::Result<libc::c_long>) -> io::Result<bool> {
    match result {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(false),
        Err(error) => Err(error),
    }
}

/// When an entry may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum When {
    /// Always.
    Any = 0,
    /// When there is none of this key.
    Absent = 1,
    /// When there is one.
    Present = 2,
}

/// Writes an entry; says whether it was the time for it. Key and value are as long as the map's.
pub(crate) fn update(map: BorrowedFd<'_>, key: &[u8], value: &[u8], when: When) -> io::Result<bool> {
    let mut attr = EntryAttr {
        map_fd: raw(map),
        pad: 0,
        key: key.as_ptr() as u64,
        value: value.as_ptr() as u64,
        flags: when as u64,
    };
    match bpf(BPF_MAP_UPDATE_ELEM, &mut attr) {
        Ok(_) => Ok(true),
        Err(error) => match (when, error.raw_os_error()) {
            (When::Absent, Some(libc::EEXIST)) | (When::Present, Some(libc::ENOENT)) => Ok(false),
            _ => Err(error),
        },
    }
}
