use std::net::IpAddr;

use domain::base::name::NameBuilder;

use super::Name;

/// Where the cluster's names end, and who answers for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    apex: Name,
    servers: Vec<IpAddr>,
}

/// A text that cannot be the cluster's domain.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("cluster domain {text:?}: {problem}")]
pub struct DomainError {
    text: String,
    problem: &'static str,
}

/// Bytes of the longest domain: half of what a name may have (RFC 1035, 2.3.4: 255), so that Services keep the other half.
const LONGEST_DOMAIN: usize = 128;

impl Domain {
    /// The domain `text` (`cluster.local`; a dot at its end does no harm), whose name server has the addresses `servers`.
    ///
    /// # Errors
    /// [`DomainError`].
    pub fn new(text: &str, servers: Vec<IpAddr>) -> Result<Self, DomainError> {
        let failed = |problem| DomainError { text: text.to_owned(), problem };
        let bare = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        if bare.is_empty() || bare.len() > LONGEST_DOMAIN {
            return Err(failed("must have 1 to 128 bytes"));
        }
        let label = |label: &str| {
            (1..=63).contains(&label.len())
                && label.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        if !bare.split('.').all(label) {
            return Err(failed("must consist of DNS labels: letters, digits and '-', at most 63 bytes each"));
        }
        let apex = Name::bytes_from_str(&bare).map_err(|_| failed("is not a DNS name"))?;
        Ok(Self { apex, servers })
    }

    /// The domain's own name.
    #[must_use]
    pub fn apex(&self) -> &Name {
        &self.apex
    }

    /// Addresses of the name server.
    #[must_use]
    pub fn servers(&self) -> &[IpAddr] {
        &self.servers
    }

    /// The name with these labels before the domain; `None` when it would be longer than names can be.
    pub(super) fn name(&self, labels: &[&[u8]]) -> Option<Name> {
        let mut builder = NameBuilder::new_bytes();
        for label in labels {
            builder.append_label(label).ok()?;
        }
        builder.append_origin(&self.apex).ok()
    }
}
