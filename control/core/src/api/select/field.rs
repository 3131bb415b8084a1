//! Field selectors.

use serde_json::Value;

use crate::api::meta;
use crate::api::resource::Resource;
use crate::api::status::Status;

/// A parsed field selector: all terms must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    terms: Vec<Term>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    field: String,
    equal: bool,
    value: String,
}

impl FieldSelector {
    /// From the `fieldSelector` query parameter; empty selects everything.
    ///
    /// Errors: 400 for bad syntax and for fields that the resource does not offer.
    pub fn parse(resource: &Resource, text: &str) -> Result<Self, Status> {
        let mut terms = Vec::new();
        for part in split(text) {
            if part.is_empty() {
                continue;
            }
            let invalid = || Status::bad_request(format!("invalid selector: '{text}'; can't understand '{part}'"));
            let at = part.find(['=', '!']).ok_or_else(invalid)?;
            let (field, rest) = part.split_at(at);
            let (equal, value) = if let Some(value) = rest.strip_prefix("!=") {
                (false, value)
            } else if let Some(value) = rest.strip_prefix("==").or_else(|| rest.strip_prefix('=')) {
                (true, value)
            } else {
                return Err(invalid());
            };
            let known = matches!(field, "metadata.name" | "metadata.namespace")
                || resource.selectable.iter().any(|(name, _)| *name == field);
            if !known {
                return Err(Status::bad_request(format!("field label not supported: {field}")));
            }
            terms.push(Term { field: field.to_owned(), equal, value: unescape(value).ok_or_else(invalid)? });
        }
        Ok(Self { terms })
    }

    /// Whether it selects everything.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether an object's fields satisfy it. The object is in its served form.
    pub fn matches(&self, resource: &Resource, object: &Value) -> bool {
        self.terms.iter().all(|term| {
            let actual = match term.field.as_str() {
                "metadata.name" => meta::name(object).to_owned(),
                "metadata.namespace" => meta::namespace(object).to_owned(),
                field => resource
                    .selectable
                    .iter()
                    .find(|(name, _)| *name == field)
                    .map(|(_, read)| read(object))
                    .unwrap_or_default(),
            };
            (actual == term.value) == term.equal
        })
    }

    /// The value that the selector demands of `metadata.name`, for a direct read.
    pub fn name(&self) -> Option<&str> {
        self.terms.iter().find(|t| t.equal && t.field == "metadata.name").map(|t| t.value.as_str())
    }
}

/// Parts between commas that no backslash precedes.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut escaped) = (Vec::new(), 0, false);
    for (index, character) in text.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                parts.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// A value without its escapes: backslash, comma and equals sign are escaped by a backslash.
fn unescape(value: &str) -> Option<String> {
    let mut out = String::with_capacity(value.len());
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next()? {
                escaped @ ('\\' | ',' | '=') => out.push(escaped),
                _ => return None,
            },
            '=' => return None,
            other => out.push(other),
        }
    }
    Some(out)
}
