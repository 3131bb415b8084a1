//! The v2 document as protobuf, for clients that ask for `application/com.github.proto-openapi.spec.v2@v1.0+protobuf`.
//!
//! The messages are those of the `openapi.v2` package (gnostic's `OpenAPIv2.proto`); each function below writes the
//! parts of one message that the document has. Field numbers stand beside the names they belong to.

use serde_json::Value;

use crate::api::access::{entries, items, text};

/// Message `Document`.
pub(super) fn document(document: &Value) -> Vec<u8> {
    let mut out = Message::default();
    out.text(1, text(&document["swagger"]));
    let mut info = Message::default();
    info.text(1, text(&document["info"]["title"]));
    info.text(2, text(&document["info"]["version"]));
    out.message(2, &info);
    let mut paths = Message::default();
    for (name, path) in entries(&document["paths"]) {
        paths.message(2, &named(name, &path_item(path)));
    }
    out.message(8, &paths);
    let mut definitions = Message::default();
    for (name, definition) in entries(&document["definitions"]) {
        definitions.message(1, &named(name, &schema(definition)));
    }
    out.message(9, &definitions);
    out.0
}

/// Any `Named...` message: a name and a value.
fn named(name: &str, value: &Message) -> Message {
    let mut out = Message::default();
    out.text(1, name);
    out.message(2, value);
    out
}

/// Message `PathItem`.
fn path_item(path: &Value) -> Message {
    let mut out = Message::default();
    for (field, method) in [(2, "get"), (3, "put"), (4, "post"), (5, "delete"), (8, "patch")] {
        if !path[method].is_null() {
            out.message(field, &operation(&path[method]));
        }
    }
    for parameter in items(&path["parameters"]) {
        out.message(9, &parameters_item(parameter));
    }
    out
}

/// Message `Operation`.
fn operation(operation: &Value) -> Message {
    let mut out = Message::default();
    out.text(5, text(&operation["operationId"]));
    for media in items(&operation["consumes"]) {
        out.text(7, text(media));
    }
    for parameter in items(&operation["parameters"]) {
        out.message(8, &parameters_item(parameter));
    }
    let mut responses = Message::default();
    for (code, response) in entries(&operation["responses"]) {
        let mut described = Message::default();
        described.text(1, text(&response["description"]));
        responses.message(1, &named(code, &wrapped(1, &described)));
    }
    out.message(9, &responses);
    extensions(&mut out, 13, operation);
    out
}

/// Message `ParametersItem` around `Parameter` around the sort of parameter it is.
fn parameters_item(parameter: &Value) -> Message {
    let mut out = Message::default();
    let (name, place) = (text(&parameter["name"]), text(&parameter["in"]));
    let inner = if place == "body" {
        out.text(2, name);
        out.text(3, place);
        out.flag(4, parameter["required"] == true);
        out.message(5, &schema(&parameter["schema"]));
        wrapped(1, &out)
    } else {
        // Query and path parameters differ in the numbers of what follows the name.
        let (kind_field, choice) = if place == "query" { (6, 3) } else { (5, 4) };
        out.flag(1, parameter["required"] == true);
        out.text(2, place);
        out.text(4, name);
        out.text(kind_field, text(&parameter["type"]));
        wrapped(2, &wrapped(choice, &out))
    };
    wrapped(1, &inner)
}

/// A message whose only field is another one.
fn wrapped(field: u32, inner: &Message) -> Message {
    let mut out = Message::default();
    out.message(field, inner);
    out
}

/// Message `Schema`.
fn schema(definition: &Value) -> Message {
    let mut out = Message::default();
    out.text(1, text(&definition["$ref"]));
    out.text(2, text(&definition["format"]));
    out.text(4, text(&definition["description"]));
    for field in items(&definition["required"]) {
        out.text(19, text(field));
    }
    if !definition["additionalProperties"].is_null() {
        out.message(21, &wrapped(1, &schema(&definition["additionalProperties"])));
    }
    if !definition["type"].is_null() {
        let mut kind = Message::default();
        kind.text(1, text(&definition["type"]));
        out.message(22, &kind);
    }
    if !definition["items"].is_null() {
        out.message(23, &wrapped(1, &schema(&definition["items"])));
    }
    if definition["properties"].is_object() {
        let mut properties = Message::default();
        for (name, property) in entries(&definition["properties"]) {
            properties.message(1, &named(name, &schema(property)));
        }
        out.message(25, &properties);
    }
    extensions(&mut out, 31, definition);
    out
}

/// `x-...` entries, as `NamedAny` with YAML text inside (JSON is YAML).
fn extensions(out: &mut Message, field: u32, value: &Value) {
    for (name, extension) in entries(value).filter(|(name, _)| name.starts_with("x-")) {
        let mut any = Message::default();
        any.text(2, &extension.to_string());
        out.message(field, &named(name, &any));
    }
}

/// Bytes of a protobuf message.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// Empty text is the default and is left out.
    fn text(&mut self, field: u32, text: &str) {
        if !text.is_empty() {
            self.bytes(field, text.as_bytes());
        }
    }

    fn flag(&mut self, field: u32, value: bool) {
        if value {
            self.varint(u64::from(field) << 3);
            self.varint(1);
        }
    }

    fn message(&mut self, field: u32, message: &Self) {
        self.bytes(field, &message.0);
    }
}
