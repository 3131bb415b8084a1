//! The cable between the nodes: a network namespace with a bridge, and one link to the machine itself.
//!
//! ```text
//!   machine ── sk7 ─┐                        ┌─ eth0  skep-1a2b-dev-node-1   198.18.7.11
//!   198.18.7.254    │  skep-1a2b-dev-net     │
//!                   └──── br0 198.18.7.1 ────┤   the control service listens on the bridge's address
//!                                            ├─ eth0  skep-1a2b-dev-node-2   198.18.7.12
//!                                            └─ eth0  skep-1a2b-dev-outside  198.18.7.201  (only where a test asks for it)
//! ```
//!
//! `outside` is a machine that is no part of the cluster and has no route to its pods. 198.18.7.224/28 and the IPv6
//! addresses ending in e0 to ef are nobody's: load balancer addresses for tests.
//!
//! Frames between nodes cross the bridge in a namespace of its own, so that no firewall rule of the machine sees them.

use std::fs;

use anyhow::{Context as _, Result, bail};

use crate::command::{ip_batch, output, run, words};

/// Addresses of one cluster, all made from its number. 198.18.0.0/15 is set aside for tests by RFC 2544.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    index: u8,
}

impl Plan {
    pub(super) const fn new(index: u8) -> Self {
        Self { index }
    }

    pub(super) fn control(self) -> String {
        format!("198.18.{}.1", self.index)
    }

    fn control6(self) -> String {
        format!("fd53:6b65:70:{:x}::1", self.index)
    }

    pub(super) fn node(self, number: usize) -> [String; 2] {
        [format!("198.18.{}.{}", self.index, 10 + number), format!("fd53:6b65:70:{:x}::{:x}", self.index, 10 + number)]
    }

    /// Of a machine that is no node.
    pub(super) fn machine(self, number: u8) -> [String; 2] {
        let host = 200 + u16::from(number);
        [format!("198.18.{}.{host}", self.index), format!("fd53:6b65:70:{:x}::{host:x}", self.index)]
    }

    /// Ranges for load balancer addresses, one a family.
    pub(super) fn load_balancers(self) -> [String; 2] {
        [format!("198.18.{}.224/28", self.index), format!("fd53:6b65:70:{:x}::e0/124", self.index)]
    }

    pub(super) fn host_link(self) -> String {
        format!("sk{}", self.index)
    }
}

/// Makes the bridge's namespace and claims the first free number by making the link of that number, which only one can.
pub(super) fn create(prefix: &str) -> Result<u8> {
    let netns = format!("{prefix}-net");
    run(&mut words(&format!("ip netns add {netns}")))?;
    for index in 1..=200_u8 {
        let plan = Plan::new(index);
        let link = plan.host_link();
        let made = output(&mut words(&format!("ip link add {link} type veth peer name host netns {netns}")))?;
        if !made.status.success() {
            let error = String::from_utf8_lossy(&made.stderr);
            if error.contains("exists") {
                continue;
            }
            bail!("cannot make the link {link}: {}", error.trim());
        }
        ip_batch(
            None,
            &[
                format!("link set {link} alias {prefix}"),
                format!("addr add 198.18.{index}.254/24 dev {link}"),
                format!("addr add fd53:6b65:70:{index:x}::fe/64 dev {link} nodad"),
                format!("link set {link} up"),
            ],
        )?;
        let lines = [
            "link set lo up".to_owned(),
            "link add br0 type bridge forward_delay 0".to_owned(),
            "link set host master br0 up".to_owned(),
            format!("addr add {}/24 dev br0", plan.control()),
            format!("addr add {}/64 dev br0 nodad", plan.control6()),
            "link set br0 up".to_owned(),
        ];
        ip_batch(Some(&netns), &lines)?;
        return Ok(index);
    }
    bail!("no number between 1 and 200 is free for another cluster: `ip link` shows who has the sk* links")
}

/// Makes a node's namespace and plugs it in.
pub(super) fn add_node(prefix: &str, node: &str, addresses: &[String; 2]) -> Result<()> {
    let (fabric, netns) = (format!("{prefix}-net"), format!("{prefix}-{node}"));
    run(&mut words(&format!("ip netns add {netns}")))?;
    ip_batch(
        Some(&fabric),
        &[format!("link add {node} type veth peer name eth0 netns {netns}"), format!("link set {node} master br0 up")],
    )?;
    let [v4, v6] = addresses;
    ip_batch(
        Some(&netns),
        &[
            "link set lo up".to_owned(),
            format!("addr add {v4}/24 dev eth0"),
            format!("addr add {v6}/64 dev eth0 nodad"),
            "link set eth0 up".to_owned(),
        ],
    )
}

/// Unplugs a node, or plugs it in again.
pub(super) fn set_link(prefix: &str, node: &str, up: bool) -> Result<()> {
    let state = if up { "up" } else { "down" };
    ip_batch(Some(&format!("{prefix}-net")), &[format!("link set {node} {state}")])
}

/// Removes every namespace and link whose name or alias carries the prefix.
pub(super) fn remove(prefix: &str) -> Result<()> {
    for link in host_links(prefix)? {
        run(&mut words(&format!("ip link del {link}")))?;
    }
    for netns in namespaces(prefix)? {
        run(&mut words(&format!("ip netns del {netns}")))?;
    }
    Ok(())
}

/// Named network namespaces of a prefix.
pub(super) fn namespaces(prefix: &str) -> Result<Vec<String>> {
    let begin = format!("{prefix}-");
    let entries = match fs::read_dir("/run/netns") {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).context("cannot list /run/netns"),
    };
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    Ok(names.collect::<Result<Vec<_>>>()?.into_iter().filter(|name| name.starts_with(&begin)).collect())
}

/// Links of a prefix in the machine's own namespace.
pub(super) fn host_links(prefix: &str) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/sys/class/net").context("cannot list network links")? {
        let path = entry?.path();
        if fs::read_to_string(path.join("ifalias")).is_ok_and(|alias| alias.trim_end() == prefix) {
            found.extend(path.file_name().map(|name| name.to_string_lossy().into_owned()));
        }
    }
    Ok(found)
}
