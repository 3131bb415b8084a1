//! The command line of `skep-control`.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use skep_control_core::api::service_ip::NodePorts;

use crate::cidr::Cidr;

/// The control service: Kubernetes REST and Skep gRPC on one port.
#[derive(Debug, Parser)]
#[command(name = "skep-control")]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve the API and run the controllers and the scheduler.
    Serve(Serve),
    /// Issue the certificate that a node's agent presents and serves with.
    NodeCert(NodeCert),
}

/// Options of `serve`.
#[derive(Clone, Debug, Args)]
pub struct Serve {
    /// Directory of everything that is kept: store, certificates, admin.kubeconfig.
    #[arg(long)]
    pub data_dir: PathBuf,
    /// Address and port to listen on.
    #[arg(long, default_value = "0.0.0.0:6443")]
    pub listen: SocketAddr,
    /// HOST:PORT under which others reach this service; the listening address if absent.
    #[arg(long)]
    pub advertise: Option<String>,
    /// Ranges of Service addresses, at most one of each family; the first one's family is the default.
    #[arg(long, value_delimiter = ',', default_value = "10.96.0.0/16,fd53:6b65:7073::/112")]
    pub service_cidr: Vec<Cidr>,
    /// Ranges that nodes get their pod addresses from, at most one of each family.
    #[arg(long, value_delimiter = ',', default_value = "10.244.0.0/16,fd53:6b65:7070::/56")]
    pub cluster_cidr: Vec<Cidr>,
    /// Ports that nodes listen on for Services of type NodePort and LoadBalancer, FIRST-LAST.
    #[arg(long, default_value_t = NodePorts::default())]
    pub service_node_port_range: NodePorts,
    /// Domain of the names that cluster DNS answers for.
    #[arg(long, default_value = "cluster.local", value_parser = domain)]
    pub cluster_domain: String,
    /// Seconds without a sign of life after which a node is not ready.
    #[arg(long, default_value_t = 40)]
    pub node_monitor_grace_seconds: u32,
    /// Seconds that pods stay on a node that is not ready.
    #[arg(long, default_value_t = 300)]
    pub node_eviction_seconds: u32,
    /// A further name or address for the serving certificate; may be given several times.
    #[arg(long = "tls-san")]
    pub tls_san: Vec<String>,
    /// Serve the API without controllers and scheduler.
    #[arg(long)]
    pub api_only: bool,
}

/// Options of `node-cert`.
#[derive(Clone, Debug, Args)]
pub struct NodeCert {
    /// The node's name.
    pub name: String,
    /// The data directory of the control service.
    #[arg(long)]
    pub data_dir: PathBuf,
    /// An address of the node; may be given several times, or several behind one flag.
    #[arg(long, num_args = 1.., required = true)]
    pub address: Vec<IpAddr>,
    /// Directory that receives ca.crt, node.crt and node.key.
    #[arg(long)]
    pub out: PathBuf,
}

/// Why a command line that parses still makes no sense.
#[derive(Debug, thiserror::Error)]
pub enum InvalidConfig {
    /// Two ranges of one family, or none.
    #[error("--{flag}: give one or two ranges, and not two of one family")]
    Families {
        /// The flag, without its dashes.
        flag: &'static str,
    },
    /// A Service range that is too small to hold one Service.
    #[error("--service-cidr: {0} is too small, the longest prefixes are /28 and /124")]
    TooSmall(Cidr),
    /// Not HOST:PORT.
    #[error("--advertise: {0:?} is not of the form HOST:PORT")]
    Advertise(String),
}

impl Serve {
    /// Refuses what would fail later.
    pub fn check(&self) -> Result<(), InvalidConfig> {
        for (flag, ranges) in [("service-cidr", &self.service_cidr), ("cluster-cidr", &self.cluster_cidr)] {
            let v4 = ranges.iter().filter(|r| r.is_ipv4()).count();
            if ranges.is_empty() || v4 > 1 || ranges.len() - v4 > 1 {
                return Err(InvalidConfig::Families { flag });
            }
        }
        if let Some(small) = self.service_cidr.iter().find(|range| range.last_offset() < 15) {
            return Err(InvalidConfig::TooSmall(*small));
        }
        if let Some(advertise) = &self.advertise {
            split_host_port(advertise).ok_or_else(|| InvalidConfig::Advertise(advertise.clone()))?;
        }
        Ok(())
    }

    /// `HOST:PORT` that clients are pointed to.
    pub fn endpoint(&self) -> String {
        if let Some(advertise) = &self.advertise {
            return advertise.clone();
        }
        let loopback: IpAddr = match self.listen.ip() {
            IpAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
        };
        let ip = if self.listen.ip().is_unspecified() { loopback } else { self.listen.ip() };
        SocketAddr::new(ip, self.listen.port()).to_string()
    }

    /// Names and addresses of the serving certificate, without repeats.
    pub fn serving_names(&self) -> Vec<String> {
        let mut names: Vec<String> =
            ["localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default", "kubernetes.default.svc"]
                .map(str::to_owned)
                .to_vec();
        names.push(format!("kubernetes.default.svc.{}", self.cluster_domain));
        names.extend(self.service_cidr.iter().filter_map(|range| range.nth(1)).map(|ip| ip.to_string()));
        if !self.listen.ip().is_unspecified() {
            names.push(self.listen.ip().to_string());
        }
        if let Some((host, _)) = self.advertise.as_deref().and_then(split_host_port) {
            names.push(host.to_owned());
        }
        names.extend(self.tls_san.iter().cloned());
        let mut unique = Vec::with_capacity(names.len());
        for name in names {
            if !unique.contains(&name) {
                unique.push(name);
            }
        }
        unique
    }
}

/// A domain name in lower case; dots at its ends are taken off.
fn domain(text: &str) -> Result<String, String> {
    let name = text.trim_matches('.').to_ascii_lowercase();
    let is_label = |label: &str| {
        let inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        (1..=63).contains(&label.len()) && label.bytes().all(inner) && !label.starts_with('-') && !label.ends_with('-')
    };
    // Names below it must fit into the 253 bytes of a name (RFC 1035, 2.3.4).
    if name.len() <= 150 && name.split('.').all(is_label) { Ok(name) } else { Err("it is no domain name".to_owned()) }
}

/// Splits `HOST:PORT`; the brackets of an IPv6 host are taken off.
pub fn split_host_port(text: &str) -> Option<(&str, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    let port = port.parse().ok()?;
    let host = match host.strip_prefix('[') {
        Some(inner) => inner.strip_suffix(']')?,
        None if host.contains(':') => return None,
        None => host,
    };
    if host.is_empty() { None } else { Some((host, port)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serve(arguments: &[&str]) -> Serve {
        let all = ["skep-control", "serve", "--data-dir", "d"].iter().chain(arguments);
        match Cli::try_parse_from(all).unwrap().command {
            Command::Serve(serve) => serve,
            Command::NodeCert(_) => panic!("serve was asked for"),
        }
    }

    #[test]
    fn defaults_are_dual_stack() {
        let serve = serve(&[]);
        serve.check().unwrap();
        assert_eq!(serve.endpoint(), "127.0.0.1:6443");
        let names = serve.serving_names();
        for name in ["localhost", "kubernetes.default.svc", "10.96.0.1", "fd53:6b65:7073::1"] {
            assert!(names.iter().any(|n| n == name), "{name} of {names:?}");
        }
    }

    #[test]
    fn advertise_wins_and_is_named_in_the_certificate() {
        let serve = serve(&["--listen", "10.1.1.1:1", "--advertise", "[fd00::1]:6443", "--tls-san", "api.example"]);
        serve.check().unwrap();
        assert_eq!(serve.endpoint(), "[fd00::1]:6443");
        let names = serve.serving_names();
        for name in ["10.1.1.1", "fd00::1", "api.example"] {
            assert!(names.iter().any(|n| n == name), "{name} of {names:?}");
        }
    }

    #[test]
    fn refuses_nonsense_by_the_flag() {
        let message = |arguments: &[&str]| serve(arguments).check().unwrap_err().to_string();
        assert!(message(&["--service-cidr", "10.0.0.0/16,10.1.0.0/16"]).starts_with("--service-cidr"));
        assert!(message(&["--service-cidr", "10.0.0.0/30"]).contains("too small"));
        assert!(message(&["--advertise", "fd00::1:6443"]).starts_with("--advertise"));
        for (flag, value) in [
            ("--service-node-port-range", "32767-30000"),
            ("--service-node-port-range", "30000"),
            ("--cluster-domain", ""),
            ("--cluster-domain", "a..b"),
            ("--cluster-domain", "a_b.example"),
        ] {
            let error = Cli::try_parse_from(["skep-control", "serve", "--data-dir", "d", flag, value]).unwrap_err();
            assert!(error.to_string().contains(flag), "{error}");
        }
    }

    #[test]
    fn the_domain_is_without_dots_at_its_ends_and_in_the_certificate() {
        assert_eq!(serve(&[]).cluster_domain, "cluster.local");
        assert_eq!(serve(&[]).service_node_port_range.to_string(), "30000-32767");
        let serve = serve(&["--cluster-domain", "K8s.Example.", "--service-node-port-range", "20000-20010"]);
        assert_eq!(serve.cluster_domain, "k8s.example");
        assert_eq!(serve.service_node_port_range.to_string(), "20000-20010");
        assert!(serve.serving_names().iter().any(|name| name == "kubernetes.default.svc.k8s.example"));
    }
}
