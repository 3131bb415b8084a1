//! Reads what is shown: maps, pinned links, names.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context as _, Result};
use skep_agent_core::dataplane::{MapContents, Names};
use skep_dataplane::Maps;

/// Opens the maps.
pub(crate) fn maps(bpf_dir: &Path) -> Result<Maps> {
    let version = skep_abi::VERSION;
    Maps::open(bpf_dir).with_context(|| {
        format!(
            "no dataplane of version {version} can be read in {} (does the agent run? are you root?)",
            bpf_dir.display()
        )
    })
}

/// What the numbers stand for. Without the file everything is shown by number.
pub(crate) fn names(file: &Path) -> Result<Names> {
    let text = match fs::read(file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Names::default()),
        Err(error) => return Err(error).with_context(|| format!("read names from {}", file.display())),
    };
    serde_json::from_slice(&text).with_context(|| format!("names in {}", file.display()))
}

/// Names of the pinned links; none when nothing is attached yet.
pub(crate) fn links(bpf_dir: &Path) -> Result<Vec<String>> {
    let dir = bpf_dir.join(format!("v{}", skep_abi::VERSION)).join("links");
    let read = || -> std::io::Result<Vec<String>> {
        fs::read_dir(&dir)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    };
    match read() {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        links => links.with_context(|| format!("read {}", dir.display())),
    }
}

/// The entries that policies consist of.
pub(crate) fn policy_contents(maps: &Maps) -> Result<MapContents> {
    Ok(MapContents {
        endpoints: maps.endpoints.iter()?.into_iter().collect(),
        rule_lists: maps.rule_lists.iter()?.into_iter().collect(),
        peer_rules: maps.peer_rules.iter()?.into_iter().collect(),
        port_rules: maps.port_rules.iter()?.into_iter().map(|(len, key, bits)| ((len, key), bits)).collect(),
        prefixes: maps.prefixes.iter()?.into_iter().map(|(len, key, bits)| ((len, key), bits)).collect(),
        ..MapContents::default()
    })
}

/// Nanoseconds of the kernel's boot-time clock.
pub(crate) fn boot_time() -> Result<u64> {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME).context("read the boot-time clock")?;
    let (seconds, nanos) = (u64::try_from(now.tv_sec())?, u64::try_from(now.tv_nsec())?);
    Ok(seconds * 1_000_000_000 + nanos)
}
