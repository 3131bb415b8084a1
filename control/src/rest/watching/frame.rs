//! Frames of a watch: `{"type":"ADDED","object":{...}}` and a line end.

use std::collections::VecDeque;

use bytes::{BufMut, Bytes, BytesMut};
use jiff::Timestamp;
use serde_json::{Value, json};
use skep_control_core::api::{IncludeObject, Resource, Status, partial, table};

use crate::api::{Object, WatchKind};

/// What objects are shown as.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape {
    Object,
    Partial,
    Table(IncludeObject),
}

/// Frames that wait to be sent.
pub(super) struct Frames {
    resource: &'static Resource,
    shape: Shape,
    /// Only the first table of a watch says what its columns are.
    columns: bool,
    /// Objects of the initial state; they become frames one by one as they are sent.
    state: std::vec::IntoIter<Object>,
    /// What follows the state.
    behind: Option<Bytes>,
    buffer: BytesMut,
    ready: VecDeque<Bytes>,
}

/// Small frames are gathered up to about this size.
const GATHER: usize = 16 << 10;

impl Frames {
    pub(super) fn new(resource: &'static Resource, shape: Shape) -> Self {
        Self {
            resource,
            shape,
            columns: true,
            state: Vec::new().into_iter(),
            behind: None,
            buffer: BytesMut::new(),
            ready: VecDeque::new(),
        }
    }

    /// The next bytes to send; `None` when there is nothing.
    pub(super) fn next(&mut self) -> Option<Bytes> {
        while self.ready.is_empty() && self.buffer.len() < GATHER {
            let Some(object) = self.state.next() else {
                if let Some(behind) = self.behind.take() {
                    self.buffer.put_slice(&behind);
                }
                break;
            };
            if let Err(status) = self.event(WatchKind::Added, object) {
                self.error(&status);
            }
        }
        if let Some(ready) = self.ready.pop_front() {
            return Some(ready);
        }
        if self.buffer.is_empty() { None } else { Some(self.buffer.split().freeze()) }
    }

    /// The initial state.
    pub(super) fn state(&mut self, objects: Vec<Object>) {
        self.state = objects.into_iter();
    }

    /// Marks the end of the initial state.
    pub(super) fn end_of_state(&mut self, revision: u64) {
        let annotations = json!({"k8s.io/initial-events-end": "true"});
        let metadata = json!({"resourceVersion": revision.to_string(), "annotations": annotations});
        self.behind = Some(self.mark(metadata));
    }

    /// Says how far everything has been given.
    pub(super) fn bookmark(&mut self, revision: u64) {
        let mark = self.mark(json!({"resourceVersion": revision.to_string()}));
        self.buffer.put_slice(&mark);
    }

    fn mark(&self, metadata: Value) -> Bytes {
        let resource = self.resource;
        let object = json!({"kind": resource.kind, "apiVersion": resource.api_version(), "metadata": metadata});
        let object = match self.shape {
            Shape::Object => object,
            Shape::Partial => partial(&object),
            Shape::Table(_) => json!({
                "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": metadata["resourceVersion"]},
                "columnDefinitions": [], "rows": [{"cells": [], "object": partial(&object)}],
            }),
        };
        Bytes::from(format!("{}\n", json!({"type": "BOOKMARK", "object": object})))
    }

    /// The last frame of a watch that fails.
    pub(super) fn error(&mut self, status: &Status) {
        let frame = json!({"type": "ERROR", "object": status.to_value()});
        self.buffer.put_slice(format!("{frame}\n").as_bytes());
    }

    /// One change.
    pub(super) fn event(&mut self, kind: WatchKind, object: Object) -> Result<(), Status> {
        let kind = match kind {
            WatchKind::Added => "ADDED",
            WatchKind::Modified => "MODIFIED",
            WatchKind::Deleted => "DELETED",
        };
        self.buffer.put_slice(br#"{"type":""#);
        self.buffer.put_slice(kind.as_bytes());
        self.buffer.put_slice(br#"","object":"#);
        match self.shape {
            Shape::Object => {
                if let Some(large) = object.write_json(&mut self.buffer, false) {
                    self.ready.push_back(self.buffer.split().freeze());
                    self.ready.push_back(large);
                }
            }
            Shape::Partial => self.put(&partial(&object.value()?)),
            Shape::Table(include) => {
                let metadata = json!({"resourceVersion": object.revision.to_string()});
                let rows = [object.value()?];
                let columns = std::mem::take(&mut self.columns);
                let table = table(self.resource, &rows, metadata, include, columns, Timestamp::now());
                self.put(&table);
            }
        }
        self.buffer.put_slice(b"}\n");
        Ok(())
    }

    fn put(&mut self, value: &Value) {
        self.buffer.put_slice(value.to_string().as_bytes());
    }
}
