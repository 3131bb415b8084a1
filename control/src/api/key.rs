//! Where objects are kept.

use std::collections::HashMap;
use std::sync::LazyLock;

use bytes::Bytes;
use skep_control_core::api::{Resource, Status, registry};
use skep_store::KeyRange;

/// Before every key.
pub(super) const ROOT: &str = "/registry/";

/// A resource, or the name under which its objects are stored (`pods`, `deployments.apps`).
pub trait ResourceRef {
    /// The resource. Errors: 404 when the name is of none.
    fn resolve(self) -> Result<&'static Resource, Status>;
}

impl ResourceRef for &'static Resource {
    fn resolve(self) -> Result<&'static Resource, Status> {
        Ok(self)
    }
}

impl ResourceRef for &str {
    fn resolve(self) -> Result<&'static Resource, Status> {
        by_storage(self).ok_or_else(Status::unknown_path)
    }
}

/// The resource whose form is stored under that name: the first one that names it.
pub(super) fn by_storage(storage: &str) -> Option<&'static Resource> {
    static BY_STORAGE: LazyLock<HashMap<&'static str, &'static Resource>> = LazyLock::new(|| {
        let mut map = HashMap::new();
        for resource in registry().iter() {
            map.entry(resource.storage).or_insert(resource);
        }
        map
    });
    BY_STORAGE.get(storage).copied()
}

/// The key of one object.
pub(super) fn object_key(resource: &Resource, namespace: &str, name: &str) -> Bytes {
    let storage = resource.storage;
    Bytes::from(if resource.namespaced {
        format!("{ROOT}{storage}/{namespace}/{name}")
    } else {
        format!("{ROOT}{storage}/{name}")
    })
}

/// The prefix of the keys of a resource, in one namespace or (`""`) in all.
pub(super) fn prefix(resource: &Resource, namespace: &str) -> String {
    let storage = resource.storage;
    if resource.namespaced && !namespace.is_empty() {
        format!("{ROOT}{storage}/{namespace}/")
    } else {
        format!("{ROOT}{storage}/")
    }
}

/// Every key with that prefix, from `start` on when given.
pub(super) fn prefix_range(prefix: &str, start: Option<Bytes>) -> KeyRange {
    let mut end = prefix.as_bytes().to_vec();
    // Prefixes end with '/', so the last byte can be counted up without a carry.
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    KeyRange { start: start.unwrap_or_else(|| Bytes::copy_from_slice(prefix.as_bytes())), end: Some(Bytes::from(end)) }
}

/// Exactly one key.
pub(super) fn single(key: &Bytes) -> KeyRange {
    KeyRange { start: key.clone(), end: Some(successor(key)) }
}

/// The first key behind this one.
pub(super) fn successor(key: &[u8]) -> Bytes {
    let mut next = Vec::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.push(0);
    Bytes::from(next)
}

/// What a key says: the resource in its stored form, and where namespace and name begin in the key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parsed {
    pub(super) resource: &'static Resource,
    pub(super) namespace: (usize, usize),
    pub(super) name: usize,
}

/// Takes a key apart; `None` for keys that are no objects'.
pub(super) fn parse(key: &[u8]) -> Option<Parsed> {
    let text = std::str::from_utf8(key).ok()?;
    let rest = text.strip_prefix(ROOT)?;
    let (storage, rest) = rest.split_once('/')?;
    let resource = by_storage(storage)?;
    let start = ROOT.len() + storage.len() + 1;
    if !resource.namespaced {
        return Some(Parsed { resource, namespace: (start, start), name: start });
    }
    let (namespace, _) = rest.split_once('/')?;
    let end = start + namespace.len();
    Some(Parsed { resource, namespace: (start, end), name: end + 1 })
}
