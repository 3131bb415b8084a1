//! A certificate authority of the test's own.

use std::fs;
use std::net::IpAddr;
use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    SanType,
};

/// A certificate and its key, in PEM.
pub struct Credentials {
    pub certificate: String,
    pub key: String,
}

/// The authority.
pub struct Authority {
    pub certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        params.distinguished_name.push(DnType::CommonName, "test authority");
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().pem();
        Self { certificate, issuer: Issuer::new(params, key) }
    }

    pub fn issue(&self, name: &str, organization: &str, addresses: &[IpAddr]) -> Credentials {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.distinguished_name.push(DnType::OrganizationName, organization);
        params.subject_alt_names = addresses.iter().map(|&addr| SanType::IpAddress(addr)).collect();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        Credentials { certificate, key: key.serialize_pem() }
    }

    /// Writes what a node is given.
    pub fn write_node(&self, dir: &Path, node: &str, addresses: &[IpAddr]) {
        let credentials = self.issue(&format!("system:node:{node}"), "system:nodes", addresses);
        fs::create_dir_all(dir).unwrap();
        fs::write(dir.join("ca.crt"), &self.certificate).unwrap();
        fs::write(dir.join("node.crt"), credentials.certificate).unwrap();
        fs::write(dir.join("node.key"), credentials.key).unwrap();
    }
}
