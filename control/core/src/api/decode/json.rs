//! JSON text to a value, with the keys that were given twice.

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::api::schema::prefix;

/// At most so many duplicates are remembered; a text can hold a million.
const MAX_DUPLICATES: usize = 32;

/// Whether lists and objects are nested more deeply than `limit`. Looks at brackets outside strings only, in one pass
/// without recursion, so that it can be asked before any parser sees the text.
pub(super) fn depth_exceeds(text: &[u8], limit: usize) -> bool {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for &byte in text {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'[' | b'{' => {
                depth += 1;
                if depth > limit {
                    return true;
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

/// The value and the paths of duplicate keys.
pub(super) fn parse(text: &[u8]) -> Result<(Value, Vec<String>), serde_json::Error> {
    let duplicates = RefCell::new(Vec::new());
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let value = Node { duplicates: &duplicates }.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok((value, duplicates.into_inner()))
}

/// Seed of one value. Duplicates are noted relative to it; each level puts its own part in front on the way out.
#[derive(Clone, Copy)]
struct Node<'a> {
    duplicates: &'a RefCell<Vec<String>>,
}

impl Node<'_> {
    fn count(self) -> usize {
        self.duplicates.borrow().len()
    }

    fn prefix(self, from: usize, part: impl Fn() -> String) {
        prefix(&mut self.duplicates.borrow_mut()[from..], part);
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        loop {
            let before = self.count();
            let Some(item) = seq.next_element_seed(self)? else { return Ok(Value::Array(items)) };
            self.prefix(before, || format!("[{}]", items.len()));
            items.push(item);
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            let before = self.count();
            let value = access.next_value_seed(self)?;
            self.prefix(before, || key.clone());
            if map.contains_key(&key) {
                let mut duplicates = self.duplicates.borrow_mut();
                if duplicates.len() < MAX_DUPLICATES && !duplicates.contains(&key) {
                    duplicates.push(key.clone());
                }
            }
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}
