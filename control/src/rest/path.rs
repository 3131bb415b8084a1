//! What a request path asks for.

use skep_control_core::api::{Resource, registry};

/// The thing that a path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// `/api`
    CoreVersions,
    /// `/apis`
    Groups,
    /// `/apis/GROUP`
    Group(String),
    /// `/api/v1` (empty group), `/apis/GROUP/VERSION`
    GroupVersion(String, String),
    /// `/openapi/v2`
    OpenApiV2,
    /// `/openapi/v3`
    OpenApiV3,
    /// `/openapi/v3/api/v1` (empty group), `/openapi/v3/apis/GROUP/VERSION`
    OpenApiV3Group(String, String),
    /// `/version`
    Version,
    /// `/healthz`, `/livez`, `/readyz`
    Health(&'static str),
    /// `/`
    Root,
    /// Objects.
    Objects(Place),
    /// Nothing that is served.
    Unknown,
}

/// Objects that a path names.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) resource: &'static Resource,
    /// Empty for cluster-scoped resources and for all namespaces.
    pub(super) namespace: String,
    /// `None` names the whole collection.
    pub(super) name: Option<String>,
    pub(super) subresource: Option<String>,
    /// The older form of a watch, `/api/v1/watch/...`.
    pub(super) watch: bool,
}

impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.resource, other.resource)
            && (&self.namespace, &self.name, &self.subresource, self.watch)
                == (&other.namespace, &other.name, &other.subresource, other.watch)
    }
}

impl Eq for Place {}

/// Reads a path. Segments that are not UTF-8 once decoded name nothing.
pub(super) fn parse(path: &str) -> Target {
    let Some(segments) = path.split('/').filter(|s| !s.is_empty()).map(decode).collect::<Option<Vec<String>>>() else {
        return Target::Unknown;
    };
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    match segments.as_slice() {
        [] => Target::Root,
        ["api"] => Target::CoreVersions,
        ["api", version] => Target::GroupVersion(String::new(), (*version).to_owned()),
        ["api", version, rest @ ..] => objects("", version, rest),
        ["apis"] => Target::Groups,
        ["apis", group] => Target::Group((*group).to_owned()),
        ["apis", group, version] => Target::GroupVersion((*group).to_owned(), (*version).to_owned()),
        ["apis", group, version, rest @ ..] => objects(group, version, rest),
        ["openapi", "v2"] => Target::OpenApiV2,
        ["openapi", "v3"] => Target::OpenApiV3,
        ["openapi", "v3", "api", version] => Target::OpenApiV3Group(String::new(), (*version).to_owned()),
        ["openapi", "v3", "apis", group, version] => Target::OpenApiV3Group((*group).to_owned(), (*version).to_owned()),
        ["version"] => Target::Version,
        ["healthz"] => Target::Health("healthz"),
        ["livez"] => Target::Health("livez"),
        ["readyz"] => Target::Health("readyz"),
        _ => Target::Unknown,
    }
}

fn objects(group: &str, version: &str, mut rest: &[&str]) -> Target {
    let watch = rest.first() == Some(&"watch");
    if watch {
        rest = &rest[1..];
    }
    let mut namespace = "";
    // `namespaces/NAME` is the Namespace itself, and so are its two subresources; all else below it lies in it.
    if let ["namespaces", name, inside, ..] = rest
        && !matches!(*inside, "status" | "finalize")
    {
        namespace = name;
        rest = &rest[2..];
    }
    let (plural, name, subresource) = match rest {
        [plural] => (plural, None, None),
        [plural, name] => (plural, Some(*name), None),
        [plural, name, subresource] => (plural, Some(*name), Some(*subresource)),
        _ => return Target::Unknown,
    };
    let Some(resource) = registry().find(group, version, plural) else { return Target::Unknown };
    let misplaced = if resource.namespaced { namespace.is_empty() && name.is_some() } else { !namespace.is_empty() };
    // A name is part of a storage key: it may not hold a separator.
    if misplaced || namespace.contains('/') || name.is_some_and(|n| n.contains('/')) {
        return Target::Unknown;
    }
    Target::Objects(Place {
        resource,
        namespace: namespace.to_owned(),
        name: name.map(str::to_owned),
        subresource: subresource.map(str::to_owned),
        watch,
    })
}

/// Undoes percent-encoding.
fn decode(segment: &str) -> Option<String> {
    if !segment.contains('%') {
        return Some(segment.to_owned());
    }
    let mut out = Vec::with_capacity(segment.len());
    let mut bytes = segment.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let digits = [bytes.next()?, bytes.next()?];
        out.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(path: &str) -> (String, String, Option<String>, Option<String>) {
        match parse(path) {
            Target::Objects(p) => (p.resource.plural.to_owned(), p.namespace, p.name, p.subresource),
            other => panic!("{path} is {other:?}"),
        }
    }

    #[test]
    fn objects_are_found() {
        let s = |text: &str| Some(text.to_owned());
        assert_eq!(place("/api/v1/pods"), ("pods".into(), String::new(), None, None));
        assert_eq!(place("/api/v1/namespaces"), ("namespaces".into(), String::new(), None, None));
        assert_eq!(place("/api/v1/namespaces/a"), ("namespaces".into(), String::new(), s("a"), None));
        let finalize = ("namespaces".into(), String::new(), s("a"), s("finalize"));
        assert_eq!(place("/api/v1/namespaces/a/finalize"), finalize);
        assert_eq!(place("/api/v1/namespaces/a/pods/p/log"), ("pods".into(), "a".into(), s("p"), s("log")));
        assert_eq!(place("/apis/apps/v1/namespaces/a/deployments"), ("deployments".into(), "a".into(), None, None));
        assert_eq!(place("/api/v1/nodes/n%2d1"), ("nodes".into(), String::new(), s("n-1"), None));
    }

    #[test]
    fn nonsense_is_unknown() {
        for path in [
            "/api/v1/pods/p",
            "/api/v1/namespaces/a/nodes",
            "/api/v1/nope",
            "/apis/apps/v1/namespaces/a/deployments/b/scale/c",
            "/api/v1/namespaces/a/pods/p%2Fq",
            "/api/v1/namespaces/a%2Fb/pods/p",
            "/api/v1/nodes/%ff",
            "/api/v1/nodes/%f",
            "/nope",
        ] {
            assert_eq!(parse(path), Target::Unknown, "{path}");
        }
    }
}
