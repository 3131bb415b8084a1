//! Objects as protobuf, which typed clients send as `application/vnd.kubernetes.protobuf`.
//!
//! ```text
//! "k8s\0"  Unknown { 1: TypeMeta { 1: apiVersion, 2: kind }, 2: the object's message, 3: encoding, 4: media type }
//! ```
//!
//! The object's message is read by the field numbers of the schema tables. Encoders write zero values of all fields that
//! are no pointers; those that say nothing are dropped, so that the object equals the same one sent as JSON.

use serde_json::{Map, Number as JsonNumber, Value};

use super::{Document, MAX_BODY, MAX_DEPTH, parse_json};
use crate::api::base64;
use crate::api::schema::{Field, Number, Shape, TypeId, schema};
use crate::api::status::Status;

const MAGIC: &[u8] = b"k8s\0";

/// Parses a protobuf body.
///
/// Errors: 413 for more than [`MAX_BODY`] bytes, 400 for anything malformed, of an unknown kind, or nested too deeply.
pub fn parse_protobuf(body: &[u8]) -> Result<Document, Status> {
    if body.len() > MAX_BODY {
        return Err(Status::too_large(MAX_BODY));
    }
    read(body).map_err(|fault| Status::bad_request(format!("couldn't get version/kind; protobuf parse error: {fault}")))
}

/// Why bytes are not the object they should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Fault {
    #[error("the body does not begin with the protobuf magic number")]
    Magic,
    #[error("unexpected end")]
    End,
    #[error("a varint is too long")]
    Varint,
    #[error("unknown wire type {0}")]
    WireType(u64),
    #[error("no kind {kind:?} in version {version:?} is known")]
    Kind { version: String, kind: String },
    #[error("text is not UTF-8")]
    Utf8,
    #[error("field {0} has another type on the wire")]
    Mismatch(&'static str),
    #[error("exceeded max depth of {MAX_DEPTH}")]
    Depth,
    #[error("a time is out of range")]
    Time,
    #[error("embedded JSON is malformed")]
    Embedded,
}

fn read(body: &[u8]) -> Result<Document, Fault> {
    let mut envelope = Reader(body.strip_prefix(MAGIC).ok_or(Fault::Magic)?);
    let (mut version, mut kind, mut raw): (String, String, &[u8]) = (String::new(), String::new(), &[]);
    while let Some((number, wire)) = envelope.next()? {
        match (number, wire) {
            (1, Wire::Bytes(bytes)) => {
                let mut meta = Reader(bytes);
                while let Some((number, wire)) = meta.next()? {
                    match (number, wire) {
                        (1, Wire::Bytes(bytes)) => version = utf8(bytes)?,
                        (2, Wire::Bytes(bytes)) => kind = utf8(bytes)?,
                        _ => {}
                    }
                }
            }
            (2, Wire::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    let group = version.split_once('/').map_or("", |(group, _)| group);
    let Some(id) = schema().of_kind(group, &kind).or_else(|| schema().of_options(&kind)) else {
        return Err(Fault::Kind { version, kind });
    };
    let mut object = Map::new();
    message(id, None, raw, &mut object, MAX_DEPTH)?;
    object.insert("apiVersion".into(), version.into());
    object.insert("kind".into(), kind.into());
    Ok(Document { value: Value::Object(object), duplicates: Vec::new() })
}

/// Reads a message of a type, or (with `inline`) the message at that number whose fields JSON has inline.
fn message(
    id: TypeId,
    inline: Option<u32>,
    bytes: &[u8],
    into: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), Fault> {
    let depth = depth.checked_sub(1).ok_or(Fault::Depth)?;
    let kind = schema().get(id);
    let mut reader = Reader(bytes);
    while let Some((number, wire)) = reader.next()? {
        let wanted = match inline {
            None => Number::Own(number),
            Some(outer) => Number::Inline(outer, number),
        };
        if let Some(field) = kind.fields.iter().find(|f| f.number == Some(wanted)) {
            add(field, wire, into, depth)?;
        } else if let Wire::Bytes(bytes) = wire {
            let is_outer = |f: &Field| matches!(f.number, Some(Number::Inline(outer, _)) if outer == number);
            if inline.is_none() && kind.fields.iter().any(is_outer) {
                message(id, Some(number), bytes, into, depth)?;
            }
        }
    }
    Ok(())
}

/// Puts one occurrence of a field into its object.
fn add(field: &Field, wire: Wire<'_>, into: &mut Map<String, Value>, depth: usize) -> Result<(), Fault> {
    match &field.shape {
        Shape::List(inner) => {
            let list = into.entry(field.name).or_insert_with(|| Value::Array(Vec::new()));
            let Value::Array(list) = list else { return Err(Fault::Mismatch(field.name)) };
            match (&**inner, wire) {
                // Numbers may come packed.
                (Shape::Int32 | Shape::Int64, Wire::Bytes(bytes)) => {
                    let mut reader = Reader(bytes);
                    while !reader.0.is_empty() {
                        list.push(reader.varint()?.cast_signed().into());
                    }
                }
                (inner, wire) => list.push(value(field, inner, wire, depth)?),
            }
        }
        Shape::Map(inner) => {
            let Wire::Bytes(bytes) = wire else { return Err(Fault::Mismatch(field.name)) };
            let (mut key, mut item) = (String::new(), None);
            let mut reader = Reader(bytes);
            while let Some((number, wire)) = reader.next()? {
                match (number, wire) {
                    (1, Wire::Bytes(bytes)) => key = utf8(bytes)?,
                    (2, wire) => item = Some(value(field, inner, wire, depth)?),
                    _ => {}
                }
            }
            let map = into.entry(field.name).or_insert_with(|| Value::Object(Map::new()));
            let Value::Object(map) = map else { return Err(Fault::Mismatch(field.name)) };
            map.insert(key, item.unwrap_or_else(|| Value::from("")));
        }
        shape => {
            let value = value(field, shape, wire, depth)?;
            let silent = match &value {
                Value::Null => true,
                Value::String(text) => text.is_empty(),
                Value::Bool(set) => !set,
                Value::Number(number) => number.as_i64() == Some(0) && *shape != Shape::IntOrString,
                _ => false,
            };
            if !silent || ((field.keeps_zero || field.required) && !value.is_null()) {
                into.insert(field.name.to_owned(), value);
            }
        }
    }
    Ok(())
}

/// One value of a shape.
fn value(field: &Field, shape: &Shape, wire: Wire<'_>, depth: usize) -> Result<Value, Fault> {
    let mismatch = Fault::Mismatch(field.name);
    Ok(match (shape, wire) {
        (Shape::String, Wire::Bytes(bytes)) => utf8(bytes)?.into(),
        (Shape::Bytes, Wire::Bytes(bytes)) => base64::encode(bytes).into(),
        (Shape::Int32 | Shape::Int64, Wire::Varint(number)) => number.cast_signed().into(),
        (Shape::Bool, Wire::Varint(number)) => (number != 0).into(),
        (Shape::Double, Wire::Fixed64(bits)) => {
            JsonNumber::from_f64(f64::from_bits(bits)).map(Value::Number).ok_or(mismatch)?
        }
        (Shape::Quantity, Wire::Bytes(bytes)) => match text_at(bytes, 1)? {
            text if text.is_empty() => "0".into(),
            text => text.into(),
        },
        (Shape::IntOrString, Wire::Bytes(bytes)) => {
            let (mut is_text, mut number, mut text) = (false, 0, String::new());
            let mut reader = Reader(bytes);
            while let Some((field, wire)) = reader.next()? {
                match (field, wire) {
                    (1, Wire::Varint(kind)) => is_text = kind == 1,
                    (2, Wire::Varint(value)) => number = value.cast_signed(),
                    (3, Wire::Bytes(bytes)) => text = utf8(bytes)?,
                    _ => {}
                }
            }
            if is_text { text.into() } else { number.into() }
        }
        (Shape::Time | Shape::MicroTime, Wire::Bytes(bytes)) => time(shape, bytes)?,
        (Shape::Any, Wire::Bytes(bytes)) => {
            let mut reader = Reader(bytes);
            match reader.next()? {
                Some((1, Wire::Bytes(json))) => parse_json(json).map_err(|_| Fault::Embedded)?.value,
                _ => Value::Null,
            }
        }
        (Shape::Object(id), Wire::Bytes(bytes)) => {
            let mut object = Map::new();
            message(*id, None, bytes, &mut object, depth)?;
            Value::Object(object)
        }
        _ => return Err(mismatch),
    })
}

/// `Timestamp` { 1: seconds, 2: nanoseconds }; an empty one is no time.
fn time(shape: &Shape, bytes: &[u8]) -> Result<Value, Fault> {
    let (mut seconds, mut nanos) = (0, 0);
    let mut reader = Reader(bytes);
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    while let Some((number, wire)) = reader.next()? {
        match (number, wire) {
            (1, Wire::Varint(value)) => seconds = value.cast_signed(),
            (2, Wire::Varint(value)) => nanos = value.cast_signed(),
            _ => {}
        }
    }
    let nanos = i32::try_from(nanos).map_err(|_| Fault::Time)?;
    let time = jiff::Timestamp::new(seconds, nanos).map_err(|_| Fault::Time)?;
    let format = if *shape == Shape::MicroTime { "%Y-%m-%dT%H:%M:%S%.6fZ" } else { "%Y-%m-%dT%H:%M:%SZ" };
    Ok(time.strftime(format).to_string().into())
}

/// The text at one number of a message, or empty.
fn text_at(bytes: &[u8], wanted: u32) -> Result<String, Fault> {
    let mut reader = Reader(bytes);
    let mut text = String::new();
    while let Some((number, wire)) = reader.next()? {
        if let (true, Wire::Bytes(bytes)) = (number == wanted, wire) {
            text = utf8(bytes)?;
        }
    }
    Ok(text)
}

fn utf8(bytes: &[u8]) -> Result<String, Fault> {
    std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| Fault::Utf8)
}

/// A value as the wire has it.
enum Wire<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32,
    Bytes(&'a [u8]),
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Number and value of the next field.
    fn next(&mut self) -> Result<Option<(u32, Wire<'a>)>, Fault> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).map_err(|_| Fault::Varint)?;
        let wire = match tag & 7 {
            0 => Wire::Varint(self.varint()?),
            1 => {
                let bytes = self.take(8)?;
                Wire::Fixed64(bytes.iter().rev().fold(0, |bits, byte| bits << 8 | u64::from(*byte)))
            }
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| Fault::End)?;
                Wire::Bytes(self.take(length)?)
            }
            5 => {
                self.take(4)?;
                Wire::Fixed32
            }
            other => return Err(Fault::WireType(other)),
        };
        Ok(Some((number, wire)))
    }

    fn varint(&mut self) -> Result<u64, Fault> {
        let mut value = 0;
        for (index, byte) in self.0.iter().take(10).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * index);
            if *byte < 0x80 {
                self.0 = &self.0[index + 1..];
                return Ok(value);
            }
        }
        Err(if self.0.len() < 10 { Fault::End } else { Fault::Varint })
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], Fault> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Fault::End)?;
        self.0 = rest;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests;
