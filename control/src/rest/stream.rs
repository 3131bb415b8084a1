//! Lists as bodies, written while they are sent.

use std::convert::Infallible;

use axum::body::Body;
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::stream;
use http::{Response, StatusCode};
use skep_control_core::api::Resource;

use super::{answer, reading};
use crate::api::{List, Object};

/// Small objects are gathered to frames of about this size.
const FRAME: usize = 32 << 10;

/// A list as JSON. Objects are not parsed, and large ones not copied.
pub(super) fn list(resource: &Resource, list: List) -> Response<Body> {
    let mut buffer = BytesMut::with_capacity(1024);
    let head = format!(
        r#"{{"kind":"{}","apiVersion":"{}","metadata":{},"items":["#,
        resource.list_kind(),
        resource.api_version(),
        reading::metadata(&list)
    );
    buffer.put_slice(head.as_bytes());
    let mut frames = Frames { items: list.items.into_iter(), first: true, buffer, ready: None, done: false };
    // A list of one frame has a length, and needs no chunks.
    let Some(one) = frames.next() else { return answer::bytes(StatusCode::OK, answer::JSON, Body::empty()) };
    let body = match frames.next() {
        None => Body::from(one),
        Some(two) => {
            let all = [one, two].into_iter().chain(frames).map(Ok::<_, Infallible>);
            Body::from_stream(stream::iter(all))
        }
    };
    answer::bytes(StatusCode::OK, answer::JSON, body)
}

struct Frames {
    items: std::vec::IntoIter<Object>,
    first: bool,
    buffer: BytesMut,
    /// A large object's bytes, which go behind what is in the buffer.
    ready: Option<Bytes>,
    done: bool,
}

impl Iterator for Frames {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if let Some(ready) = self.ready.take() {
            return Some(ready);
        }
        if self.done {
            return None;
        }
        for object in self.items.by_ref() {
            if !self.first {
                self.buffer.put_u8(b',');
            }
            self.first = false;
            self.ready = object.write_json(&mut self.buffer, true);
            if self.ready.is_some() || self.buffer.len() >= FRAME {
                return Some(self.buffer.split().freeze());
            }
        }
        self.done = true;
        self.buffer.put_slice(b"]}\n");
        Some(self.buffer.split().freeze())
    }
}
