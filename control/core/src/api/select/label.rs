//! Label selectors, as query text and as typed objects.

use serde_json::Value;

use crate::api::access::{items, text, texts};
use crate::api::names::{label_value, qualified};
use crate::api::status::Status;

/// A parsed label selector: all requirements must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
}

/// One requirement on one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// The key is there with one of the values.
    In(String, Vec<String>),
    /// The key is absent, or has none of the values.
    NotIn(String, Vec<String>),
    /// The key is there.
    Exists(String),
    /// The key is absent.
    Absent(String),
    /// The value is an integer above this.
    Above(String, i64),
    /// The value is an integer below this.
    Below(String, i64),
}

impl Requirement {
    fn holds<'a>(&self, get: impl Fn(&str) -> Option<&'a str>) -> bool {
        let number = |key: &str| get(key).and_then(|v| v.parse::<i64>().ok());
        match self {
            Self::In(key, values) => get(key).is_some_and(|v| values.iter().any(|w| w == v)),
            Self::NotIn(key, values) => get(key).is_none_or(|v| values.iter().all(|w| w != v)),
            Self::Exists(key) => get(key).is_some(),
            Self::Absent(key) => get(key).is_none(),
            Self::Above(key, bound) => number(key).is_some_and(|n| n > *bound),
            Self::Below(key, bound) => number(key).is_some_and(|n| n < *bound),
        }
    }
}

impl LabelSelector {
    /// From the `labelSelector` query parameter; empty selects everything.
    ///
    /// Errors: 400 for bad syntax, keys and values.
    pub fn parse(text: &str) -> Result<Self, Status> {
        let mut parser = Parser { text, rest: text };
        let mut requirements = Vec::new();
        parser.space();
        while !parser.rest.is_empty() {
            requirements.push(parser.requirement()?);
            parser.space();
            if parser.rest.is_empty() {
                break;
            }
            if !parser.eat(",") {
                return Err(parser.fault("want ',' or the end"));
            }
            parser.space();
            if parser.rest.is_empty() {
                return Err(parser.fault("found '', expected: identifier after ','"));
            }
        }
        Ok(Self { requirements })
    }

    /// From a typed `meta/v1` `LabelSelector`. An unknown operator selects nothing.
    pub fn typed(selector: &Value) -> Option<Self> {
        let mut requirements: Vec<Requirement> = texts(&selector["matchLabels"])
            .map(|(key, value)| Requirement::In(key.to_owned(), vec![value.to_owned()]))
            .collect();
        for expression in items(&selector["matchExpressions"]) {
            let key = text(&expression["key"]).to_owned();
            let values = || items(&expression["values"]).iter().map(|v| text(v).to_owned()).collect();
            requirements.push(match text(&expression["operator"]) {
                "In" => Requirement::In(key, values()),
                "NotIn" => Requirement::NotIn(key, values()),
                "Exists" => Requirement::Exists(key),
                "DoesNotExist" => Requirement::Absent(key),
                _ => return None,
            });
        }
        Some(Self { requirements })
    }

    /// Whether it selects everything.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether an object's labels satisfy it.
    pub fn matches(&self, object: &Value) -> bool {
        self.matches_labels(&object["metadata"]["labels"])
    }

    /// Whether a label map satisfies it.
    pub fn matches_labels(&self, labels: &Value) -> bool {
        self.requirements.iter().all(|r| r.holds(|key| labels.get(key).and_then(Value::as_str)))
    }
}

/// Whether a typed selector (`matchLabels`, `matchExpressions`) selects a label map.
pub fn matches_typed(selector: &Value, labels: &Value) -> bool {
    LabelSelector::typed(selector).is_some_and(|selector| selector.matches_labels(labels))
}

struct Parser<'a> {
    text: &'a str,
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn fault(&self, why: &str) -> Status {
        let at = self.text.len() - self.rest.len();
        Status::bad_request(format!(
            "unable to parse requirement: {why} at position {at} of {:?}",
            self.text.chars().take(256).collect::<String>()
        ))
    }

    fn space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn eat(&mut self, token: &str) -> bool {
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// Everything up to white space or a special character.
    fn word(&mut self) -> &'a str {
        let end = self
            .rest
            .find(|c: char| c.is_whitespace() || matches!(c, ',' | '=' | '!' | '(' | ')' | '<' | '>'))
            .unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    fn key(&mut self) -> Result<String, Status> {
        self.space();
        let key = self.word();
        match qualified(key) {
            None => Ok(key.to_owned()),
            Some(complaint) => Err(Status::bad_request(format!(
                "unable to parse requirement: key: Invalid value: {key:?}: {complaint}"
            ))),
        }
    }

    fn value(&mut self, key: &str) -> Result<String, Status> {
        self.space();
        let value = self.word();
        match label_value(value) {
            None => Ok(value.to_owned()),
            Some(complaint) => Err(Status::bad_request(format!(
                "unable to parse requirement: values[0][{key}]: Invalid value: {value:?}: {complaint}"
            ))),
        }
    }

    fn requirement(&mut self) -> Result<Requirement, Status> {
        if self.eat("!") {
            return Ok(Requirement::Absent(self.key()?));
        }
        let key = self.key()?;
        self.space();
        if self.rest.is_empty() || self.rest.starts_with(',') {
            return Ok(Requirement::Exists(key));
        }
        for (operator, equal) in [("==", true), ("=", true), ("!=", false)] {
            if self.eat(operator) {
                let value = self.value(&key)?;
                return Ok(if equal {
                    Requirement::In(key, vec![value])
                } else {
                    Requirement::NotIn(key, vec![value])
                });
            }
        }
        for (operator, above) in [(">", true), ("<", false)] {
            if self.eat(operator) {
                let value = self.value(&key)?;
                let Ok(bound) = value.parse() else {
                    return Err(self.fault("for 'Gt', 'Lt' operators, the value must be an integer"));
                };
                return Ok(if above { Requirement::Above(key, bound) } else { Requirement::Below(key, bound) });
            }
        }
        match self.word() {
            "in" => Ok(Requirement::In(key.clone(), self.values(&key)?)),
            "notin" => Ok(Requirement::NotIn(key.clone(), self.values(&key)?)),
            other => Err(self.fault(&format!("found {other:?}, expected: in, notin, =, ==, !=, gt, lt"))),
        }
    }

    fn values(&mut self, key: &str) -> Result<Vec<String>, Status> {
        self.space();
        if !self.eat("(") {
            return Err(self.fault("expected: '('"));
        }
        let mut values = Vec::new();
        loop {
            values.push(self.value(key)?);
            self.space();
            if self.eat(")") {
                return Ok(values);
            }
            if !self.eat(",") {
                return Err(self.fault("expected: ',' or ')'"));
            }
        }
    }
}
