//! What the API server knows of one resource, as data: every door and every verb runs on this shape.

use serde_json::Value;

use super::field::Faults;
use super::table::Column;

/// A served resource in one version. All of them are statics in [`super::resources`].
#[derive(Debug)]
pub struct Resource {
    /// API group, empty for core.
    pub group: &'static str,
    /// API version inside the group.
    pub version: &'static str,
    /// Kind, such as `Pod`. The list kind is this with `List` behind.
    pub kind: &'static str,
    /// Plural name, the path segment.
    pub plural: &'static str,
    /// Singular name.
    pub singular: &'static str,
    /// Short names for command lines.
    pub short_names: &'static [&'static str],
    /// Groupings such as `all`.
    pub categories: &'static [&'static str],
    /// Whether objects live in a namespace.
    pub namespaced: bool,
    /// Verbs served on the main resource.
    pub verbs: &'static [Verb],
    /// Subresources served.
    pub subresources: &'static [Subresource],
    /// Under which name objects are stored: `deployments.apps`, `events`. Two versions of one resource share it.
    pub storage: &'static str,
    /// Rules that make objects of this resource what they are.
    pub strategy: Strategy,
    /// `kubectl get` columns, normal (priority 0) and wide (priority 1).
    pub columns: &'static [Column],
    /// Cells in the order of `columns`.
    pub row: fn(&Value, jiff::Timestamp) -> Vec<Value>,
    /// Fields that a field selector may name, besides `metadata.name` and `metadata.namespace`.
    pub selectable: &'static [Selectable],
}

/// Name of a field for field selectors, and how it is read.
pub type Selectable = (&'static str, fn(&Value) -> String);

/// The rules of one resource. All functions are total: they leave what they do not know.
#[derive(Debug)]
pub struct Strategy {
    /// Fills in defaults. Idempotent.
    pub default: fn(&mut Value),
    /// Before a create: drops what a client may not write.
    pub prepare_create: fn(&mut Value),
    /// Before an update of the main resource: `(new, old)`; carries over what a client may not write.
    pub prepare_update: fn(&mut Value, &Value),
    /// Faults of a whole object.
    pub validate: fn(&Value, &mut Faults),
    /// Faults of the change `(new, old)`, besides those of `validate`.
    pub validate_update: fn(&Value, &Value, &mut Faults),
    /// Faults of a status change `(new, old)`.
    pub validate_status: fn(&Value, &Value, &mut Faults),
    /// Rule for `metadata.name`.
    pub name: NameRule,
    /// Whether `metadata.generation` counts changes of the spec.
    pub generation: bool,
    /// Grace period in seconds of a delete that asked for the given one; 0 for objects that vanish at once.
    pub grace: fn(&Value, Option<i64>) -> i64,
    /// Whether something besides `metadata.finalizers` keeps a deleted object (a Namespace's own finalizers).
    pub held: fn(&Value) -> bool,
    /// What else changes when a delete is accepted but the object stays (a Namespace's phase).
    pub terminate: fn(&mut Value),
    /// Whether a PUT on a name that is not there creates the object.
    pub create_on_update: bool,
    /// Whether an update without resourceVersion overwrites whatever is there.
    pub unconditional_update: bool,
    /// Whether a delete that removes answers with the object rather than a `Status`.
    pub returns_deleted: bool,
    /// From the served shape to the stored one (identity but for second versions).
    pub to_storage: fn(Value) -> Value,
    /// From the stored shape to the served one.
    pub from_storage: fn(Value) -> Value,
}

impl Strategy {
    /// The rules of a resource without a status, whose updates may be unconditional: a starting point.
    pub(crate) const PLAIN: Self = Self {
        default: |_| {},
        prepare_create: |_| {},
        prepare_update: |_, _| {},
        validate: |_, _| {},
        validate_update: |_, _, _| {},
        validate_status: |_, _, _| {},
        name: NameRule::Subdomain,
        generation: false,
        grace: |_, _| 0,
        held: |_| false,
        terminate: |_| {},
        create_on_update: false,
        unconditional_update: true,
        returns_deleted: false,
        to_storage: |object| object,
        from_storage: |object| object,
    };

    /// [`Self::PLAIN`] for a resource whose status is written by its controller through the subresource.
    pub(crate) const WITH_STATUS: Self = Self {
        prepare_create: |object| super::access::remove(object, "status"),
        prepare_update: |new, old| super::access::carry(new, old, "status"),
        ..Self::PLAIN
    };
}

/// Syntax of an object's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// DNS-1123 subdomain, up to 253 bytes.
    Subdomain,
    /// DNS-1123 label, up to 63 bytes.
    Label,
    /// DNS-1035 label, up to 63 bytes, beginning with a letter (Services).
    Rfc1035Label,
    /// Anything that is one path segment.
    PathSegment,
}

/// Verbs of the main resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// POST
    Create,
    /// DELETE one
    Delete,
    /// DELETE many
    DeleteCollection,
    /// GET one
    Get,
    /// GET many
    List,
    /// PATCH
    Patch,
    /// PUT
    Update,
    /// GET many with `watch`
    Watch,
}

impl Verb {
    /// Wire spelling.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
            Self::Get => "get",
            Self::List => "list",
            Self::Patch => "patch",
            Self::Update => "update",
            Self::Watch => "watch",
        }
    }

    /// Everything, in discovery's order.
    pub const ALL: &'static [Self] = &[
        Self::Create,
        Self::Delete,
        Self::DeleteCollection,
        Self::Get,
        Self::List,
        Self::Patch,
        Self::Update,
        Self::Watch,
    ];
}

/// Subresources. What each does is in [`super::subresource`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Subresource {
    /// Replaces only the status: get, patch, update.
    Status,
    /// `autoscaling/v1` `Scale`: get, patch, update.
    Scale,
    /// `v1` `Binding`: create.
    Binding,
    /// Log text: get.
    Log,
    /// `policy/v1` `Eviction`: create.
    Eviction,
    /// Namespace finalizers: update.
    Finalize,
}

impl Subresource {
    /// Path segment.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Scale => "scale",
            Self::Binding => "binding",
            Self::Log => "log",
            Self::Eviction => "eviction",
            Self::Finalize => "finalize",
        }
    }

    /// Verbs served.
    pub fn verbs(self) -> &'static [Verb] {
        match self {
            Self::Status | Self::Scale => &[Verb::Get, Verb::Patch, Verb::Update],
            Self::Binding | Self::Eviction => &[Verb::Create],
            Self::Log => &[Verb::Get],
            Self::Finalize => &[Verb::Update],
        }
    }
}

impl Resource {
    /// `v1` or `apps/v1`.
    pub fn api_version(&self) -> String {
        group_version(self.group, self.version)
    }

    /// `pods` or `deployments.apps`, as error texts name it.
    pub fn qualified(&self) -> String {
        if self.group.is_empty() { self.plural.to_owned() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// `PodList`.
    pub fn list_kind(&self) -> String {
        format!("{}List", self.kind)
    }

    /// The subresource of that path segment, when served.
    pub fn subresource(&self, segment: &str) -> Option<Subresource> {
        self.subresources.iter().copied().find(|s| s.as_str() == segment)
    }

    /// Whether the verb is served.
    pub fn serves(&self, verb: Verb) -> bool {
        self.verbs.contains(&verb)
    }
}

/// `v1` for the core group, else `group/version`.
pub fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// All served resources.
#[derive(Debug)]
pub struct Registry {
    resources: &'static [&'static Resource],
}

impl Registry {
    pub(crate) const fn new(resources: &'static [&'static Resource]) -> Self {
        Self { resources }
    }

    /// In discovery order.
    pub fn iter(&self) -> impl Iterator<Item = &'static Resource> + use<> {
        self.resources.iter().copied()
    }

    /// By the segments of a request path.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&'static Resource> {
        self.iter().find(|r| r.group == group && r.version == version && r.plural == plural)
    }

    /// By `apiVersion` and `kind` of an object.
    pub fn find_kind(&self, api_version: &str, kind: &str) -> Option<&'static Resource> {
        self.iter().find(|r| r.kind == kind && r.api_version() == api_version)
    }

    /// By typed object: `registry().of::<k8s_openapi::api::core::v1::Pod>()`.
    pub fn of<K: k8s_openapi::Resource>(&self) -> Option<&'static Resource> {
        self.iter().find(|r| r.kind == K::KIND && r.group == K::GROUP && r.version == K::VERSION)
    }

    /// Distinct `(group, version)`, core first.
    pub fn group_versions(&self) -> Vec<(&'static str, &'static str)> {
        let mut all = Vec::new();
        for resource in self.iter() {
            if !all.contains(&(resource.group, resource.version)) {
                all.push((resource.group, resource.version));
            }
        }
        all
    }
}
