//! Whether a certificate that is there still does.

use std::net::IpAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use rcgen::KeyPair;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate, parse_x509_pem};

use super::{Authority, Subject};

/// A certificate with less than this left is made again.
const RENEW_SECONDS: i64 = 60 * 24 * 60 * 60;

/// Whether the certificate is for this key and subject, names all that it should, and is valid for a good while.
pub(super) fn serves(pem: &str, key: &KeyPair, authority: &Authority, subject: &Subject<'_>) -> bool {
    let Ok((_, pem)) = parse_x509_pem(pem.as_bytes()) else { return false };
    let Ok((_, certificate)) = X509Certificate::from_der(&pem.contents) else { return false };
    let now =
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| i64::try_from(d.as_secs()).unwrap_or(i64::MAX));
    certificate.public_key().subject_public_key.data.as_ref() == key.public_key_raw()
        && common_name(&certificate) == Some(subject.common_name)
        && certificate.validity().not_after.timestamp() > now + RENEW_SECONDS
        && names_all(&certificate, subject.names)
        && signed_by(&certificate, authority)
}

fn common_name<'a>(certificate: &'a X509Certificate<'_>) -> Option<&'a str> {
    certificate.subject().iter_common_name().next()?.as_str().ok()
}

fn signed_by(certificate: &X509Certificate<'_>, authority: &Authority) -> bool {
    let Ok((_, pem)) = parse_x509_pem(authority.certificate().as_bytes()) else { return false };
    let Ok((_, ca)) = X509Certificate::from_der(&pem.contents) else { return false };
    // Without x509-parser's `verify` feature the signature itself is not checked here; a certificate of another
    // authority has another key identifier.
    ca.public_key().subject_public_key.data.as_ref() == authority.public_key()
        && authority_key(certificate).is_some()
        && authority_key(certificate) == subject_key(&ca)
}

fn authority_key<'a>(certificate: &'a X509Certificate<'_>) -> Option<&'a [u8]> {
    certificate.iter_extensions().find_map(|extension| match extension.parsed_extension() {
        x509_parser::extensions::ParsedExtension::AuthorityKeyIdentifier(aki) => {
            aki.key_identifier.as_ref().map(|k| k.0)
        }
        _ => None,
    })
}

fn subject_key<'a>(certificate: &'a X509Certificate<'_>) -> Option<&'a [u8]> {
    certificate.iter_extensions().find_map(|extension| match extension.parsed_extension() {
        x509_parser::extensions::ParsedExtension::SubjectKeyIdentifier(key) => Some(key.0),
        _ => None,
    })
}

fn names_all(certificate: &X509Certificate<'_>, names: &[String]) -> bool {
    let Ok(extension) = certificate.subject_alternative_name() else { return false };
    let given = extension.map(|e| e.value.general_names.as_slice()).unwrap_or_default();
    names.iter().all(|name| match name.parse::<IpAddr>() {
        Ok(IpAddr::V4(v4)) => given.iter().any(|g| matches!(g, GeneralName::IPAddress(b) if *b == v4.octets())),
        Ok(IpAddr::V6(v6)) => given.iter().any(|g| matches!(g, GeneralName::IPAddress(b) if *b == v6.octets())),
        Err(_) => given.iter().any(|g| matches!(g, GeneralName::DNSName(n) if n == name)),
    })
}
