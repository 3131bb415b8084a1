//! Holds a value against a shape: unknown fields, wrong types, nulls.

use serde_json::{Map, Value};

use super::{Schema, Shape, Type, TypeId};
use crate::api::quantity;

/// What was found and done while holding a value against a type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Check {
    /// Paths of fields that the type does not have; they are gone from the value.
    pub unknown: Vec<String>,
}

/// The first value of a wrong type, in the wording that Kubernetes clients are used to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TypeFault {
    /// A JSON type other than the field's.
    #[error("json: cannot unmarshal {found} into Go struct field {owner}.{path} of type {wanted}")]
    Mismatch {
        /// JSON type found.
        found: String,
        /// Type whose field it is.
        owner: &'static str,
        /// Path of names from the root, without indices.
        path: String,
        /// Wanted type.
        wanted: String,
    },
    /// The whole is no object.
    #[error("json: cannot unmarshal {found} into Go value of type {wanted}")]
    Root {
        /// JSON type found.
        found: String,
        /// Wanted type.
        wanted: String,
    },
    /// A malformed quantity.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Quantity,
    /// A malformed time.
    #[error("parsing time {0:?}: want RFC 3339")]
    Time(String),
    /// Malformed base64.
    #[error("illegal base64 data at input byte {0}")]
    Base64(usize),
}

impl Check {
    /// Checks `value` in place: drops unknown fields (noting them) and nulls.
    pub fn run(schema: &Schema, root: TypeId, value: &mut Value) -> Result<Self, TypeFault> {
        let mut walk = Walk { schema, unknown: Vec::new(), names: Vec::new(), owner: "" };
        let root_type = schema.get(root);
        match value {
            Value::Object(map) => walk.object(root_type, map)?,
            other => return Err(TypeFault::Root { found: describe(other), wanted: go_object(root_type) }),
        }
        Ok(Self { unknown: walk.unknown })
    }
}

struct Walk<'a> {
    schema: &'a Schema,
    /// Unknown fields, relative to what is being walked: each level puts its own part in front on the way out, so that
    /// an object without any costs no paths.
    unknown: Vec<String>,
    /// Field names from the root, for type faults.
    names: Vec<&'static str>,
    /// Type that the last of `names` belongs to.
    owner: &'static str,
}

impl Walk<'_> {
    fn object(&mut self, kind: &Type, map: &mut Map<String, Value>) -> Result<(), TypeFault> {
        let mut dropped = Vec::new();
        for (key, value) in map.iter_mut() {
            let Some(field) = kind.field(key) else {
                self.unknown.push(key.clone());
                dropped.push(key.clone());
                continue;
            };
            if value.is_null() && field.shape != Shape::Any {
                dropped.push(key.clone());
                continue;
            }
            let owner = std::mem::replace(&mut self.owner, kind.name);
            self.names.push(field.name);
            let before = self.unknown.len();
            self.value(&field.shape, value)?;
            prefix(&mut self.unknown[before..], || key.clone());
            self.names.pop();
            self.owner = owner;
        }
        for key in dropped {
            map.remove(&key);
        }
        Ok(())
    }

    fn value(&mut self, shape: &Shape, value: &mut Value) -> Result<(), TypeFault> {
        match (shape, &mut *value) {
            (Shape::Any, _)
            | (Shape::String, Value::String(_))
            | (Shape::Bool, Value::Bool(_))
            | (Shape::Double, Value::Number(_))
            | (Shape::IntOrString, Value::String(_)) => Ok(()),
            (Shape::Int64, Value::Number(n)) if n.is_i64() => Ok(()),
            (Shape::Int32 | Shape::IntOrString, Value::Number(n))
                if n.as_i64().is_some_and(|n| i32::try_from(n).is_ok()) =>
            {
                Ok(())
            }
            (Shape::Bytes, Value::String(text)) => check_base64(text),
            (Shape::Quantity, Value::String(text)) => {
                *text = quantity::parse(text).map_err(|_| TypeFault::Quantity)?.to_string();
                Ok(())
            }
            (Shape::Quantity, Value::Number(n)) => {
                let quantity = quantity::parse(&n.to_string()).map_err(|_| TypeFault::Quantity)?;
                *value = Value::String(quantity.to_string());
                Ok(())
            }
            (Shape::Time | Shape::MicroTime, Value::String(text)) => match text.parse::<jiff::Timestamp>() {
                Ok(_) => Ok(()),
                Err(_) => Err(TypeFault::Time(text.clone())),
            },
            (Shape::Object(id), Value::Object(map)) => {
                let schema = self.schema;
                self.object(schema.get(*id), map)
            }
            (Shape::List(inner), Value::Array(items)) => {
                for (index, item) in items.iter_mut().enumerate() {
                    if item.is_null() {
                        *item = zero(inner);
                    }
                    let before = self.unknown.len();
                    self.value(inner, item)?;
                    prefix(&mut self.unknown[before..], || format!("[{index}]"));
                }
                Ok(())
            }
            (Shape::Map(inner), Value::Object(map)) => {
                for (key, item) in map.iter_mut() {
                    if item.is_null() {
                        *item = zero(inner);
                    }
                    let before = self.unknown.len();
                    self.value(inner, item)?;
                    prefix(&mut self.unknown[before..], || key.clone());
                }
                Ok(())
            }
            (shape, found) => Err(TypeFault::Mismatch {
                found: describe(found),
                owner: self.owner,
                path: self.names.join("."),
                wanted: go_type(self.schema, shape),
            }),
        }
    }
}

/// Puts one more part in front of relative paths.
pub(in crate::api) fn prefix(paths: &mut [String], part: impl Fn() -> String) {
    for path in paths {
        let dot = if path.starts_with('[') { "" } else { "." };
        *path = format!("{}{dot}{path}", part());
    }
}

/// What a null element decodes to.
fn zero(shape: &Shape) -> Value {
    match shape {
        Shape::String | Shape::Bytes => Value::from(""),
        Shape::Quantity => Value::from("0"),
        Shape::Int32 | Shape::Int64 | Shape::Double | Shape::IntOrString => Value::from(0),
        Shape::Bool => Value::from(false),
        Shape::Object(_) | Shape::Map(_) => Value::Object(Map::new()),
        Shape::List(_) => Value::Array(Vec::new()),
        Shape::Time | Shape::MicroTime | Shape::Any => Value::Null,
    }
}

fn describe(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(_) => "bool".into(),
        Value::Number(n) if n.is_f64() => format!("number {n}"),
        Value::Number(n) if n.as_i64().is_some_and(|n| i32::try_from(n).is_ok()) => "number".into(),
        Value::Number(n) => format!("number {n}"),
        Value::String(_) => "string".into(),
        Value::Array(_) => "array".into(),
        Value::Object(_) => "object".into(),
    }
}

fn go_object(kind: &Type) -> String {
    let version = kind.package.rsplit('.').next().unwrap_or_default();
    format!("{version}.{}", kind.name)
}

fn go_type(schema: &Schema, shape: &Shape) -> String {
    match shape {
        Shape::String => "string".into(),
        Shape::Int32 | Shape::IntOrString => "int32".into(),
        Shape::Int64 => "int64".into(),
        Shape::Bool => "bool".into(),
        Shape::Double => "float64".into(),
        Shape::Bytes => "[]uint8".into(),
        Shape::Quantity => "resource.Quantity".into(),
        Shape::Time => "v1.Time".into(),
        Shape::MicroTime => "v1.MicroTime".into(),
        Shape::Any => "interface {}".into(),
        Shape::Object(id) => go_object(schema.get(*id)),
        Shape::List(inner) => format!("[]{}", go_type(schema, inner)),
        Shape::Map(inner) => format!("map[string]{}", go_type(schema, inner)),
    }
}

/// Standard alphabet with padding; line breaks are let through, as Go's decoder does.
fn check_base64(text: &str) -> Result<(), TypeFault> {
    let mut symbols = 0_usize;
    let mut padding = 0_usize;
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'\r' | b'\n' => {}
            b'=' if symbols % 4 >= 2 || padding > 0 => padding += 1,
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/' if padding == 0 => symbols += 1,
            _ => return Err(TypeFault::Base64(index)),
        }
    }
    if (symbols + padding).is_multiple_of(4) && padding <= 2 { Ok(()) } else { Err(TypeFault::Base64(text.len())) }
}
