//! The controllers' picture of the cluster: a synchronous fold of watch events, one for all controllers.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;

use super::heartbeat::Heartbeats;
use super::kind::{Key, Kind};
use super::load_balancer;
use super::object::{Object, Typed, key_of};
use super::owner::controller_of;
use super::selector::{Labels, contains};

/// Label that ties an `EndpointSlice` to its Service.
pub(super) const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// One message of the stream of everything that is written, in the order of its revisions.
///
/// One order for all kinds matters: an object is never seen before its owner, its namespace or its node.
#[derive(Clone, Debug)]
pub enum Change {
    /// An object was created or modified.
    Upsert {
        /// The object now.
        object: Object,
        /// Revision of the write.
        revision: u64,
    },
    /// An object was removed.
    Delete {
        /// The object.
        key: Key,
        /// Revision of the removal.
        revision: u64,
    },
    /// A complete listing: first synchronisation, or after a lost watch.
    Replace {
        /// Every object of every kind.
        objects: Vec<Object>,
        /// Revision of the listing.
        revision: u64,
    },
    /// Everything up to this revision has been given.
    Progress {
        /// The revision.
        revision: u64,
    },
}

/// What a [`Change`] did to one object.
#[derive(Clone, Debug)]
pub struct Touched {
    /// The object.
    pub key: Key,
    /// Before; `None` when it was not there.
    pub before: Option<Object>,
    /// After; `None` when it is gone.
    pub after: Option<Object>,
}

impl Touched {
    /// Both sides, as far as they exist.
    pub fn sides(&self) -> impl Iterator<Item = &Object> {
        self.before.iter().chain(self.after.iter())
    }

    /// The typed object now, when it is of type `K`.
    #[must_use]
    pub fn now<K: Typed>(&self) -> Option<&Arc<K>> {
        self.after.as_ref().and_then(K::of)
    }
}

/// Objects by key, and the cross references that controllers ask for.
#[derive(Debug, Default)]
pub struct Index {
    objects: BTreeMap<Key, Object>,
    /// Revision that the stream has reached; `None` until the first listing.
    revision: Option<u64>,
    by_uid: HashMap<String, Key>,
    by_owner: BTreeMap<String, BTreeSet<Key>>,
    /// Pods and `ReplicaSet`s that no controller manages: candidates for adoption.
    orphans: BTreeSet<Key>,
    pods_by_node: BTreeMap<String, BTreeSet<Key>>,
    /// Nodes that pods are bound to and that do not exist, since when.
    missing_nodes: BTreeMap<String, Timestamp>,
    slices_by_service: BTreeMap<(String, String), BTreeSet<String>>,
    /// Services by namespace and the first pair of their selector.
    services_by_pair: BTreeMap<(String, String, String), BTreeSet<String>>,
    /// Services that have, had or may get addresses of a load balancer.
    load_balancers: BTreeSet<Key>,
    heartbeats: Heartbeats,
}

impl Index {
    /// Folds one change in. Duplicates, messages older than the index, and what comes before the first listing are ignored.
    pub fn apply(&mut self, change: Change, now: Timestamp) -> Vec<Touched> {
        match change {
            Change::Upsert { object, revision } => {
                let key = object.key();
                let newer = self.objects.get(&key).is_none_or(|known| known.revision() < object.revision());
                if !self.advance(revision) || !newer {
                    return Vec::new();
                }
                vec![self.set(key, Some(object), now)]
            }
            Change::Delete { key, revision } => {
                if !self.advance(revision) || !self.objects.contains_key(&key) {
                    return Vec::new();
                }
                vec![self.set(key, None, now)]
            }
            Change::Replace { objects, revision } => {
                if self.revision.is_some_and(|known| revision < known) {
                    return Vec::new();
                }
                self.revision = Some(revision);
                let mut stale: BTreeSet<Key> = self.objects.keys().cloned().collect();
                let mut touched = Vec::new();
                for object in objects {
                    let key = object.key();
                    stale.remove(&key);
                    if self.objects.get(&key) != Some(&object) {
                        touched.push(self.set(key, Some(object), now));
                    }
                }
                for key in stale {
                    touched.push(self.set(key, None, now));
                }
                touched
            }
            Change::Progress { revision } => {
                self.advance(revision);
                Vec::new()
            }
        }
    }

    /// Notes the stream's revision; `false` for a message that the index is already past, or that comes before the first listing.
    fn advance(&mut self, revision: u64) -> bool {
        match self.revision {
            Some(known) if known <= revision => {
                self.revision = Some(revision);
                true
            }
            _ => false,
        }
    }

    fn set(&mut self, key: Key, after: Option<Object>, now: Timestamp) -> Touched {
        let before = match &after {
            Some(object) => self.objects.insert(key.clone(), object.clone()),
            None => self.objects.remove(&key),
        };
        if let Some(object) = &before {
            self.unlink(&key, object);
        }
        if let Some(object) = &after {
            self.link(&key, object);
        }
        self.heartbeats.observe(&key, after.as_ref(), now);
        self.track_missing(&key, before.as_ref(), after.as_ref(), now);
        Touched { key, before, after }
    }

    fn link(&mut self, key: &Key, object: &Object) {
        let metadata = object.metadata();
        if let Some(uid) = &metadata.uid {
            self.by_uid.insert(uid.clone(), key.clone());
        }
        for owner in metadata.owner_references.iter().flatten() {
            self.by_owner.entry(owner.uid.clone()).or_default().insert(key.clone());
        }
        if matches!(key.kind, Kind::Pod | Kind::ReplicaSet) && controller_of(metadata).is_none() {
            self.orphans.insert(key.clone());
        }
        match object {
            Object::Pod(pod) => {
                if let Some(node) = node_of(pod) {
                    self.pods_by_node.entry(node.to_owned()).or_default().insert(key.clone());
                }
            }
            Object::EndpointSlice(slice) => {
                if let Some(service) = service_of(slice) {
                    let entry = (key.namespace.clone(), service.to_owned());
                    self.slices_by_service.entry(entry).or_default().insert(key.name.clone());
                }
            }
            Object::Service(service) => {
                if load_balancer::concerns(service) {
                    self.load_balancers.insert(key.clone());
                }
                if let Some((name, value)) = first_pair(service) {
                    let entry = (key.namespace.clone(), name.clone(), value.clone());
                    self.services_by_pair.entry(entry).or_default().insert(key.name.clone());
                }
            }
            _ => {}
        }
    }

    fn unlink(&mut self, key: &Key, object: &Object) {
        fn remove<K: Ord, V: Ord>(map: &mut BTreeMap<K, BTreeSet<V>>, entry: &K, value: &V) {
            if let Some(set) = map.get_mut(entry) {
                set.remove(value);
                if set.is_empty() {
                    map.remove(entry);
                }
            }
        }
        self.orphans.remove(key);
        let metadata = object.metadata();
        if let Some(uid) = &metadata.uid
            && self.by_uid.get(uid) == Some(key)
        {
            self.by_uid.remove(uid);
        }
        for owner in metadata.owner_references.iter().flatten() {
            remove(&mut self.by_owner, &owner.uid, key);
        }
        match object {
            Object::Pod(pod) => {
                if let Some(node) = node_of(pod) {
                    remove(&mut self.pods_by_node, &node.to_owned(), key);
                }
            }
            Object::EndpointSlice(slice) => {
                if let Some(service) = service_of(slice) {
                    remove(&mut self.slices_by_service, &(key.namespace.clone(), service.to_owned()), &key.name);
                }
            }
            Object::Service(service) => {
                self.load_balancers.remove(key);
                if let Some((name, value)) = first_pair(service) {
                    let entry = (key.namespace.clone(), name.clone(), value.clone());
                    remove(&mut self.services_by_pair, &entry, &key.name);
                }
            }
            _ => {}
        }
    }

    fn track_missing(&mut self, key: &Key, before: Option<&Object>, after: Option<&Object>, now: Timestamp) {
        let mut names: Vec<String> = before
            .into_iter()
            .chain(after)
            .filter_map(Pod::of)
            .filter_map(|pod| node_of(pod))
            .map(str::to_owned)
            .collect();
        if key.kind == Kind::Node {
            names.push(key.name.clone());
        }
        for name in names {
            if self.pods_by_node.contains_key(&name) && self.get::<Node>("", &name).is_none() {
                self.missing_nodes.entry(name).or_insert(now);
            } else {
                self.missing_nodes.remove(&name);
            }
        }
    }

    /// Revision that the stream has reached; 0 before the first listing.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision.unwrap_or_default()
    }

    /// Whether there has been a listing. Nothing may be decided before: what was not listed yet would look absent.
    #[must_use]
    pub fn synced(&self) -> bool {
        self.revision.is_some()
    }

    /// The object with a key.
    #[must_use]
    pub fn object(&self, key: &Key) -> Option<&Object> {
        self.objects.get(key)
    }

    /// The typed object with a namespace (empty for cluster-scoped kinds) and name.
    #[must_use]
    pub fn get<K: Typed>(&self, namespace: &str, name: &str) -> Option<&Arc<K>> {
        self.objects.get(&Key::new(K::KIND, namespace, name)).and_then(K::of)
    }

    /// The object with a UID.
    #[must_use]
    pub fn by_uid(&self, uid: &str) -> Option<&Object> {
        self.by_uid.get(uid).and_then(|key| self.objects.get(key))
    }

    /// Typed objects of a namespace in the order of their names.
    pub fn list<'a, K: Typed + 'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a Arc<K>> {
        self.namespaced(K::KIND, namespace).filter_map(|(_, object)| K::of(object))
    }

    /// Objects of one kind and namespace in the order of their names.
    pub fn namespaced<'a>(&'a self, kind: Kind, namespace: &'a str) -> impl Iterator<Item = (&'a Key, &'a Object)> {
        self.objects
            .range((Bound::Included(Key::new(kind, namespace, "")), Bound::Unbounded))
            .take_while(move |(key, _)| key.kind == kind && key.namespace == namespace)
    }

    /// Keys of every object of a kind.
    pub fn keys(&self, kind: Kind) -> impl Iterator<Item = &Key> {
        self.objects
            .range((Bound::Included(Key::new(kind, "", "")), Bound::Unbounded))
            .map(|(key, _)| key)
            .take_while(move |key| key.kind == kind)
    }

    /// Every typed object of a kind.
    pub fn all<'a, K: Typed + 'a>(&'a self) -> impl Iterator<Item = &'a Arc<K>> {
        self.objects
            .range((Bound::Included(Key::new(K::KIND, "", "")), Bound::Unbounded))
            .take_while(|(key, _)| key.kind == K::KIND)
            .filter_map(|(_, object)| K::of(object))
    }

    /// Objects that name an owner UID among their owner references.
    pub fn dependents(&self, owner_uid: &str) -> impl Iterator<Item = &Object> {
        self.by_owner.get(owner_uid).into_iter().flatten().filter_map(|key| self.objects.get(key))
    }

    /// Typed objects whose controller is the owner with this UID.
    pub fn controlled<'a, K: Typed + 'a>(&'a self, owner_uid: &'a str) -> impl Iterator<Item = &'a Arc<K>> {
        self.dependents(owner_uid)
            .filter_map(K::of)
            .filter(move |object| controller_of(object.metadata()).is_some_and(|reference| reference.uid == owner_uid))
    }

    /// Typed objects of a namespace that no controller manages; kept for pods and `ReplicaSet`s.
    pub fn orphans<'a, K: Typed + 'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a Arc<K>> {
        self.orphans
            .range((Bound::Included(Key::new(K::KIND, namespace, "")), Bound::Unbounded))
            .take_while(move |key| key.kind == K::KIND && key.namespace == namespace)
            .filter_map(|key| self.objects.get(key))
            .filter_map(K::of)
    }

    /// Pods bound to a node.
    pub fn pods_on<'a>(&'a self, node: &str) -> impl Iterator<Item = &'a Arc<Pod>> {
        self.pods_by_node.get(node).into_iter().flatten().filter_map(|key| self.objects.get(key)).filter_map(Pod::of)
    }

    /// Since when pods are bound to a node that does not exist; `None` when it exists or no pod is bound to it.
    #[must_use]
    pub fn missing_since(&self, node: &str) -> Option<Timestamp> {
        self.missing_nodes.get(node).copied()
    }

    /// Slices labelled with a Service's name.
    pub fn slices_of<'a>(&'a self, namespace: &'a str, service: &str) -> impl Iterator<Item = &'a Arc<EndpointSlice>> {
        self.slices_by_service
            .get(&(namespace.to_owned(), service.to_owned()))
            .into_iter()
            .flatten()
            .filter_map(move |name| self.get::<EndpointSlice>(namespace, name))
    }

    /// Services whose selector selects these labels.
    #[must_use]
    pub fn services_selecting(&self, namespace: &str, labels: Option<&Labels>) -> Vec<&Arc<Service>> {
        let mut found = Vec::new();
        for (name, value) in labels.into_iter().flatten() {
            let entry = (namespace.to_owned(), name.clone(), value.clone());
            for service in self.services_by_pair.get(&entry).into_iter().flatten() {
                if let Some(service) = self.get::<Service>(namespace, service)
                    && selector_of(service).is_some_and(|selector| contains(labels, selector))
                {
                    found.push(service);
                }
            }
        }
        found
    }

    /// Services that have, had or may get addresses of a load balancer, in the order of their keys.
    pub(super) fn load_balancers(&self) -> impl Iterator<Item = &Arc<Service>> {
        self.load_balancers.iter().filter_map(|key| self.objects.get(key)).filter_map(Service::of)
    }

    /// When each node was last heard of.
    #[must_use]
    pub fn heartbeats(&self) -> &Heartbeats {
        &self.heartbeats
    }
}

/// Node that a pod is bound to.
#[must_use]
pub fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|name| !name.is_empty())
}

/// Service that a slice belongs to.
#[must_use]
pub(super) fn service_of(slice: &EndpointSlice) -> Option<&str> {
    slice.metadata.labels.as_ref()?.get(SERVICE_NAME).map(String::as_str)
}

/// A Service's selector, when it has one.
#[must_use]
pub(super) fn selector_of(service: &Service) -> Option<&Labels> {
    service.spec.as_ref()?.selector.as_ref().filter(|selector| !selector.is_empty())
}

fn first_pair(service: &Service) -> Option<(&String, &String)> {
    selector_of(service)?.iter().next()
}

/// Key of a typed object.
#[must_use]
pub(super) fn key<K: Typed>(object: &K) -> Key {
    key_of(K::KIND, object.metadata())
}
