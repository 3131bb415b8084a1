//! Long-running programs of a cluster: each lives in a cgroup of its own, by which it is found again.

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::cgroup;
use crate::command::{command, run, wait_until};

/// Where a program runs.
pub(super) enum Place<'a> {
    /// The machine's mount namespace and a named network namespace.
    Netns(&'a str),
    /// Every namespace of a node, by the process that holds them.
    Node(i32),
}

/// A program in a cgroup that nothing else uses.
pub(super) struct Process {
    /// File name of the program, as the kernel shows it.
    pub(super) name: &'static str,
    /// The cgroup's directory.
    pub(super) cgroup: PathBuf,
    /// Where its output goes.
    pub(super) log: PathBuf,
}

impl Process {
    /// Starts the program detached from this one. The shell in between moves itself into the cgroup first, so that not one
    /// instruction of the program runs elsewhere.
    pub(super) fn start<S: AsRef<OsStr>>(&self, place: Place<'_>, argv: &[S]) -> Result<()> {
        fs::create_dir_all(&self.cgroup).with_context(|| format!("cannot make {}", self.cgroup.display()))?;
        let mut enter = match place {
            Place::Netns(name) => vec![format!("--net=/run/netns/{name}")],
            Place::Node(pid) => enter_node(pid),
        };
        enter.insert(0, "nsenter".to_owned());
        enter.insert(0, "--fork".to_owned());
        let script = r#"echo $$ > "$0/cgroup.procs" && exec >>"$1" 2>&1 && shift && exec "$@""#;
        let mut setsid = command("setsid", &enter);
        setsid.args(["sh", "-c", script]).arg(&self.cgroup).arg(&self.log).args(argv);
        // Inherited pipes would keep whoever reads this program's output waiting.
        setsid.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        run(&mut setsid)?;
        wait_until(&format!("{} starts", self.name), Duration::from_secs(10), || Ok(self.pid().is_some()))
            .with_context(|| format!("see {}", self.log.display()))
    }

    /// Its process id, `None` when it does not run. Children in the same cgroup (a runtime's shims) are not meant.
    pub(super) fn pid(&self) -> Option<i32> {
        let named = |pid: &i32| {
            let comm = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            comm.trim_end() == &self.name[..self.name.len().min(15)]
        };
        cgroup::processes(&self.cgroup).into_iter().find(named)
    }

    /// SIGKILL, and waits for the end.
    pub(super) fn kill(&self) -> Result<()> {
        let pid = self.pid().with_context(|| format!("{} does not run", self.name))?;
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::SIGKILL)?;
        wait_until(&format!("{} ends", self.name), Duration::from_secs(10), || {
            // The first thread may be gone while others still hold the sockets.
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            Ok(status.is_empty() || (status.contains("State:\tZ") && status.contains("Threads:\t1\n")))
        })
    }

    /// The last lines of its log, for errors.
    pub(super) fn log_tail(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }
}

/// Arguments of nsenter for a node. Not `ip netns exec`: that mounts a fresh /sys, in which runc finds no cgroups.
pub(super) fn enter_node(pid: i32) -> Vec<String> {
    ["--target", &pid.to_string(), "--mount", "--uts", "--net"].map(str::to_owned).to_vec()
}
