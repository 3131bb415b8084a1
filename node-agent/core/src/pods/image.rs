//! Images: what the runtime says about one, and when it has to be fetched.

use k8s_openapi::api::core::v1::Container;

/// An image that the runtime has.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ImageInfo {
    /// The runtime's own name for it, by which containers are created.
    pub id: String,
    /// Bytes.
    pub size: u64,
    /// The user that it runs as, when that is a number.
    pub user: Option<i64>,
    /// The user's name otherwise; empty for root by default.
    pub username: String,
}

/// When an image is fetched.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PullPolicy {
    /// At every start.
    Always,
    /// When the node does not have it.
    IfNotPresent,
    /// Never.
    Never,
}

impl PullPolicy {
    /// The container's, by default `Always` for the tag `latest` (also the implied one), else `IfNotPresent`.
    #[must_use]
    pub fn of(container: &Container) -> Self {
        match container.image_pull_policy.as_deref() {
            Some("Always") => Self::Always,
            Some("Never") => Self::Never,
            Some("IfNotPresent") => Self::IfNotPresent,
            _ if tag(container.image.as_deref().unwrap_or_default()) == Some("latest") => Self::Always,
            _ => Self::IfNotPresent,
        }
    }
}

/// The tag of an image's name; `None` when it is named by digest only.
#[must_use]
pub fn tag(image: &str) -> Option<&str> {
    let (name, digest) = image.split_once('@').map_or((image, None), |(name, digest)| (name, Some(digest)));
    let last = name.rsplit('/').next().unwrap_or(name);
    match last.split_once(':') {
        Some((_, tag)) => Some(tag),
        None if digest.is_some() => None,
        None => Some("latest"),
    }
}

/// The name with the implied tag written out, as runtimes want it.
#[must_use]
pub fn with_tag(image: &str) -> String {
    let last = image.rsplit('/').next().unwrap_or(image);
    if image.contains('@') || last.contains(':') { image.to_owned() } else { format!("{image}:latest") }
}

/// Whether the text can be an image's name at all.
#[must_use]
pub fn is_valid(image: &str) -> bool {
    let name = image.split('@').next().unwrap_or_default();
    let path_ok = !name.is_empty()
        && name.split('/').all(|part| !part.is_empty())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-/:[]".contains(&byte));
    // Only the registry and the tag may have upper-case letters.
    let repository = name.rsplit('/').next().and_then(|last| last.split(':').next()).unwrap_or_default();
    path_ok && !repository.is_empty() && !repository.bytes().any(|byte| byte.is_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_and_policies() {
        let table = [
            ("nginx", Some("latest"), "nginx:latest", true),
            ("nginx:1.25", Some("1.25"), "nginx:1.25", true),
            ("localhost:5000/nginx", Some("latest"), "localhost:5000/nginx:latest", true),
            ("nginx@sha256:abc", None, "nginx@sha256:abc", true),
            ("nginx:1@sha256:abc", Some("1"), "nginx:1@sha256:abc", true),
            ("Nginx", Some("latest"), "Nginx:latest", false),
            ("", Some("latest"), ":latest", false),
            ("a b", Some("latest"), "a b:latest", false),
            ("a//b", Some("latest"), "a//b:latest", false),
        ];
        for (image, expected_tag, expected_name, valid) in table {
            assert_eq!(tag(image), expected_tag, "{image}");
            assert_eq!(with_tag(image), expected_name, "{image}");
            assert_eq!(is_valid(image), valid, "{image}");
        }
        let policy = |image: &str, policy: Option<&str>| {
            let (image, image_pull_policy) = (Some(image.to_owned()), policy.map(ToOwned::to_owned));
            PullPolicy::of(&Container { image, image_pull_policy, ..Container::default() })
        };
        assert_eq!(policy("a", None), PullPolicy::Always);
        assert_eq!(policy("a:1", None), PullPolicy::IfNotPresent);
        assert_eq!(policy("a:1", Some("Never")), PullPolicy::Never);
    }
}
