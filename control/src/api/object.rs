//! One object as it is stored.

use std::io::Write;

use bytes::{BufMut, Bytes, BytesMut};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use skep_control_core::api::{Resource, Status, meta};
use skep_store::KeyValue;

use super::key;

/// An object at one revision. Clones share the bytes; nothing is parsed until a method says so.
#[derive(Clone, Debug)]
pub struct Object {
    /// The store's revision at which it was written (deleted, for the last state of a deleted object); 0 for an
    /// object that was never written (dry run).
    pub revision: u64,
    resource: &'static Resource,
    key: Bytes,
    parsed: key::Parsed,
    value: Bytes,
}

impl Object {
    /// From what the store holds; `None` when the key is no object's.
    pub(super) fn from_stored(kv: &KeyValue) -> Option<Self> {
        let parsed = key::parse(&kv.key)?;
        let (key, value) = (kv.key.clone(), kv.value.clone());
        Some(Self { revision: kv.mod_revision, resource: parsed.resource, key, parsed, value })
    }

    pub(super) fn from_parts(key: Bytes, value: Bytes, revision: u64) -> Option<Self> {
        let parsed = key::parse(&key)?;
        Some(Self { revision, resource: parsed.resource, key, parsed, value })
    }

    /// The same object as another version of its resource shows it.
    pub(super) fn served_as(mut self, resource: &'static Resource) -> Self {
        self.resource = resource;
        self
    }

    /// The same object with another resourceVersion: for the last state of one that is gone.
    pub(crate) fn at_revision(mut self, revision: u64) -> Self {
        self.revision = revision;
        self
    }

    /// The resource in whose version [`Self::json`] and [`Self::value`] show it.
    pub fn resource(&self) -> &'static Resource {
        self.resource
    }

    pub(super) fn key(&self) -> &Bytes {
        &self.key
    }

    /// Its namespace; empty when it is in none.
    pub fn namespace(&self) -> &str {
        let (start, end) = self.parsed.namespace;
        std::str::from_utf8(&self.key[start..end]).unwrap_or_default()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        std::str::from_utf8(&self.key[self.parsed.name..]).unwrap_or_default()
    }

    /// Whether the stored bytes are those of the served version, so that they can be passed on as they are.
    fn is_stored_form(&self) -> bool {
        std::ptr::eq(self.resource, self.parsed.resource)
    }

    /// The whole object as JSON.
    pub fn json(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(self.value.len() + REVISION_ROOM);
        match self.splice() {
            Some((head, tail)) => {
                out.put_slice(head);
                put_revision(&mut out, self.revision);
                out.put_slice(&tail);
            }
            None => self.put_converted(&mut out),
        }
        out.freeze()
    }

    /// Appends the object as JSON to `buffer`; when it is large only its beginning, and the rest, shared with the
    /// store, is given back. With `bare`, apiVersion and kind are left out, as in the items of a list.
    pub(crate) fn write_json(&self, buffer: &mut BytesMut, bare: bool) -> Option<Bytes> {
        match self.splice() {
            Some((head, tail)) => {
                buffer.put_slice(if bare { BARE_HEAD } else { head });
                put_revision(buffer, self.revision);
                if tail.len() >= SHARE_FROM {
                    return Some(tail);
                }
                buffer.put_slice(&tail);
            }
            None => self.put_converted(buffer),
        }
        None
    }

    fn put_converted(&self, out: &mut BytesMut) {
        // An object that does not parse is shown as null: the store held something else than this service wrote.
        let value = self.value().unwrap_or(Value::Null);
        // Writing a Value into memory cannot fail: its keys are strings.
        let _infallible = serde_json::to_writer(out.writer(), &value);
    }

    /// The stored bytes before and behind the place of resourceVersion.
    fn splice(&self) -> Option<(&[u8], Bytes)> {
        if !self.is_stored_form() {
            return None;
        }
        let at = head_length(self.resource);
        let head = self.value.get(..at)?;
        head.ends_with(META_OPEN).then(|| (head, self.value.slice(at..)))
    }

    /// The object, with its resourceVersion. Errors: 500 when the store holds no object there.
    pub fn value(&self) -> Result<Value, Status> {
        let mut value: Value = serde_json::from_slice(&self.value).map_err(|error| self.broken(&error))?;
        if self.revision != 0 {
            meta::set_resource_version(&mut value, self.revision);
        }
        Ok(if self.is_stored_form() { value } else { (self.resource.strategy.from_storage)(value) })
    }

    /// Its labels only: of the rest nothing is kept. Errors: 500 when the store holds no object there.
    pub(crate) fn labels(&self) -> Result<Value, Status> {
        #[derive(Deserialize)]
        struct Head {
            metadata: Metadata,
        }
        #[derive(Deserialize)]
        struct Metadata {
            #[serde(default)]
            labels: Value,
        }
        let head: Head = serde_json::from_slice(&self.value).map_err(|error| self.broken(&error))?;
        Ok(head.metadata.labels)
    }

    /// The object as a typed one, with its resourceVersion. Errors: 500 when it is of another type.
    pub fn decode<K: DeserializeOwned>(&self) -> Result<K, Status> {
        serde_json::from_slice(&self.json()).map_err(|error| self.broken(&error))
    }

    fn broken(&self, error: &serde_json::Error) -> Status {
        Status::internal(format!("stored object {}: {error}", String::from_utf8_lossy(&self.key)))
    }
}

/// Values from this size on are passed on shared, smaller ones are copied.
const SHARE_FROM: usize = 4096;
/// Room for `"resourceVersion":"...",`.
const REVISION_ROOM: usize = 48;
const META_OPEN: &[u8] = br#","metadata":{"#;
const BARE_HEAD: &[u8] = br#"{"metadata":{"#;

fn put_revision(out: &mut BytesMut, revision: u64) {
    if revision != 0 {
        // Writing to memory cannot fail.
        let _infallible = write!(out.writer(), r#""resourceVersion":"{revision}","#);
    }
}

/// Length of `{"apiVersion":"...","kind":"...","metadata":{`, with which every stored object begins.
fn head_length(resource: &Resource) -> usize {
    let version = if resource.group.is_empty() { 0 } else { resource.group.len() + 1 } + resource.version.len();
    r#"{"apiVersion":"","kind":"""#.len() + version + resource.kind.len() + META_OPEN.len()
}

/// The bytes to store for an object in its stored form: apiVersion, kind and metadata first, resourceVersion gone.
///
/// Errors: 500 when it has no metadata; nothing that passed preparation lacks it.
pub(super) fn encode(resource: &Resource, mut object: Value) -> Result<Bytes, Status> {
    meta::clear_resource_version(&mut object);
    let stored_as = key::by_storage(resource.storage).unwrap_or(resource);
    let Value::Object(mut object) = object else { return Err(Status::internal("an object is no JSON object")) };
    let metadata = object.remove("metadata").unwrap_or_default();
    object.remove("apiVersion");
    object.remove("kind");
    if metadata.as_object().is_none_or(serde_json::Map::is_empty) {
        return Err(Status::internal("an object has no metadata"));
    }
    let mut out = Vec::with_capacity(512);
    let mut write = || -> serde_json::Result<()> {
        out.extend_from_slice(br#"{"apiVersion":"#);
        serde_json::to_writer(&mut out, &stored_as.api_version())?;
        out.extend_from_slice(br#","kind":"#);
        serde_json::to_writer(&mut out, stored_as.kind)?;
        out.extend_from_slice(br#","metadata":"#);
        serde_json::to_writer(&mut out, &metadata)?;
        for (field, value) in &object {
            out.push(b',');
            serde_json::to_writer(&mut out, field)?;
            out.push(b':');
            serde_json::to_writer(&mut out, value)?;
        }
        out.push(b'}');
        Ok(())
    };
    write().map_err(Status::internal)?;
    Ok(Bytes::from(out))
}
