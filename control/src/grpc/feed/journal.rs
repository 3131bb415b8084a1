//! The dataplane's objects in the order of their last change. Pure.
//!
//! A log that keeps only each object's last entry (a deletion is an entry too): a reader at a position finds behind it
//! everything that it does not know yet, once. Readers take a shared copy in constant time and read it at their pace,
//! so that a slow one costs nothing and skips what is outdated by the time it comes to it.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use imbl::OrdMap;
use prost::Message;
use skep_proto::dataplane::v1::watch_event::Event;
use skep_proto::dataplane::v1::{Deleted, Kind, WatchEvent};

/// Deletions that are remembered; who has not seen the oldest ones needs everything anew.
const MAX_DELETIONS: usize = 10_000;

/// When something changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    /// The store's revision.
    pub(super) revision: u64,
    /// Nanoseconds after the Unix epoch; 0 when that is not known.
    pub(super) time: u64,
}

impl Moment {
    /// A moment of which only the revision is known.
    pub(super) fn past(revision: u64) -> Self {
        Self { revision, time: 0 }
    }
}

/// A place in the journal: the revision, and a number that counts all entries.
pub(in super::super) type Position = (u64, u64);

/// Which object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in super::super) struct Key {
    pub(in super::super) kind: Kind,
    pub(in super::super) namespace: String,
    pub(in super::super) name: String,
}

/// One object's last change.
#[derive(Clone, Debug)]
pub(in super::super) struct Entry {
    key: Arc<Key>,
    /// The encoded [`WatchEvent`] without its revision and time: encoded once for all streams.
    pub(in super::super) body: Bytes,
    /// Nanoseconds after the Unix epoch; 0 when that is not known.
    pub(in super::super) changed_at: u64,
    pub(in super::super) deleted: bool,
}

/// A copy of the journal at one revision.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct View {
    /// Everything up to this revision is in it.
    pub(in super::super) head: u64,
    /// Who knows everything up to this revision or a later one may resume.
    pub(in super::super) floor: u64,
    pub(in super::super) entries: OrdMap<Position, Entry>,
}

/// The journal.
#[derive(Debug)]
pub(in super::super) struct Journal {
    view: View,
    positions: HashMap<Arc<Key>, Position>,
    deletions: BTreeSet<Position>,
    next: u64,
}

impl Journal {
    /// A journal that knows every change after `floor`.
    pub(super) fn new(floor: u64) -> Self {
        let view = View { head: floor, floor, entries: OrdMap::new() };
        Self { view, positions: HashMap::new(), deletions: BTreeSet::new(), next: 0 }
    }

    /// A copy.
    pub(in super::super) fn view(&self) -> View {
        self.view.clone()
    }

    /// Says that every change up to `revision` is there.
    pub(super) fn advance(&mut self, revision: u64) {
        self.view.head = revision;
    }

    /// Notes an object's projection, or that there is none (any more). Says whether that is news.
    pub(super) fn set(&mut self, at: Moment, key: Key, event: Option<Event>) -> bool {
        let before = self.positions.get(&key).copied();
        let present = before.is_some_and(|position| !self.deletions.contains(&position));
        if event.is_none() && !present {
            return false;
        }
        if let Some(before) = before {
            self.view.entries.remove(&before);
            self.deletions.remove(&before);
        }
        let key = Arc::new(key);
        let deleted = event.is_none();
        let event = event.unwrap_or_else(|| {
            let Key { kind, namespace, name } = Key::clone(&key);
            Event::Deleted(Deleted { kind: kind.into(), namespace, name })
        });
        let position = (at.revision, self.next);
        self.next += 1;
        let entry = Entry { key: Arc::clone(&key), body: body(event), changed_at: at.time, deleted };
        self.view.entries.insert(position, entry);
        self.positions.insert(key, position);
        if deleted {
            self.deletions.insert(position);
            self.forget_deletions();
        }
        true
    }

    fn forget_deletions(&mut self) {
        while self.deletions.len() > MAX_DELETIONS
            && let Some(oldest) = self.deletions.pop_first()
        {
            if let Some(entry) = self.view.entries.remove(&oldest) {
                self.positions.remove(&entry.key);
            }
            self.view.floor = self.view.floor.max(oldest.0);
        }
    }
}

/// Encodes an event without its revision and time, which are put before it on the wire.
pub(in super::super) fn body(event: Event) -> Bytes {
    WatchEvent { event: Some(event), ..WatchEvent::default() }.encode_to_vec().into()
}

#[cfg(test)]
mod tests {
    use skep_proto::dataplane::v1::Namespace;

    use super::*;

    fn key(name: &str) -> Key {
        Key { kind: Kind::Namespace, namespace: String::new(), name: name.to_owned() }
    }

    fn namespace(name: &str) -> Option<Event> {
        Some(Event::Namespace(Namespace { name: name.to_owned(), ..Namespace::default() }))
    }

    fn names(view: &View) -> Vec<(u64, String, bool)> {
        view.entries.iter().map(|((revision, _), entry)| (*revision, entry.key.name.clone(), entry.deleted)).collect()
    }

    #[test]
    fn only_the_last_change_of_an_object_is_kept() {
        let mut journal = Journal::new(1);
        for (revision, name) in [(2, "a"), (3, "b"), (4, "a")] {
            assert!(journal.set(Moment::past(revision), key(name), namespace(name)));
        }
        let before = journal.view();
        assert!(journal.set(Moment::past(5), key("b"), None));
        assert!(!journal.set(Moment::past(6), key("b"), None), "it is gone already");
        assert!(!journal.set(Moment::past(6), key("never"), None));
        let entry = |revision, name: &str, deleted| (revision, name.to_owned(), deleted);
        assert_eq!(names(&before), [entry(3, "b", false), entry(4, "a", false)]);
        assert_eq!(names(&journal.view()), [entry(4, "a", false), entry(5, "b", true)]);
        assert!(journal.set(Moment::past(7), key("b"), namespace("b")));
        assert_eq!(names(&journal.view()), [entry(4, "a", false), entry(7, "b", false)]);
    }

    #[test]
    fn old_deletions_are_forgotten_and_raise_the_floor() {
        let mut journal = Journal::new(1);
        let total = MAX_DELETIONS as u64 + 3;
        for n in 0..total {
            let name = n.to_string();
            journal.set(Moment::past(2 + 2 * n), key(&name), namespace(&name));
            journal.set(Moment::past(3 + 2 * n), key(&name), None);
        }
        let view = journal.view();
        assert_eq!(view.entries.len(), MAX_DELETIONS);
        assert_eq!(view.floor, 3 + 2 * 2);
    }
}
