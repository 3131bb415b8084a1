//! The order of a merged list: what the client listed stands as it listed it, what only the server has is put where the
//! live list had it.

use serde_json::Value;

/// What tells elements of a list apart: a key of theirs, or themselves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Identity(pub(super) Option<&'static str>);

impl Identity {
    /// The telling part of an element.
    pub(super) fn of<'a>(&self, element: &'a Value) -> &'a Value {
        match self.0 {
            Some(key) => &element[key],
            None => element,
        }
    }

    /// Whether two elements are the same one.
    pub(super) fn same(&self, a: &Value, b: &Value) -> bool {
        self.of(a) == self.of(b)
    }

    /// Position of the same element in a list.
    pub(super) fn position(&self, list: &[Value], element: &Value) -> Option<usize> {
        list.iter().position(|other| self.same(other, element))
    }
}

/// Orders `merged` by the client's `order` and the `live` list.
pub(super) fn arrange(merged: Vec<Value>, order: &[Value], live: &[Value], identity: Identity) -> Vec<Value> {
    let (mut listed, mut others): (Vec<Value>, Vec<Value>) =
        merged.into_iter().partition(|element| identity.position(order, element).is_some());
    listed.sort_by_key(|element| identity.position(order, element));
    others.sort_by_key(|element| identity.position(live, element).unwrap_or(usize::MAX));
    let mut arranged = Vec::with_capacity(listed.len() + others.len());
    let (mut listed, mut others) = (listed.into_iter().peekable(), others.into_iter().peekable());
    while let (Some(client), Some(server)) = (listed.peek(), others.peek()) {
        let server_first = match (identity.position(live, server), identity.position(live, client)) {
            (Some(server), Some(client)) => server < client,
            _ => false,
        };
        arranged.extend(if server_first { others.next() } else { listed.next() });
    }
    arranged.extend(listed);
    arranged.extend(others);
    arranged
}
