use std::collections::BTreeMap;
use std::net::IpAddr;

use super::{Cidr, Event, Invalid, LocalEndpoint, MapContents, MapWrite, Names};

/// The fold of everything the dataplane obeys; see the module's picture.
#[derive(Debug, Default)]
pub struct Index {
    node: String,
    contents: MapContents,
    routes: BTreeMap<Cidr, IpAddr>,
    revision: u64,
}

impl Index {
    /// An empty index of the node of this name.
    #[must_use]
    pub fn new(node: &str) -> Self {
        Self { node: node.to_owned(), ..Self::default() }
    }

    /// A stream was opened (again): forgets a snapshot that was cut short. Returns the revision to resume from; 0 asks
    /// for everything.
    pub fn begin_stream(&mut self) -> u64 {
        self.revision
    }

    /// Takes an event of the stream.
    pub fn apply(&mut self, event: Event) {
        let _ = (event, &self.node);
    }

    /// Notes an object that could not be read: its earlier version stays in force; pods of a NetworkPolicy that has none
    /// are closed.
    pub fn reject(&mut self, invalid: &Invalid) {
        let _ = invalid;
    }

    /// Takes what the maps hold, at start or after writes failed. The next [`Index::drain`] after the stream has synced
    /// writes the difference, and removes what nothing asks for.
    pub fn adopt(&mut self, contents: MapContents) {
        self.contents = contents;
    }

    /// A local pod's interface is there. Call it for the pods that are found at start too, before [`Index::drain`].
    pub fn endpoint_added(&mut self, endpoint: LocalEndpoint) {
        let _ = endpoint;
    }

    /// A local pod's interface is gone.
    pub fn endpoint_removed(&mut self, ifindex: u32) {
        let _ = ifindex;
    }

    /// A write of the last batch failed (the map is full, say): the endpoints whose rules it belongs to are closed by the
    /// next [`Index::drain`], which is due at once; anything else is tried again with the next change of its object.
    pub fn write_failed(&mut self, write: &MapWrite) {
        let _ = write;
    }

    /// The writes that bring the maps to what the objects ask for, to be applied in this order. Nothing that a packet
    /// may have read from the maps before is removed in the same batch: it follows with the next one, see
    /// [`Index::has_retired`].
    pub fn drain(&mut self) -> Vec<MapWrite> {
        Vec::new()
    }

    /// Whether the next [`Index::drain`] removes what the last one replaced. It should come soon, but not before packets
    /// that are under way have passed (a few milliseconds are plenty).
    #[must_use]
    pub fn has_retired(&self) -> bool {
        false
    }

    /// Whether the stream has been complete once.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.revision != 0
    }

    /// What the maps hold when every drained write was applied.
    #[must_use]
    pub fn contents(&self) -> &MapContents {
        &self.contents
    }

    /// Next hop to each pod range of the other nodes.
    #[must_use]
    pub fn routes(&self) -> &BTreeMap<Cidr, IpAddr> {
        &self.routes
    }

    /// What the numbers in the maps stand for.
    #[must_use]
    pub fn names(&self) -> Names {
        Names::default()
    }
}
