use std::net::{IpAddr, SocketAddr};

use skep_agent_core::dns::Domain;

/// Port of DNS.
pub const PORT: u16 = 53;

/// What the command line says of cluster DNS.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct DnsArgs {
    /// Addresses on which the node answers DNS questions of its pods. Default: those of the kube-dns Service, as the control
    /// service says.
    #[arg(long, value_name = "IP", num_args = 1.., value_delimiter = ',')]
    pub cluster_dns: Vec<IpAddr>,

    /// Domain of the cluster's names. Default: as the control service says.
    #[arg(long, value_name = "DOMAIN", value_parser = domain)]
    pub cluster_domain: Option<String>,

    /// Serve no cluster DNS; pods use the node's name servers.
    #[arg(long, conflicts_with_all = ["cluster_dns", "cluster_domain", "dns_upstream"])]
    pub no_cluster_dns: bool,

    /// Name servers for names outside of the cluster, the preferred one first. Default: those of /etc/resolv.conf.
    #[arg(long, value_name = "IP[:PORT]", num_args = 1.., value_delimiter = ',', value_parser = server)]
    pub dns_upstream: Vec<SocketAddr>,
}

fn domain(text: &str) -> Result<String, String> {
    let domain = Domain::new(text, Vec::new()).map_err(|error| error.to_string())?;
    Ok(domain.apex().to_string())
}

fn server(text: &str) -> Result<SocketAddr, String> {
    let addr = text.parse::<IpAddr>().map(|addr| SocketAddr::new(addr, PORT)).or_else(|_| text.parse());
    let addr: SocketAddr = addr.map_err(|_| "IP or IP:PORT is needed, an IPv6 address with port in brackets")?;
    if addr.ip().is_unspecified() || addr.ip().is_multicast() || addr.port() == 0 {
        return Err("cannot be the address of a server".to_owned());
    }
    Ok(addr)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_and_domains_are_checked() {
        assert_eq!(server("192.0.2.1").unwrap(), "192.0.2.1:53".parse().unwrap());
        assert_eq!(server("[2001:db8::1]:5353").unwrap(), "[2001:db8::1]:5353".parse().unwrap());
        for text in ["", "ns.example", "0.0.0.0", "192.0.2.1:0", "ff02::1"] {
            assert!(server(text).is_err(), "{text:?}");
        }
        assert_eq!(domain("Cluster.Local.").unwrap(), "cluster.local");
        assert!(domain("a b").is_err());
    }
}
