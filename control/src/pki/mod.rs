//! The cluster's certificates: one authority and what it signs.
//!
//! ```text
//! DATA/pki/ca.{key,crt}              the authority; made once, by whoever comes first
//! DATA/pki/server.{key,crt}          the serving certificate; made again when its names change or its end is near
//! DATA/pki/admin.{key,crt}           kubernetes-admin of system:masters
//! DATA/pki/kubelet-client.{key,crt}  what this service shows to agents
//! DATA/admin.kubeconfig              server, authority and admin certificate in one file
//! ```
//!
//! Each file is written whole or not at all, keys before certificates, so that a process killed in between finds its
//! way: a certificate without a fitting key is made again, and a key without a certificate gets one.

mod authority;
mod existing;
mod kubeconfig;

use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

pub use authority::{Authority, Subject, Usage};

use crate::durable::{self, Access};

/// Why certificates could not be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read or written.
    #[error("{path}: {source}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A key or certificate could not be made or read.
    #[error("{what}: {source}")]
    Certificate {
        /// Which one.
        what: String,
        /// What was wrong.
        source: rcgen::Error,
    },
    /// The node's name cannot be a node's name.
    #[error("NAME: {0:?} is not a DNS-1123 subdomain (lower case letters, digits, '-' and '.')")]
    NodeName(String),
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> Error + '_ {
    move |source| Error::File { path: path.to_owned(), source }
}

/// A certificate chain and its key, in PEM.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// Its key (PKCS #8).
    pub key: String,
}

/// Everything that the service needs of it.
#[derive(Clone, Debug)]
pub struct Pki {
    /// The authority's certificate, in PEM.
    pub ca: String,
    /// What the service serves with.
    pub server: Identity,
    /// What the service shows to agents.
    pub kubelet_client: Identity,
}

impl Pki {
    /// Reads what is in the data directory and makes what is missing, `admin.kubeconfig` included.
    ///
    /// `names` are the names and addresses of the serving certificate, `endpoint` is HOST:PORT for the kubeconfig.
    pub fn load_or_create(data_dir: &Path, names: &[String], endpoint: &str) -> Result<Self, Error> {
        let authority = Authority::load_or_create(data_dir)?;
        let dir = data_dir.join("pki");
        let serving = Subject { common_name: "skep-control", organization: None, names, usage: Usage::Server };
        let server = leaf(&authority, &dir, "server", &serving)?;
        let client = |common_name| Subject {
            common_name,
            organization: Some("system:masters"),
            names: &[],
            usage: Usage::Client,
        };
        let admin = leaf(&authority, &dir, "admin", &client("kubernetes-admin"))?;
        let kubelet_client = leaf(&authority, &dir, "kubelet-client", &client("kube-apiserver-kubelet-client"))?;

        let path = data_dir.join("admin.kubeconfig");
        let text = kubeconfig::text(endpoint, authority.certificate(), &admin);
        if fs::read_to_string(&path).ok().as_deref() != Some(&text) {
            durable::replace(&path, text.as_bytes(), Access::Private).map_err(at(&path))?;
        }
        Ok(Self { ca: authority.certificate().to_owned(), server, kubelet_client })
    }
}

/// Issues a node's certificate into `out`: `ca.crt`, `node.crt`, `node.key`.
pub fn issue_node(data_dir: &Path, name: &str, addresses: &[IpAddr], out: &Path) -> Result<(), Error> {
    let label = |l: &str| {
        let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        !l.is_empty() && l.len() <= 63 && l.chars().all(inner) && !l.starts_with('-') && !l.ends_with('-')
    };
    // X.509 bounds a common name to 64 characters, of which "system:node:" takes 12; rustls does not enforce it.
    if name.len() > 253 || !name.split('.').all(label) {
        return Err(Error::NodeName(name.to_owned()));
    }
    let authority = Authority::load_or_create(data_dir)?;
    fs::create_dir_all(out).map_err(at(out))?;
    let names: Vec<String> = std::iter::once(name.to_owned()).chain(addresses.iter().map(IpAddr::to_string)).collect();
    let common_name = format!("system:node:{name}");
    let subject = Subject {
        common_name: &common_name,
        organization: Some("system:nodes"),
        names: &names,
        usage: Usage::ClientAndServer,
    };
    let ca = out.join("ca.crt");
    durable::replace(&ca, authority.certificate().as_bytes(), Access::Public).map_err(at(&ca))?;
    leaf(&authority, out, "node", &subject)?;
    Ok(())
}

fn leaf(authority: &Authority, dir: &Path, file: &str, subject: &Subject<'_>) -> Result<Identity, Error> {
    let key_path = dir.join(format!("{file}.key"));
    let certificate_path = dir.join(format!("{file}.crt"));
    let key = authority::key(&key_path)?;
    let pem = key.serialize_pem();
    match fs::read_to_string(&certificate_path) {
        Ok(certificate) if existing::serves(&certificate, &key, authority, subject) => {
            return Ok(Identity { certificate, key: pem });
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(at(&certificate_path)(error)),
        _ => {}
    }
    let certificate = authority.issue(subject, &key)?;
    durable::replace(&certificate_path, certificate.as_bytes(), Access::Public).map_err(at(&certificate_path))?;
    Ok(Identity { certificate, key: pem })
}

#[cfg(test)]
mod tests;
