use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use skep_agent_core::dns::ResolvConf;
use tracing::warn;

use super::PORT;

/// Where the servers for names outside of the cluster are written down.
#[derive(Clone, Debug)]
pub(super) enum Source {
    /// On the command line.
    Fixed(Vec<SocketAddr>),
    /// In a `resolv.conf(5)`, which changes with the node's network.
    File(PathBuf),
}

impl Source {
    /// The servers now; `None` when the file cannot be read, and those that are known stay.
    pub(super) fn read(&self) -> Option<Vec<SocketAddr>> {
        match self {
            Self::Fixed(servers) => Some(servers.clone()),
            Self::File(path) => {
                let servers = read(path)?.servers.into_iter();
                Some(servers.map(|server| SocketAddr::new(server, PORT)).collect())
            }
        }
    }
}

/// Search domains of the node, which pods have behind those of the cluster.
pub(super) fn searches(path: &Path) -> Vec<String> {
    read(path).map(|conf| conf.searches).unwrap_or_default()
}

/// A node without the file has no name servers.
fn read(path: &Path) -> Option<ResolvConf> {
    match fs::read_to_string(path) {
        Ok(text) => Some(ResolvConf::parse(&text)),
        Err(problem) if problem.kind() == io::ErrorKind::NotFound => Some(ResolvConf::default()),
        Err(problem) => {
            warn!(%problem, path = %path.display(), "the node's name servers cannot be read");
            None
        }
    }
}
