//! Reading and filling objects whose shape the schema has already checked. Whatever is not there reads as empty.

use serde_json::{Map, Value};

use super::meta::map_mut;

/// Text, or empty.
pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Elements, or none.
pub(crate) fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Entries, or none.
pub(crate) fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

/// Entries whose values are text, or none.
pub(crate) fn texts(value: &Value) -> impl Iterator<Item = (&str, &str)> {
    entries(value).map(|(k, v)| (k.as_str(), text(v)))
}

/// Whether there is nothing: absent, null, empty text, list or object.
pub(crate) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(s) => s.is_empty(),
        Value::Array(a) => a.is_empty(),
        Value::Object(m) => m.is_empty(),
        _ => false,
    }
}

/// The child map of that name, made when it is not there.
pub(crate) fn child<'a>(value: &'a mut Value, field: &str) -> &'a mut Value {
    map_mut(value).entry(field).or_insert_with(|| Value::Object(Map::new()))
}

/// Sets a field that is absent or empty text.
pub(crate) fn fill(value: &mut Value, field: &str, default: impl Into<Value>) {
    let map = map_mut(value);
    match map.get(field) {
        None | Some(Value::Null) => {}
        Some(Value::String(s)) if s.is_empty() => {}
        Some(_) => return,
    }
    map.insert(field.to_owned(), default.into());
}

/// Sets a field.
pub(crate) fn set(value: &mut Value, field: &str, to: impl Into<Value>) {
    map_mut(value).insert(field.to_owned(), to.into());
}

/// Sets a field to a copy, or removes it when the copy is of nothing.
pub(crate) fn carry(to: &mut Value, from: &Value, field: &str) {
    match from.get(field) {
        Some(value) => set(to, field, value.clone()),
        None => remove(to, field),
    }
}

/// Removes a field.
pub(crate) fn remove(value: &mut Value, field: &str) {
    if let Some(map) = value.as_object_mut() {
        map.remove(field);
    }
}

/// A field that is there, for changes in place.
pub(crate) fn existing<'a>(value: &'a mut Value, field: &str) -> Option<&'a mut Value> {
    value.get_mut(field).filter(|v| !v.is_null())
}

/// The elements of a list field, for changes in place.
pub(crate) fn items_mut<'a>(value: &'a mut Value, field: &str) -> impl Iterator<Item = &'a mut Value> {
    value.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten()
}
