use std::fmt;
use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::rows;

/// This process, by the names that every exporter uses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        match fs::read_to_string("/proc/self/status").ok().as_deref().and_then(resident) {
            Some(bytes) => {
                rows::gauge(&mut encoder, "process_resident_memory_bytes", "Resident memory size in bytes", bytes)
            }
            None => Ok(()),
        }
    }
}

/// `VmRSS` of `/proc/PID/status`, in bytes.
fn resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_kernels_file() {
        assert_eq!(resident("Name:\tx\nVmHWM:\t    9 kB\nVmRSS:\t    3 kB\n"), Some(3072));
        assert_eq!((resident(""), resident("VmRSS:\tmany kB\n")), (None, None));
    }
}
