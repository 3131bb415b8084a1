//! The certificate authority.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use super::{Error, at};
use crate::durable::{self, Access};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// How far a clock may be behind ours and still accept a new certificate.
const SKEW: Duration = Duration::from_secs(60 * 60);

/// What a certificate may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// Serving.
    Server,
    /// Asking.
    Client,
    /// Both.
    ClientAndServer,
}

/// Whom a certificate is for.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The user name.
    pub common_name: &'a str,
    /// The group.
    pub organization: Option<&'a str>,
    /// DNS names and IP addresses.
    pub names: &'a [String],
    /// What for.
    pub usage: Usage,
}

/// The certificate authority of one cluster.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

fn made(what: &str) -> impl FnOnce(rcgen::Error) -> Error + '_ {
    move |source| Error::Certificate { what: what.to_owned(), source }
}

/// The key in a file, made when it is not there.
pub(super) fn key(path: &Path) -> Result<KeyPair, Error> {
    let generate = || KeyPair::generate().map(|key| key.serialize_pem()).map_err(io::Error::other);
    let pem = durable::create_or_read(path, Access::Private, generate).map_err(at(path))?;
    KeyPair::from_pem(&pem).map_err(made(&path.display().to_string()))
}

fn authority_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, "skep-ca");
    params.distinguished_name = name;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    let now = SystemTime::now();
    params.not_before = (now - SKEW).into();
    params.not_after = (now + 3650 * DAY).into();
    params
}

impl Authority {
    /// Reads the authority of a data directory, or makes it. Safe against another process that does the same.
    pub fn load_or_create(data_dir: &Path) -> Result<Self, Error> {
        let dir = data_dir.join("pki");
        fs::create_dir_all(&dir).map_err(at(&dir))?;
        let key = key(&dir.join("ca.key"))?;
        let params = authority_params();
        let path = dir.join("ca.crt");
        let sign = || params.self_signed(&key).map(|certificate| certificate.pem()).map_err(io::Error::other);
        let certificate = durable::create_or_read(&path, Access::Public, sign).map_err(at(&path))?;
        // Issuing needs the authority's name, key identifier and key only; all three follow from the key and a constant.
        Ok(Self { issuer: Issuer::new(params, key), certificate })
    }

    /// The authority's certificate, in PEM.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Signs a certificate of ten years and gives it in PEM.
    pub fn issue(&self, subject: &Subject<'_>, key: &KeyPair) -> Result<String, Error> {
        let what = subject.common_name;
        let mut params = CertificateParams::new(subject.names.to_vec()).map_err(made(what))?;
        let mut name = DistinguishedName::new();
        if let Some(organization) = subject.organization {
            name.push(DnType::OrganizationName, organization);
        }
        name.push(DnType::CommonName, subject.common_name);
        params.distinguished_name = name;
        params.is_ca = IsCa::ExplicitNoCa;
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = match subject.usage {
            Usage::Server => vec![ExtendedKeyUsagePurpose::ServerAuth],
            Usage::Client => vec![ExtendedKeyUsagePurpose::ClientAuth],
            Usage::ClientAndServer => vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth],
        };
        let now = SystemTime::now();
        params.not_before = (now - SKEW).into();
        params.not_after = (now + 3650 * DAY).into();
        Ok(params.signed_by(key, &self.issuer).map_err(made(what))?.pem())
    }

    /// The authority's public key, uncompressed.
    pub(super) fn public_key(&self) -> &[u8] {
        self.issuer.key().public_key_raw()
    }
}
