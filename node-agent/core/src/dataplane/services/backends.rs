use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use skep_abi::{Addr, Backend, BackendState, backend_flags};

use super::table::Table;
use crate::dataplane::nodes::Nodes;
use crate::dataplane::staged::Staged;
use crate::dataplane::{Family, GoneBackend, abi_addr};

/// What makes two endpoints the same backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct BackendKey {
    pub(super) addr: Addr,
    pub(super) port: u16,
    pub(super) proto: u8,
}

/// Place of a backend in [`Backends`], as long as it has a use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Handle(u32);

/// How a Service uses a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Use {
    /// An EndpointSlice lists it, in whatever state.
    Listed,
    /// It is in a slot.
    Slot,
    /// It is terminating: it keeps the connections that it has.
    Draining,
}

/// Backends, shared by every endpoint set that has the same address, port and protocol in it.
#[derive(Debug, Default)]
pub(super) struct Backends {
    entries: Vec<Entry>,
    free: Vec<Handle>,
    by_key: Table<BackendKey, Handle>,
    by_id: Table<u32, Handle>,
    last_id: u32,
    /// Used differently since the last [`Backends::write`].
    touched: Vec<Handle>,
    /// Lost their last slot in the last [`Backends::write`]; packets under way may still look them up.
    retired: Vec<Handle>,
    gone: Vec<GoneBackend>,
}

#[derive(Debug)]
struct Entry {
    key: BackendKey,
    id: u32,
    /// The node that it runs on.
    node: Arc<str>,
    /// Uses by [`Use`].
    uses: [u32; 3],
    touched: bool,
    /// It is among those to be removed by the next write.
    due: bool,
    /// Somebody has listed it since it was last said to be gone.
    known: bool,
    live: bool,
}

impl Entry {
    fn uses(&self, usage: Use) -> u32 {
        self.uses[usage as usize]
    }
}

impl Backends {
    /// Takes over the numbers in the map; what stays unused is removed by the writes to come.
    pub(super) fn adopt(&mut self, map: &BTreeMap<u32, Backend>) {
        for (&id, backend) in map {
            let key = BackendKey { addr: backend.addr, port: u16::from_be(backend.port_be), proto: backend.proto };
            if !self.by_key.contains_key(&key) && !self.by_id.contains_key(&id) {
                let handle = self.insert(key, id);
                if let Some(entry) = self.entry_mut(handle) {
                    entry.known = true;
                }
            }
            self.last_id = self.last_id.max(id);
        }
        self.touch_all();
    }

    fn insert(&mut self, key: BackendKey, id: u32) -> Handle {
        let entry =
            Entry { key, id, node: Arc::default(), uses: [0; 3], touched: false, due: false, known: false, live: true };
        let handle = self.free.pop().unwrap_or(Handle(super::count(&self.entries)));
        match self.entries.get_mut(handle.0 as usize) {
            Some(place) => *place = entry,
            None => self.entries.push(entry),
        }
        self.by_key.insert(key, handle);
        self.by_id.insert(id, handle);
        handle
    }

    fn entry(&self, handle: Handle) -> Option<&Entry> {
        self.entries.get(handle.0 as usize)
    }

    fn entry_mut(&mut self, handle: Handle) -> Option<&mut Entry> {
        self.entries.get_mut(handle.0 as usize)
    }

    /// Counts an endpoint of a slice, on the node of this name.
    pub(super) fn list(&mut self, key: BackendKey, node: &Arc<str>) -> Handle {
        let handle = match self.by_key.get(&key) {
            Some(&handle) => handle,
            None => {
                self.last_id = next_id(self.last_id, |id| self.by_id.contains_key(&id));
                self.insert(key, self.last_id)
            }
        };
        if let Some(entry) = self.entry_mut(handle) {
            entry.known = true;
            if entry.node != *node {
                entry.node = Arc::clone(node);
            }
        }
        self.acquire(handle, Use::Listed);
        handle
    }

    /// Counts one more use.
    pub(super) fn acquire(&mut self, handle: Handle, usage: Use) {
        if let Some(entry) = self.entries.get_mut(handle.0 as usize) {
            entry.uses[usage as usize] += 1;
        }
        self.touch(handle);
    }

    /// Counts one use less.
    pub(super) fn release(&mut self, handle: Handle, usage: Use) {
        if let Some(entry) = self.entries.get_mut(handle.0 as usize) {
            entry.uses[usage as usize] = entry.uses[usage as usize].saturating_sub(1);
        }
        self.touch(handle);
    }

    fn touch(&mut self, handle: Handle) {
        if let Some(entry) = self.entries.get_mut(handle.0 as usize).filter(|entry| entry.live && !entry.touched) {
            entry.touched = true;
            self.touched.push(handle);
        }
    }

    /// The backend's number in the maps.
    pub(super) fn id(&self, handle: Handle) -> u32 {
        self.entry(handle).map_or(0, |entry| entry.id)
    }

    /// The backend with this number.
    pub(super) fn find(&self, id: u32) -> Option<Handle> {
        self.by_id.get(&id).copied()
    }

    /// Looks again at the backends that run on a node, or have one of its addresses.
    pub(super) fn node_changed(&mut self, node: &str, addresses: &[IpAddr]) {
        let addresses: Vec<Addr> = addresses.iter().map(|&addr| abi_addr(addr)).collect();
        for (at, entry) in self.entries.iter_mut().enumerate() {
            let concerned = *entry.node == *node || addresses.contains(&entry.key.addr);
            if concerned && entry.live && !entry.touched {
                entry.touched = true;
                self.touched.push(Handle(u32::try_from(at).unwrap_or(u32::MAX)));
            }
        }
    }

    pub(super) fn has_retired(&self) -> bool {
        !self.retired.is_empty()
    }

    /// Backends that nobody lists any more, since the last call.
    pub(super) fn take_gone(&mut self) -> Vec<GoneBackend> {
        std::mem::take(&mut self.gone)
    }

    /// Stages what changed. A backend that lost its last slot keeps its entry as it is until the write after this one.
    pub(super) fn write(&mut self, nodes: &Nodes, staged: &mut Staged) {
        let due = std::mem::take(&mut self.retired);
        for handle in std::mem::take(&mut self.touched) {
            let Some(entry) = self.entries.get_mut(handle.0 as usize) else { continue };
            entry.touched = false;
            let listed = entry.uses(Use::Listed) > 0;
            if !listed && entry.known {
                entry.known = false;
                self.gone.push(gone(entry.key));
            }
            if entry.uses(Use::Slot) > 0 {
                staged.put_backend(entry.id, value(entry, BackendState::Active, nodes));
            } else if staged.contents().backends.contains_key(&entry.id) {
                if !entry.due {
                    entry.due = true;
                    self.retired.push(handle);
                }
            } else if entry.uses(Use::Draining) > 0 {
                staged.put_backend(entry.id, value(entry, BackendState::Terminating, nodes));
            } else if !listed {
                self.remove(handle);
            }
        }
        for handle in due {
            let Some(entry) = self.entries.get_mut(handle.0 as usize) else { continue };
            entry.due = false;
            if entry.uses(Use::Slot) > 0 {
                continue;
            }
            if entry.uses(Use::Draining) > 0 {
                staged.put_backend(entry.id, value(entry, BackendState::Terminating, nodes));
                continue;
            }
            staged.delete_backend(entry.id);
            if entry.uses(Use::Listed) == 0 {
                self.remove(handle);
            }
        }
    }

    fn remove(&mut self, handle: Handle) {
        let Some(entry) = self.entries.get_mut(handle.0 as usize).filter(|entry| entry.live) else { return };
        entry.live = false;
        entry.node = Arc::default();
        self.by_key.remove(&entry.key);
        self.by_id.remove(&entry.id);
        self.free.push(handle);
    }

    /// Keeps what the last write replaced: a frontend could not be flipped away from it.
    pub(super) fn keep_retired(&mut self) {
        for handle in std::mem::take(&mut self.retired) {
            if let Some(entry) = self.entry_mut(handle) {
                entry.due = false;
            }
        }
    }

    /// Stages the removal of entries that have no number here.
    pub(super) fn prune(&self, staged: &mut Staged) {
        let stale: Vec<u32> =
            staged.contents().backends.keys().filter(|id| !self.by_id.contains_key(id)).copied().collect();
        for id in stale {
            staged.delete_backend(id);
        }
    }

    /// Writes every entry again, should the map have lost it.
    pub(super) fn touch_all(&mut self) {
        for at in 0..super::count(&self.entries) {
            self.touch(Handle(at));
        }
    }
}

/// The first number after `last` that is not taken; never 0.
pub(super) fn next_id(last: u32, taken: impl Fn(u32) -> bool) -> u32 {
    let mut id = last.wrapping_add(1).max(1);
    while taken(id) {
        id = id.wrapping_add(1).max(1);
    }
    id
}

fn ip(addr: Addr) -> IpAddr {
    IpAddr::from(addr.0).to_canonical()
}

fn gone(key: BackendKey) -> GoneBackend {
    GoneBackend { addr: ip(key.addr), port: key.port, proto: key.proto }
}

fn value(entry: &Entry, state: BackendState, nodes: &Nodes) -> Backend {
    let addr = ip(entry.key.addr);
    let local = !entry.node.is_empty() && *entry.node == *nodes.own_name();
    let node = if entry.node.is_empty() { None } else { nodes.address(&entry.node, Family::of(addr)) };
    let mut flags = if local { backend_flags::LOCAL } else { 0 };
    if nodes.is_node_address(addr) {
        flags |= backend_flags::HOST;
    }
    Backend {
        addr: entry.key.addr,
        node: node.map_or(Addr::NONE, abi_addr),
        port_be: entry.key.port.to_be(),
        proto: entry.key.proto,
        state: state as u8,
        flags,
    }
}
