//! Strategic merge patch: a merge patch that knows which lists are maps or sets.
//!
//! Directives inside a patch:
//!
//! ```text
//! $patch: replace | delete | merge          in a map: replace it, empty it; in a list's element: delete the one it
//!                                           names, or replace the whole list by the other elements
//! $retainKeys: [k, ...]                     keys of the map that stay
//! $setElementOrder/F: [...]                 order of the merged list F
//! $deleteFromPrimitiveList/F: [...]         scalars to take out of F
//! ```

use serde_json::{Map, Value};

use super::order::{Identity, arrange};
use super::rejected;
use crate::api::access::{items, text};
use crate::api::schema::{Field, Merge, Shape, Type, schema};
use crate::api::status::Status;

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const SET_ORDER: &str = "$setElementOrder/";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";

/// Applies a patch to an object of a known kind.
pub(super) fn apply(object: &mut Value, patch: Value) -> Result<(), Status> {
    let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
    let group = version.split_once('/').map_or("", |(group, _)| group);
    let shape = match schema().of_kind(group, kind) {
        Some(id) => Shape::Object(id),
        None => Shape::Any,
    };
    if let (Value::Object(map), Value::Object(patch)) = (object, patch) {
        merge_map(map, patch, &shape)?;
    }
    Ok(())
}

fn bad(what: &str) -> Status {
    Status::bad_request(format!("error decoding patch: {what}"))
}

/// The type behind a shape, when it is an object of known fields.
fn type_of(shape: &Shape) -> Option<&'static Type> {
    match shape {
        Shape::Object(id) => Some(schema().get(*id)),
        _ => None,
    }
}

/// Shape of the value of a key: a field's, or that of a map's values.
fn value_shape<'a>(shape: &'a Shape, field: Option<&'a Field>) -> &'a Shape {
    match (shape, field) {
        (_, Some(field)) => &field.shape,
        (Shape::Map(inner), None) => inner,
        _ => &Shape::Any,
    }
}

fn merge_map(object: &mut Map<String, Value>, mut patch: Map<String, Value>, shape: &Shape) -> Result<(), Status> {
    match patch.remove(PATCH).as_ref().map(text) {
        None | Some("merge") => {}
        Some("replace") => {
            *object = without_directives(patch);
            return Ok(());
        }
        Some("delete") => {
            object.clear();
            return Ok(());
        }
        Some(other) => return Err(bad(&format!("unknown patch type: {other:?}"))),
    }
    if let Some(keys) = patch.remove(RETAIN_KEYS) {
        retain_keys(object, &patch, &keys)?;
    }
    let known = type_of(shape);
    let merge = |field: &str| known.and_then(|t| t.field(field)).map(|f| f.merge.clone()).unwrap_or_default();
    let mut orders = Map::new();
    for (key, value) in std::mem::take(&mut patch) {
        if let Some(field) = key.strip_prefix(SET_ORDER) {
            if !value.is_array() {
                return Err(bad("a $setElementOrder directive must be a list"));
            }
            orders.insert(field.to_owned(), value);
        } else if let Some(field) = key.strip_prefix(DELETE_FROM) {
            let Value::Array(gone) = value else {
                return Err(bad("a $deleteFromPrimitiveList directive must be a list"));
            };
            if let Some(Value::Array(list)) = object.get_mut(field) {
                list.retain(|element| !gone.contains(element));
            }
        } else {
            patch.insert(key, value);
        }
    }
    let live: Vec<(String, Vec<Value>)> =
        orders.keys().map(|field| (field.clone(), object.get(field).map(items).unwrap_or_default().to_vec())).collect();
    for (key, value) in patch {
        merge_field(object, &key, value, known.and_then(|t| t.field(&key)), shape)?;
    }
    for (field, live) in live {
        let Some(Value::Array(list)) = object.get_mut(&field) else { continue };
        let merge = merge(&field);
        if merge.merge {
            let merged = std::mem::take(list);
            *list = arrange(merged, items(&orders[&field]), &live, Identity(merge.key));
        }
    }
    Ok(())
}

/// Drops the keys that the client does not name, before the patch is merged.
fn retain_keys(object: &mut Map<String, Value>, patch: &Map<String, Value>, keys: &Value) -> Result<(), Status> {
    let Value::Array(keys) = keys else { return Err(bad("a $retainKeys directive must be a list")) };
    let named = |key: &str| keys.iter().any(|k| k == key);
    if let Some(stray) = patch.iter().find(|(key, value)| !value.is_null() && !key.starts_with('$') && !named(key)) {
        return Err(bad(&format!("{:?} is set but not listed in $retainKeys", stray.0)));
    }
    object.retain(|key, _| named(key));
    Ok(())
}

fn merge_field(
    object: &mut Map<String, Value>,
    key: &str,
    value: Value,
    field: Option<&Field>,
    shape: &Shape,
) -> Result<(), Status> {
    let inner = value_shape(shape, field);
    match value {
        Value::Null => {
            object.remove(key);
        }
        Value::Object(patch) => {
            let target = object.entry(key).or_insert_with(|| Value::Object(Map::new()));
            if !target.is_object() {
                *target = Value::Object(Map::new());
            }
            if let Value::Object(target) = target {
                merge_map(target, patch, inner)?;
            }
        }
        Value::Array(patch) => {
            let element = match inner {
                Shape::List(element) => element,
                _ => &Shape::Any,
            };
            let merge = field.map(|f| f.merge.clone()).unwrap_or_default();
            let current = match object.remove(key) {
                Some(Value::Array(list)) => list,
                _ => Vec::new(),
            };
            object.insert(key.to_owned(), Value::Array(merge_list(current, patch, &merge, element)?));
        }
        scalar => {
            object.insert(key.to_owned(), scalar);
        }
    }
    Ok(())
}

fn merge_list(mut list: Vec<Value>, patch: Vec<Value>, merge: &Merge, element: &Shape) -> Result<Vec<Value>, Status> {
    let replaces = |e: &Value| text(&e[PATCH]) == "replace";
    if !merge.merge || patch.iter().any(replaces) {
        let kept = patch.into_iter().filter(|e| !replaces(e) && text(&e[PATCH]) != "delete");
        return Ok(kept.map(clean).collect());
    }
    let identity = Identity(merge.key);
    let Some(key) = merge.key else {
        for value in patch {
            if !list.contains(&value) {
                list.push(value);
            }
        }
        return Ok(list);
    };
    for value in patch {
        let Value::Object(mut patch) = value else {
            return Err(rejected(format!("elements of a list with merge key {key:?} must be objects")));
        };
        let Some(wanted) = patch.get(key).cloned() else {
            return Err(rejected(format!("map does not contain declared merge key: {key}")));
        };
        match patch.get(PATCH).map(text) {
            Some("delete") => {
                list.retain(|e| *identity.of(e) != wanted);
                continue;
            }
            Some("merge") => {
                patch.remove(PATCH);
            }
            _ => {}
        }
        // All elements of that key are one to a merge; the first of them takes it.
        if let Some(Value::Object(target)) = list.iter_mut().find(|e| *identity.of(e) == wanted) {
            merge_map(target, patch, element)?;
        } else {
            let mut fresh = Map::new();
            merge_map(&mut fresh, patch, element)?;
            list.push(Value::Object(fresh));
        }
    }
    Ok(list)
}

fn without_directives(map: Map<String, Value>) -> Map<String, Value> {
    map.into_iter()
        .filter(|(key, value)| !value.is_null() && key != PATCH && key != RETAIN_KEYS)
        .filter(|(key, _)| !key.starts_with(SET_ORDER) && !key.starts_with(DELETE_FROM))
        .map(|(key, value)| (key, clean(value)))
        .collect()
}

fn clean(value: Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(without_directives(map)),
        Value::Array(list) => Value::Array(list.into_iter().map(clean).collect()),
        scalar => scalar,
    }
}
