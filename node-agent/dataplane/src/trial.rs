use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use aya::programs::{SchedClassifier, TestRun, TestRunOptions};

use crate::Error;
use crate::sys;

/// Room for what a program adds to a packet.
const HEADROOM: usize = 256;

/// What a program did with a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trial {
    /// What becomes of the packet.
    pub action: Action,
    /// The packet as the program left it.
    pub packet: Vec<u8>,
    /// Mean time of a run.
    pub duration: Duration,
}

/// What a program decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Goes on.
    Pass,
    /// Ends here.
    Drop,
    /// Goes out of an interface from here: back to where it came from, or on to another node.
    SendBack,
    /// None of those that Skep's programs give; the number is the kernel's.
    Other(i32),
}

/// Runs a program; the name is for errors.
pub(crate) fn run(program: &SchedClassifier, name: &'static str, packet: &[u8], repeat: u32) -> Result<Trial, Error> {
    let mut out = vec![0; packet.len() + HEADROOM];
    let options =
        TestRunOptions { data_in: Some(packet), data_out: Some(&mut out), repeat, ..TestRunOptions::default() };
    let result = program.test_run(options).map_err(|source| Error::Program { name, source })?;
    out.truncate(result.data_size_out as usize);
    let action = match result.return_value.cast_signed() {
        -1 => Action::Pass,
        2 => Action::Drop,
        7 => Action::SendBack,
        other => Action::Other(other),
    };
    Ok(Trial { action, packet: out, duration: result.duration })
}

/// Runs an XDP program.
pub(crate) fn run_xdp(program: BorrowedFd<'_>, packet: &[u8], repeat: u32) -> io::Result<Trial> {
    let mut out = vec![0; packet.len() + HEADROOM];
    let (action, len, duration) = sys::test_run(program, packet, &mut out, repeat)?;
    out.truncate(len);
    let action = match action.cast_signed() {
        1 => Action::Drop,
        2 => Action::Pass,
        3 | 4 => Action::SendBack,
        other => Action::Other(other),
    };
    Ok(Trial { action, packet: out, duration })
}
