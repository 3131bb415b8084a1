//! What network cards add up (`CHECKSUM_COMPLETE`) must be kept right when a packet is rewritten; else the kernel reports a
//! broken card and adds up every packet itself.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};

use aya::programs::SchedClassifier;
use nix::libc;

use crate::build::{ACK, Extra, SYN, TCP, UDP, read, tcp, udp};
use crate::world::{OTHER, POD, VIP, World, at};

/// `BPF_PROG_TEST_RUN` of `enum bpf_cmd`.
const PROG_TEST_RUN: libc::c_long = 10;
/// The packet comes as from a card that has added it up, and the sum is checked afterwards (Linux 6.11).
const CHECKSUM_COMPLETE: u32 = 1 << 2;

/// The part of `union bpf_attr` for `BPF_PROG_TEST_RUN`.
#[repr(C)]
#[derive(Default)]
struct TestRun {
    prog_fd: u32,
    retval: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    ctx_size_in: u32,
    ctx_size_out: u32,
    ctx_in: u64,
    ctx_out: u64,
    flags: u32,
    cpu: u32,
    batch_size: u32,
    pad: u32,
}

/// The packet as the program leaves it. `EBADMSG` when the sum is not its own any more.
fn run(program: &SchedClassifier, packet: &[u8]) -> io::Result<Vec<u8>> {
    let mut out = vec![0; packet.len() + 256];
    let mut attr = TestRun {
        prog_fd: program.fd().unwrap().as_fd().as_raw_fd().cast_unsigned(),
        data_size_in: packet.len() as u32,
        data_size_out: out.len() as u32,
        data_in: packet.as_ptr() as u64,
        data_out: out.as_mut_ptr() as u64,
        repeat: 1,
        flags: CHECKSUM_COMPLETE,
        ..TestRun::default()
    };
    // SAFETY: both buffers live on and are as long as is said.
    #[allow(unsafe_code, reason = "aya has no flags for these runs")]
    let result = unsafe { libc::syscall(libc::SYS_bpf, PROG_TEST_RUN, &raw mut attr, size_of::<TestRun>()) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    out.truncate(attr.data_size_out as usize);
    Ok(out)
}

fn pinned(dir: &Path, name: &str) -> Option<PathBuf> {
    std::fs::read_dir(dir).unwrap().flatten().find_map(|entry| {
        let path = entry.path();
        if path.is_dir() { pinned(&path, name) } else { (entry.file_name() == name).then_some(path) }
    })
}

#[test]
fn a_sum_that_the_card_made_stays_right() {
    let Some(world) = World::new() else { return };
    let [from_pod, to_pod] = ["skep_from_pod", "skep_to_pod"]
        .map(|name| SchedClassifier::from_pin(pinned(&world.pins(), name).unwrap()).unwrap());
    for i in 0..2 {
        for (proto, port) in [(TCP, 80), (UDP, 53)] {
            let (service, backend, pod) = (at(VIP[i], port), at(OTHER[i], 8080), at(POD[i], 40000));
            world.serve(service, proto, Some(backend));
            for extra in [Extra::default(), Extra::some()] {
                let (question, answer) = match proto {
                    TCP => (tcp(pod, service, SYN, b"", &extra), tcp(backend, pod, SYN | ACK, b"", &extra)),
                    _ => (udp(pod, service, b"question", &extra), udp(backend, pod, b"answer", &extra)),
                };
                let there = match run(&from_pod, &question) {
                    Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                        println!("skipped: this kernel cannot make such packets (Linux 6.11 can)");
                        return;
                    }
                    there => read(&there.unwrap()),
                };
                assert_eq!((there.src, there.dst), (pod, backend));
                let back = read(&run(&to_pod, &answer).unwrap());
                assert_eq!((back.src, back.dst), (service, pod));
            }
        }
    }
}
