//! The command line.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use clap::{ArgAction, Parser, ValueEnum};
use skep_abi::config_flags;
use skep_agent_core::dataplane::Cidr;
use skep_dataplane::XdpMode;

use crate::dataplane::CapacityArgs;
use crate::dns::DnsArgs;

/// Runs the pods of one node and its dataplane.
#[derive(Clone, Debug, Parser)]
#[command(name = "skep-agent", version)]
pub struct Config {
    /// Name of the node; the certificate's common name must be system:node:<NAME>.
    #[arg(long, value_name = "NAME", value_parser = node_name)]
    pub node_name: String,

    /// The control service.
    #[arg(long, value_name = "HOST:PORT", value_parser = host_port)]
    pub control: String,

    /// Directory with ca.crt, node.crt and node.key.
    #[arg(long, value_name = "DIR")]
    pub pki_dir: PathBuf,

    /// Directory for what must survive a reboot.
    #[arg(long, value_name = "DIR", default_value = "/var/lib/skep")]
    pub state_dir: PathBuf,

    /// Directory for sockets and what is of no use after a reboot.
    #[arg(long, value_name = "DIR", default_value = "/run/skep")]
    pub run_dir: PathBuf,

    /// Socket of the container runtime (CRI v1).
    #[arg(long, value_name = "PATH", default_value = "/run/containerd/containerd.sock")]
    pub cri_socket: PathBuf,

    /// Directory of a mounted BPF file system that maps and links are pinned in.
    #[arg(long, value_name = "DIR", default_value = "/sys/fs/bpf/skep")]
    pub bpf_dir: PathBuf,

    /// cgroup v2 directory whose processes the socket programs serve.
    #[arg(long, value_name = "DIR", default_value = "/sys/fs/cgroup")]
    pub cgroup: PathBuf,

    /// cgroup that the runtime puts pods under, e.g. /skep/pods.
    #[arg(long, value_name = "PATH")]
    pub cgroup_parent: Option<String>,

    /// Addresses of the node, the primary one first, at most one a family.
    #[arg(long, value_name = "IP", required = true, num_args = 1.., value_delimiter = ',')]
    pub node_address: Vec<IpAddr>,

    /// Where the container runtime looks for network configurations.
    #[arg(long, value_name = "DIR", default_value = "/etc/cni/net.d")]
    pub cni_conf_dir: PathBuf,

    /// Where the container runtime looks for network plugins.
    #[arg(long, value_name = "DIR", default_value = "/opt/cni/bin")]
    pub cni_bin_dir: PathBuf,

    /// Label of the node.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub label: Vec<(String, String)>,

    /// Where the control service reaches the node API. Default: port 10250 of the first node address.
    #[arg(long, value_name = "ADDR:PORT")]
    pub node_api_listen: Option<SocketAddr>,

    /// Leave Services to the packet path, without socket programs.
    #[arg(long)]
    pub no_socket_lb: bool,

    /// Interface that leads to other nodes and out of the cluster. Default: the one that has the first node address.
    #[arg(long, value_name = "IFNAME")]
    pub uplink: Option<String>,

    /// Ports that the control service gives Services of type NodePort.
    #[arg(long, value_name = "FIRST-LAST", default_value = "30000-32767")]
    pub node_port_range: PortRange,

    /// Source ports for connections that leave with the node's address; node ports are left out.
    #[arg(long, value_name = "FIRST-LAST", default_value = "1024-65535")]
    pub snat_port_range: PortRange,

    /// Give pod traffic that leaves the cluster the node's address.
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    pub masquerade: bool,

    /// Range outside of the cluster that pods reach with their own address. May be given more than once.
    #[arg(long, value_name = "CIDR")]
    pub no_masquerade_cidr: Vec<Cidr>,

    /// How a connection from outside reaches a backend on another node.
    #[arg(long, value_name = "MODE", default_value = "snat")]
    pub external_mode: ExternalMode,

    /// Send connections from outside to backends on other nodes on at the uplink's driver (XDP), before the kernel makes packet
    /// buffers.
    #[arg(long, value_name = "MODE", default_value = "off")]
    pub xdp: Xdp,

    /// How packets reach the pods of other nodes. Must be the same on every node.
    #[arg(long, value_name = "WAY", default_value = "direct")]
    pub routing: Routing,

    /// Directory for container logs.
    #[arg(long, value_name = "DIR", default_value = "/var/log/pods")]
    pub pod_log_dir: PathBuf,

    /// Names of the cluster.
    #[command(flatten)]
    pub dns: DnsArgs,

    /// Sizes of the maps.
    #[command(flatten)]
    pub capacity: CapacityArgs,
}

/// How a connection from outside that this node receives reaches a backend on another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExternalMode {
    /// With this node's address as its source; replies come back through this node.
    Snat,
    /// As it is; the other node answers the client itself (direct server return).
    Dsr,
}

/// Whether packets that only pass through this node are sent on at the uplink's driver.
///
/// Off unless it is asked for. What passes through gets faster, and what stays here can get slower: with a program on it a
/// driver no longer joins segments in hardware, a veth pair no longer carries them joined, and many drivers take the link
/// down for a moment when the program comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Xdp {
    /// Never.
    Off,
    /// When the kernel says that the driver can (Linux 6.3).
    Auto,
    /// Always; the agent does not start when the driver cannot.
    Native,
}

/// How packets reach the pods of other nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Routing {
    /// By the other node's address, on the network that the nodes share.
    Direct,
    /// In VXLAN packets between the nodes: the network need not know pods' addresses.
    Vxlan,
}

/// A range of ports, both ends in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    /// The first port, from 1.
    pub first: u16,
    /// The last port.
    pub last: u16,
}

impl FromStr for PortRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (first, last) = text.split_once('-').ok_or("FIRST-LAST is needed")?;
        let port = |text: &str| match text.parse::<u16>() {
            Ok(port) if port != 0 => Ok(port),
            _ => Err(format!("{text:?} is not in 1-65535")),
        };
        let range = Self { first: port(first)?, last: port(last)? };
        if range.first > range.last {
            return Err(format!("{} comes after {}", range.first, range.last));
        }
        Ok(range)
    }
}

/// Two settings contradict each other.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// More than one address of a family.
    #[error("--node-address: {0} and {1} are of one family; one of each is used")]
    TwoOfOneFamily(IpAddr, IpAddr),
    /// An address that can be nobody's.
    #[error("--node-address: {0} cannot be the address of a node")]
    NoHostAddress(IpAddr),
}

impl Config {
    /// Checks what clap cannot.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn check(&self) -> Result<(), ConfigError> {
        for (position, addr) in self.node_address.iter().enumerate() {
            if addr.is_unspecified() || addr.is_multicast() {
                return Err(ConfigError::NoHostAddress(*addr));
            }
            if let Some(other) = self.node_address[..position].iter().find(|other| other.is_ipv4() == addr.is_ipv4()) {
                return Err(ConfigError::TwoOfOneFamily(*other, *addr));
            }
        }
        Ok(())
    }

    /// The node's address of a family.
    #[must_use]
    pub fn address(&self, ipv4: bool) -> Option<IpAddr> {
        self.node_address.iter().copied().find(|addr| addr.is_ipv4() == ipv4)
    }

    /// Flags of the programs' settings.
    #[must_use]
    pub fn dataplane_flags(&self) -> u32 {
        let masquerade = if self.masquerade { config_flags::MASQUERADE } else { 0 };
        match self.external_mode {
            ExternalMode::Snat => masquerade,
            ExternalMode::Dsr => masquerade | config_flags::DSR,
        }
    }

    /// What the dataplane is told of [`Self::xdp`].
    #[must_use]
    pub fn xdp_mode(&self) -> XdpMode {
        match self.xdp {
            Xdp::Off => XdpMode::Off,
            Xdp::Auto => XdpMode::Auto,
            Xdp::Native => XdpMode::Native,
        }
    }

    /// Where the node API listens.
    #[must_use]
    pub fn node_api(&self) -> SocketAddr {
        let default = || self.node_address.first().map(|&addr| SocketAddr::new(addr, NODE_API_PORT));
        self.node_api_listen.or_else(default).unwrap_or(SocketAddr::new(IpAddr::from([0, 0, 0, 0]), NODE_API_PORT))
    }

    /// Labels that every node has, and those of the command line, which win.
    #[must_use]
    pub fn labels(&self) -> BTreeMap<String, String> {
        let own = [
            ("kubernetes.io/hostname", self.node_name.as_str()),
            ("kubernetes.io/os", "linux"),
            ("kubernetes.io/arch", architecture()),
        ];
        let own = own.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
        own.chain(self.label.iter().cloned()).collect()
    }

    /// The socket that the CNI plugin talks to.
    #[must_use]
    pub fn cni_socket(&self) -> PathBuf {
        self.run_dir.join("cni.sock")
    }

    /// The socket that people and tools on the node talk to.
    #[must_use]
    pub fn local_api_socket(&self) -> PathBuf {
        self.run_dir.join("agent.sock")
    }
}

/// Port of the node API unless it is set (Kubernetes' kubelet port).
const NODE_API_PORT: u16 = 10250;

/// The machine's architecture as Kubernetes (that is, Go) names it.
#[must_use]
pub fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "powerpc64" => "ppc64le",
        other => other,
    }
}

fn node_name(text: &str) -> Result<String, String> {
    let label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    };
    if text.len() <= 253 && text.split('.').all(label) {
        return Ok(text.to_owned());
    }
    Err("not a DNS subdomain name: lower-case letters, digits, '-' and '.', beginning and ending with a letter or digit"
        .to_owned())
}

fn host_port(text: &str) -> Result<String, String> {
    let (host, port) = text.rsplit_once(':').ok_or("HOST:PORT is needed")?;
    let bracketed = host.starts_with('[') && host.ends_with(']');
    if host.is_empty() || (host.contains(':') && !bracketed) {
        return Err("HOST:PORT is needed, an IPv6 address in brackets".to_owned());
    }
    if port.parse::<u16>().map_or(true, |port| port == 0) {
        return Err(format!("{port:?} is not in 1-65535"));
    }
    Ok(text.to_owned())
}

fn key_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("KEY=VALUE is needed")?;
    if key.is_empty() {
        return Err("the key is empty".to_owned());
    }
    Ok((key.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use skep_agent_core::dataplane::Capacities;

    use super::*;

    const REQUIRED: [&str; 9] = [
        "skep-agent",
        "--node-name",
        "n1",
        "--control",
        "192.0.2.1:6443",
        "--pki-dir",
        "/pki",
        "--node-address",
        "192.0.2.2",
    ];

    fn parse(more: &[&str]) -> Result<Config, clap::Error> {
        Config::try_parse_from(REQUIRED.iter().chain(more))
    }

    #[test]
    fn defaults_follow_the_first_address() {
        let config = parse(&["--node-address", "2001:db8::2"]).unwrap();
        config.check().unwrap();
        assert_eq!(config.node_api(), "192.0.2.2:10250".parse().unwrap());
        assert_eq!(config.address(false), Some("2001:db8::2".parse().unwrap()));
        assert_eq!(config.cni_socket(), PathBuf::from("/run/skep/cni.sock"));
        assert_eq!(config.labels()["kubernetes.io/hostname"], "n1");
    }

    #[test]
    fn traffic_settings_become_the_programs() {
        let config = parse(&[]).unwrap();
        assert_eq!(config.node_port_range, PortRange { first: 30000, last: 32767 });
        assert_eq!(config.snat_port_range, PortRange { first: 1024, last: 65535 });
        assert_eq!(config.dataplane_flags(), config_flags::MASQUERADE);
        let config = parse(&["--masquerade", "false", "--external-mode", "dsr"]).unwrap();
        assert_eq!(config.dataplane_flags(), config_flags::DSR);
        assert_eq!(config.xdp_mode(), XdpMode::Off);
        for (value, mode) in [("auto", XdpMode::Auto), ("native", XdpMode::Native)] {
            assert_eq!(parse(&["--xdp", value]).unwrap().xdp_mode(), mode);
        }
        let config = parse(&["--no-masquerade-cidr", "10.0.0.0/8", "--no-masquerade-cidr", "fd00::/8"]).unwrap();
        assert_eq!(
            config.no_masquerade_cidr.iter().map(Cidr::to_string).collect::<Vec<_>>(),
            ["10.0.0.0/8", "fd00::/8"]
        );
    }

    #[test]
    fn sizes_are_the_kernel_objects_unless_they_are_given() {
        assert_eq!(parse(&[]).unwrap().capacity.capacities(), Capacities::default());
        let flags = Capacities::default().maps().map(|(map, _)| Capacities::flag(map).unwrap());
        for flag in flags {
            let sized = parse(&[flag, "2048"]).unwrap().capacity.capacities();
            let others = Capacities::default().maps();
            for ((map, entries), (_, default)) in sized.maps().into_iter().zip(others) {
                assert_eq!(entries != default, Capacities::flag(map) == Some(flag), "{flag}: {map}");
            }
        }
    }

    #[test]
    fn bad_values_name_their_flag() {
        for (args, flag) in [
            (["--node-address", "x"], "--node-address"),
            (["--label", "x"], "--label"),
            (["--label", "=x"], "--label"),
            (["--node-api-listen", "10250"], "--node-api-listen"),
            (["--node-port-range", "30000"], "--node-port-range"),
            (["--node-port-range", "0-1"], "--node-port-range"),
            (["--snat-port-range", "2-1"], "--snat-port-range"),
            (["--no-masquerade-cidr", "10.0.0.0"], "--no-masquerade-cidr"),
            (["--masquerade", "maybe"], "--masquerade"),
            (["--external-mode", "x"], "--external-mode"),
            (["--xdp", "generic"], "--xdp"),
            (["--conntrack-entries", "10"], "--conntrack-entries"),
            (["--nat-entries", "many"], "--nat-entries"),
        ] {
            assert!(parse(&args).unwrap_err().to_string().contains(flag), "{args:?}");
        }
        for name in ["", "-a", "A", "a_b", "a..b"] {
            assert!(node_name(name).is_err(), "{name:?}");
        }
        for control in ["host", "host:0", "host:x", ":6443", "::1:6443"] {
            assert!(host_port(control).is_err(), "{control:?}");
        }
        assert!(host_port("[::1]:6443").is_ok());
        let two = parse(&["--node-address", "192.0.2.3"]).unwrap();
        assert!(matches!(two.check(), Err(ConfigError::TwoOfOneFamily(..))));
    }
}
