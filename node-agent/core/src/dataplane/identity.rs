use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sha2::{Digest, Sha256};
use skep_verdict::tunnel::TAIL_BITS;

use super::Labels;

/// What a policy can see of a pod: pods that are equal in this have one identity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Group {
    pub(crate) namespace: String,
    pub(crate) namespace_labels: Labels,
    pub(crate) labels: Labels,
}

/// The identities in use.
#[derive(Debug)]
pub(crate) struct Identities {
    hash: fn(&Group) -> Hash,
    by_number: BTreeMap<u64, Entry>,
    by_group: BTreeMap<Arc<Group>, u64>,
    collisions: u64,
    /// Came into use, or went out of it, since the last [`Identities::take_changed`].
    changed: BTreeSet<u64>,
    departed: BTreeMap<u64, Arc<Group>>,
    /// Whose tail may be another than at the last [`Identities::take_renamed`].
    renamed: BTreeSet<u64>,
}

#[derive(Debug)]
struct Entry {
    group: Arc<Group>,
    pods: usize,
    /// Unless the number is not the group's hash.
    tail: Option<u64>,
}

impl Default for Identities {
    fn default() -> Self {
        Self::hashed_by(|group| hash(&group.namespace, &group.namespace_labels, &group.labels))
    }
}

impl Identities {
    pub(crate) fn hashed_by(hash: fn(&Group) -> Hash) -> Self {
        Self {
            hash,
            by_number: BTreeMap::new(),
            by_group: BTreeMap::new(),
            collisions: 0,
            changed: BTreeSet::new(),
            departed: BTreeMap::new(),
            renamed: BTreeSet::new(),
        }
    }

    /// Counts one more pod of the group; returns its identity.
    ///
    /// Should another group have the same hash, the next free number is used and the collision counted: two groups never share
    /// a number on one node. Such a number has no tail: it means nothing to other nodes.
    pub(crate) fn acquire(&mut self, group: Group) -> u64 {
        if let Some(&number) = self.by_group.get(&group) {
            if let Some(entry) = self.by_number.get_mut(&number) {
                entry.pods += 1;
            }
            return number;
        }
        let hash = (self.hash)(&group);
        let mut number = hash.number;
        if self.by_number.contains_key(&number) {
            self.collisions += 1;
        }
        while self.by_number.contains_key(&number) {
            number = number.wrapping_add(1).max(1);
        }
        let group = Arc::new(group);
        self.by_group.insert(Arc::clone(&group), number);
        let tail = (number == hash.number).then_some(hash.tail);
        self.by_number.insert(number, Entry { group, pods: 1, tail });
        self.changed.insert(number);
        self.renamed.insert(number);
        self.departed.remove(&number);
        number
    }

    /// Counts one pod less.
    pub(crate) fn release(&mut self, number: u64) {
        let Some(entry) = self.by_number.get_mut(&number) else { return };
        entry.pods = entry.pods.saturating_sub(1);
        if entry.pods == 0 {
            self.by_group.remove(&entry.group);
            self.departed.insert(number, Arc::clone(&entry.group));
            self.by_number.remove(&number);
            self.changed.insert(number);
            self.renamed.insert(number);
        }
    }

    /// The tail of an identity in use, when it means the same on every node.
    pub(crate) fn tail(&self, number: u64) -> Option<u64> {
        self.by_number.get(&number)?.tail
    }

    pub(crate) fn group(&self, number: u64) -> Option<&Group> {
        self.by_number.get(&number).map(|entry| &*entry.group)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &Group)> {
        self.by_number.iter().map(|(&number, entry)| (number, &*entry.group))
    }

    /// Groups that had to take another number than their hash.
    pub(crate) fn collisions(&self) -> u64 {
        self.collisions
    }

    /// What the identities were that went out of use since the last call: addresses have them until the next write.
    pub(crate) fn take_departed(&mut self) -> BTreeMap<u64, Arc<Group>> {
        std::mem::take(&mut self.departed)
    }

    /// Numbers whose tail may be another than at the last call.
    pub(crate) fn take_renamed(&mut self) -> BTreeSet<u64> {
        std::mem::take(&mut self.renamed)
    }

    /// Numbers that came into use or went out of it, or changed hands, since the last call.
    pub(crate) fn take_changed(&mut self) -> BTreeSet<u64> {
        std::mem::take(&mut self.changed)
    }
}

/// The hash of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hash {
    /// Its identity, unless another group has that already.
    pub(crate) number: u64,
    /// More of it, never 0; see [`skep_verdict::tunnel`].
    pub(crate) tail: u64,
}

/// The identity of a pod: a hash of its Namespace's name and labels and its own labels, never 0.
///
/// The same on every node and after every restart: the first 8 bytes of the SHA-256 of the parts, each with its length
/// in front, so that no two different inputs are the same byte string.
#[must_use]
pub fn identity_hash(namespace: &str, namespace_labels: &Labels, labels: &Labels) -> u64 {
    hash(namespace, namespace_labels, labels).number
}

/// See [`identity_hash`]. The bytes after those of the identity are its tail.
fn hash(namespace: &str, namespace_labels: &Labels, labels: &Labels) -> Hash {
    let mut hash = Sha256::new();
    let mut part = |text: &str| {
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text);
    };
    part(namespace);
    for set in [namespace_labels, labels] {
        part(&set.len().to_string());
        for (key, value) in set {
            part(key);
            part(value);
        }
    }
    let digest = hash.finalize();
    let number = |bytes: &[u8]| bytes.iter().fold(0_u64, |value, byte| value << 8 | u64::from(*byte));
    let (first, rest) = digest.split_at(8);
    let tail = number(rest.get(..8).unwrap_or(rest)) >> (u64::BITS - TAIL_BITS);
    Hash { number: number(first).max(1), tail: tail.max(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn group(namespace: &str, app: &str) -> Group {
        Group { namespace: namespace.to_owned(), namespace_labels: Labels::new(), labels: labels(&[("app", app)]) }
    }

    #[test]
    fn the_hash_is_the_same_everywhere_and_separates_its_parts() {
        // Fixed: a changed value would make nodes of two versions disagree.
        let namespace = labels(&[("kubernetes.io/metadata.name", "default")]);
        assert_eq!(identity_hash("default", &namespace, &labels(&[("app", "web")])), 0x2524_a5cc_9b61_d2ae);
        assert_eq!(hash("default", &namespace, &labels(&[("app", "web")])).tail, 0x330a_4d6f_2a3e);
        let parts = [
            identity_hash("a", &labels(&[]), &labels(&[("b", "c")])),
            identity_hash("a", &labels(&[("b", "c")]), &labels(&[])),
            identity_hash("ab", &labels(&[]), &labels(&[("", "c")])),
            identity_hash("a", &labels(&[]), &labels(&[("bc", "")])),
            identity_hash("a", &labels(&[]), &labels(&[])),
        ];
        assert_eq!(parts.iter().collect::<BTreeSet<_>>().len(), parts.len());
    }

    #[test]
    fn a_group_keeps_its_identity_while_it_has_pods() {
        let mut identities = Identities::default();
        let number = identities.acquire(group("ns", "a"));
        assert_eq!(identities.acquire(group("ns", "a")), number);
        assert_eq!(identities.take_changed(), [number].into());
        identities.release(number);
        assert!(identities.take_changed().is_empty());
        identities.release(number);
        assert_eq!(identities.take_changed(), [number].into());
        assert_eq!(identities.group(number), None);
    }

    #[test]
    fn groups_with_one_hash_get_two_identities() {
        let mut identities = Identities::hashed_by(|_| Hash { number: u64::MAX, tail: 7 });
        let a = identities.acquire(group("ns", "a"));
        let b = identities.acquire(group("ns", "b"));
        assert_eq!((a, b), (u64::MAX, 1));
        assert_eq!(identities.collisions(), 1);
        assert_eq!(identities.group(b), Some(&group("ns", "b")));
        // The second's number is another's on other nodes, or nobody's.
        assert_eq!([a, b].map(|number| identities.tail(number)), [Some(7), None]);
        assert_eq!(identities.take_renamed(), [a, b].into());
        // It keeps it, and what is free then has no tail until somebody has it by right.
        identities.release(a);
        assert_eq!([a, b].map(|number| identities.tail(number)), [None, None]);
        assert_eq!(identities.acquire(group("ns", "b")), b);
        assert_eq!(identities.acquire(group("ns", "c")), a);
        assert_eq!(identities.tail(a), Some(7));
        assert_eq!(identities.take_renamed(), [a].into());
    }
}
