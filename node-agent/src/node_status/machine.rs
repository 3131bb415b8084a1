use std::fs;
use std::path::Path;

use nix::sys::statvfs::statvfs;
use nix::sys::utsname::uname;

/// What does not change while the machine is up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// `/etc/machine-id`.
    pub machine_id: String,
    /// The firmware's id of the machine; the machine id when there is none.
    pub system_uuid: String,
    /// Changes with every boot.
    pub boot_id: String,
    /// Release of the kernel.
    pub kernel: String,
    /// Name of the distribution.
    pub os_image: String,
    /// Processors.
    pub cpus: usize,
}

impl Machine {
    /// Asks the system. What it does not say stays empty.
    #[must_use]
    pub fn read() -> Self {
        let line = |path: &str| fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default();
        let machine_id = line("/etc/machine-id");
        let uuid = line("/sys/class/dmi/id/product_uuid");
        Self {
            system_uuid: if uuid.is_empty() { machine_id.clone() } else { uuid },
            machine_id,
            boot_id: line("/proc/sys/kernel/random/boot_id"),
            kernel: uname().map(|name| name.release().to_string_lossy().into_owned()).unwrap_or_default(),
            os_image: os_image(&line("/etc/os-release")),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

fn os_image(release: &str) -> String {
    let pretty = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    pretty.map_or_else(|| "Linux".to_owned(), |name| name.trim_matches(['"', '\'']).to_owned())
}

/// What changes from moment to moment. Bytes, unless said otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readings {
    /// Memory of the machine.
    pub memory: u64,
    /// Memory that programs could still get.
    pub memory_available: u64,
    /// Size of the file system of the state directory.
    pub disk: u64,
    /// What unprivileged programs could still write to it.
    pub disk_available: u64,
    /// Processes and threads.
    pub tasks: u64,
    /// How many of them there can be.
    pub most_tasks: u64,
}

impl Readings {
    /// Asks the system. What it does not say stays 0.
    #[must_use]
    pub fn read(state_dir: &Path) -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let (memory, memory_available) = memory(&text("/proc/meminfo"));
        let (disk, disk_available) = statvfs(state_dir).map_or((0, 0), |fs| {
            let unit = fs.fragment_size();
            (fs.blocks() * unit, fs.blocks_available() * unit)
        });
        let number = |path: &str| text(path).trim().parse::<u64>().ok();
        let limits = ["/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"];
        Self {
            memory,
            memory_available,
            disk,
            disk_available,
            tasks: tasks(&text("/proc/loadavg")),
            most_tasks: limits.into_iter().filter_map(number).min().unwrap_or(0),
        }
    }
}

/// `MemTotal` and `MemAvailable` of `/proc/meminfo`.
fn memory(meminfo: &str) -> (u64, u64) {
    let field = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let kibibytes = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
        kibibytes.unwrap_or(0) * 1024
    };
    (field("MemTotal"), field("MemAvailable"))
}

/// The number behind the slash in the fourth field of `/proc/loadavg`.
fn tasks(loadavg: &str) -> u64 {
    let field = loadavg.split_whitespace().nth(3).and_then(|field| field.split_once('/'));
    field.and_then(|(_, all)| all.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_systems_files() {
        assert_eq!(memory("MemTotal:       16 kB\nMemFree: 1 kB\nMemAvailable:    4 kB\n"), (16384, 4096));
        assert_eq!(tasks("0.10 0.20 0.30 2/345 6789\n"), 345);
        assert_eq!(os_image("NAME=x\nPRETTY_NAME=\"Debian GNU/Linux 12\"\n"), "Debian GNU/Linux 12");
        assert_eq!((memory(""), tasks(""), os_image("")), ((0, 0), 0, "Linux".to_owned()));
    }
}
