//! What each node must know: its pods, and the ConfigMaps and Secrets that they refer to. Pure.
//!
//! For each node, each object's last change (a removal is a change too) with its revision. What a node does not know
//! after a revision is what changed later; [`NodeChanges`] lists it so that an object comes before the pod that needs
//! it, and goes after it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use k8s_openapi::api::core::v1::Pod;

use super::reference::{ObjectKind, ObjectName, references};

/// Removals that are remembered for each node; who has not seen the oldest ones needs everything anew.
const MAX_REMOVALS: usize = 1000;

/// An object as a node is sent it.
#[derive(Clone, Debug)]
pub(in super::super) struct Sent<O> {
    pub(in super::super) uid: String,
    /// `None` when it is to be removed.
    pub(in super::super) object: Option<O>,
}

#[derive(Clone, Debug)]
struct Entry<O> {
    revision: u64,
    sent: Sent<O>,
}

#[derive(Debug)]
struct NodeState<O> {
    entries: BTreeMap<ObjectName, Entry<O>>,
    floor: u64,
}

/// Where a pod runs and what it refers to.
#[derive(Debug)]
struct Placed {
    node: String,
    references: BTreeSet<ObjectName>,
}

/// What a node has to be told.
#[derive(Debug)]
pub(in super::super) struct NodeChanges<O> {
    /// Objects before the pods that need them; removals of pods before those of objects.
    pub(in super::super) changes: Vec<(ObjectName, Sent<O>)>,
    /// Who knows everything up to this revision or a later one may resume.
    pub(in super::super) floor: u64,
}

/// Every node's state. `O` is an object that is cheap to clone.
#[derive(Debug)]
pub(in super::super) struct Placement<O> {
    floor: u64,
    nodes: HashMap<String, NodeState<O>>,
    pods: HashMap<ObjectName, Placed>,
    /// How many pods of which nodes refer to an object.
    users: HashMap<ObjectName, HashMap<String, usize>>,
    /// ConfigMaps and Secrets, for the pods to come.
    objects: HashMap<ObjectName, (String, O)>,
}

impl<O: Clone> Placement<O> {
    /// A placement that knows every change after `floor`.
    pub(super) fn new(floor: u64) -> Self {
        let (nodes, pods, users, objects) = Default::default();
        Self { floor, nodes, pods, users, objects }
    }

    /// A ConfigMap or Secret changed or (`None`) is gone. Gives the nodes that it concerns.
    pub(super) fn set_object(&mut self, revision: u64, name: ObjectName, object: Option<(String, O)>) -> Vec<String> {
        let users: Vec<String> = self.users.get(&name).into_iter().flatten().map(|(node, _)| node.clone()).collect();
        for node in &users {
            match &object {
                Some((uid, object)) => self.send(revision, node, &name, uid, object),
                None => self.unsend(revision, node, &name),
            }
        }
        match object {
            Some(object) => self.objects.insert(name, object),
            None => self.objects.remove(&name),
        };
        users
    }

    /// A pod changed or (`None`) is gone. A `quiet` change is one that its node made itself and need not be told of.
    /// Gives the nodes that it concerns.
    pub(super) fn set_pod(
        &mut self,
        revision: u64,
        name: &ObjectName,
        pod: Option<(&Pod, O)>,
        quiet: bool,
    ) -> BTreeSet<String> {
        let mut touched = BTreeSet::new();
        let node = pod.as_ref().and_then(|(pod, _)| pod.spec.as_ref()?.node_name.clone()).filter(|n| !n.is_empty());
        if let Some(placed) = self.pods.get(name)
            && node.as_ref() != Some(&placed.node)
        {
            touched.insert(placed.node.clone());
            self.displace(revision, name);
        }
        if let (Some(node), Some((pod, object))) = (node, pod) {
            let uid = pod.metadata.uid.as_deref().unwrap_or_default();
            if quiet && self.refresh(&node, name, uid, &object) {
                return touched;
            }
            self.place(revision, &node, name, references(pod));
            self.send(revision, &node, name, uid, &object);
            touched.insert(node);
        }
        touched
    }

    /// Everything of a node that changed after a revision, or (`None`) everything that is there.
    pub(in super::super) fn changes(&self, node: &str, after: Option<u64>) -> NodeChanges<O> {
        let Some(state) = self.nodes.get(node) else { return NodeChanges { changes: Vec::new(), floor: self.floor } };
        let is_news = |entry: &Entry<O>| match after {
            Some(after) => entry.revision > after,
            None => entry.sent.object.is_some(),
        };
        let news = state.entries.iter().filter(|(_, entry)| is_news(entry));
        let (there, gone): (Vec<_>, Vec<_>) = news.partition(|(_, entry)| entry.sent.object.is_some());
        let ordered = there.into_iter().chain(gone.into_iter().rev());
        let changes = ordered.map(|(name, entry)| (name.clone(), entry.sent.clone())).collect();
        NodeChanges { changes, floor: state.floor }
    }

    /// Takes a pod off its node, and what no other pod there needs with it.
    fn displace(&mut self, revision: u64, name: &ObjectName) {
        let Some(placed) = self.pods.remove(name) else { return };
        self.unsend(revision, &placed.node, name);
        for reference in &placed.references {
            self.release(revision, &placed.node, reference);
        }
    }

    /// Notes where a pod runs and sends what it needs and its node does not have.
    fn place(&mut self, revision: u64, node: &str, name: &ObjectName, references: BTreeSet<ObjectName>) {
        let before = self.pods.get(name).map(|placed| placed.references.clone()).unwrap_or_default();
        for reference in references.difference(&before) {
            let users = self.users.entry(reference.clone()).or_default().entry(node.to_owned()).or_default();
            *users += 1;
            if *users == 1
                && let Some((uid, object)) = self.objects.get(reference).cloned()
            {
                self.send(revision, node, reference, &uid, &object);
            }
        }
        for reference in before.difference(&references) {
            self.release(revision, node, reference);
        }
        self.pods.insert(name.clone(), Placed { node: node.to_owned(), references });
    }

    fn release(&mut self, revision: u64, node: &str, reference: &ObjectName) {
        let Some(nodes) = self.users.get_mut(reference) else { return };
        let Some(users) = nodes.get_mut(node) else { return };
        *users -= 1;
        if *users == 0 {
            nodes.remove(node);
            if nodes.is_empty() {
                self.users.remove(reference);
            }
            self.unsend(revision, node, reference);
        }
    }

    fn state(&mut self, node: &str) -> &mut NodeState<O> {
        let floor = self.floor;
        self.nodes.entry(node.to_owned()).or_insert_with(|| NodeState { entries: BTreeMap::new(), floor })
    }

    fn send(&mut self, revision: u64, node: &str, name: &ObjectName, uid: &str, object: &O) {
        let sent = Sent { uid: uid.to_owned(), object: Some(object.clone()) };
        self.state(node).entries.insert(name.clone(), Entry { revision, sent });
    }

    /// Keeps the newest form for those who ask for everything. False if the node does not have this very object.
    fn refresh(&mut self, node: &str, name: &ObjectName, uid: &str, object: &O) -> bool {
        let Some(entry) = self.nodes.get_mut(node).and_then(|state| state.entries.get_mut(name)) else { return false };
        if entry.sent.object.is_none() || entry.sent.uid != uid {
            return false;
        }
        entry.sent.object = Some(object.clone());
        true
    }

    fn unsend(&mut self, revision: u64, node: &str, name: &ObjectName) {
        let state = self.state(node);
        let Some(entry) = state.entries.get_mut(name).filter(|entry| entry.sent.object.is_some()) else { return };
        entry.revision = revision;
        entry.sent.object = None;
        let removals = state.entries.iter().filter(|(_, entry)| entry.sent.object.is_none());
        if removals.clone().count() > MAX_REMOVALS
            && let Some((oldest, entry)) = removals.min_by_key(|(_, entry)| entry.revision)
        {
            let (oldest, revision) = (oldest.clone(), entry.revision);
            state.floor = state.floor.max(revision);
            state.entries.remove(&oldest);
        }
    }
}

/// A pod's name.
pub(super) fn pod_name(namespace: &str, name: &str) -> ObjectName {
    ObjectName { kind: ObjectKind::Pod, namespace: namespace.to_owned(), name: name.to_owned() }
}

#[cfg(test)]
mod tests;
