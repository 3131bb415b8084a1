//! The kinds of object that controllers read and write, as data.

use std::fmt;

/// A kind of Kubernetes object that the controllers know.
///
/// The order is the order in which an [`Index`](super::Index) keeps objects; nothing depends on which kind comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the variants are the kinds' own names")]
pub enum Kind {
    AddressPool,
    ConfigMap,
    Deployment,
    Endpoints,
    EndpointSlice,
    Event,
    Lease,
    Namespace,
    NetworkPolicy,
    Node,
    Pod,
    ReplicaSet,
    Secret,
    Service,
    ServiceAccount,
}

impl Kind {
    /// Every kind, each listed and watched once by the driver.
    pub const ALL: [Self; 15] = [
        Self::AddressPool,
        Self::ConfigMap,
        Self::Deployment,
        Self::Endpoints,
        Self::EndpointSlice,
        Self::Event,
        Self::Lease,
        Self::Namespace,
        Self::NetworkPolicy,
        Self::Node,
        Self::Pod,
        Self::ReplicaSet,
        Self::Secret,
        Self::Service,
        Self::ServiceAccount,
    ];

    /// Name of the kind as in `kind:`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::AddressPool => "AddressPool",
            Self::ConfigMap => "ConfigMap",
            Self::Deployment => "Deployment",
            Self::Endpoints => "Endpoints",
            Self::EndpointSlice => "EndpointSlice",
            Self::Event => "Event",
            Self::Lease => "Lease",
            Self::Namespace => "Namespace",
            Self::NetworkPolicy => "NetworkPolicy",
            Self::Node => "Node",
            Self::Pod => "Pod",
            Self::ReplicaSet => "ReplicaSet",
            Self::Secret => "Secret",
            Self::Service => "Service",
            Self::ServiceAccount => "ServiceAccount",
        }
    }

    /// API group, empty for the core group.
    #[must_use]
    pub fn group(self) -> &'static str {
        match self {
            Self::Deployment | Self::ReplicaSet => "apps",
            Self::EndpointSlice => "discovery.k8s.io",
            Self::Lease => "coordination.k8s.io",
            Self::NetworkPolicy => "networking.k8s.io",
            Self::AddressPool => "skep.io",
            _ => "",
        }
    }

    /// `group/version`, or `v1` for the core group.
    #[must_use]
    pub fn api_version(self) -> String {
        match self.group() {
            "" => "v1".to_owned(),
            "skep.io" => "skep.io/v1alpha1".to_owned(),
            group => format!("{group}/v1"),
        }
    }

    /// Plural resource name as in URLs.
    #[must_use]
    pub fn plural(self) -> &'static str {
        match self {
            Self::AddressPool => "addresspools",
            Self::ConfigMap => "configmaps",
            Self::Deployment => "deployments",
            Self::Endpoints => "endpoints",
            Self::EndpointSlice => "endpointslices",
            Self::Event => "events",
            Self::Lease => "leases",
            Self::Namespace => "namespaces",
            Self::NetworkPolicy => "networkpolicies",
            Self::Node => "nodes",
            Self::Pod => "pods",
            Self::ReplicaSet => "replicasets",
            Self::Secret => "secrets",
            Self::Service => "services",
            Self::ServiceAccount => "serviceaccounts",
        }
    }

    /// Whether objects of the kind live in a namespace.
    #[must_use]
    pub fn namespaced(self) -> bool {
        !matches!(self, Self::AddressPool | Self::Namespace | Self::Node)
    }

    /// The kind that an owner reference means: the group has to match, the version does not.
    #[must_use]
    pub fn of_reference(api_version: &str, kind: &str) -> Option<Self> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        Self::ALL.into_iter().find(|known| known.name() == kind && known.group() == group)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Names one object: kind, namespace (empty for cluster-scoped kinds) and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Kind of the object.
    pub kind: Kind,
    /// Namespace, empty for cluster-scoped kinds.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl Key {
    /// Key of a namespaced object.
    pub fn new(kind: Kind, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { kind, namespace: namespace.into(), name: name.into() }
    }

    /// Key of a cluster-scoped object.
    pub fn cluster(kind: Kind, name: impl Into<String>) -> Self {
        Self::new(kind, "", name)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            write!(f, "{} {}", self.kind, self.name)
        } else {
            write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
        }
    }
}
