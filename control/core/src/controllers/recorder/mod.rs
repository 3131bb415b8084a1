//! Turns notes into Event objects: a repeated note raises the count of the Event that is there.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use crate::controllers::action::{Note, Write};
use crate::controllers::kind::{Key, Kind};
use crate::controllers::object::Typed;

/// Notes remembered for counting; the oldest are forgotten and would start a new Event.
const REMEMBERED: usize = 4096;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Sameness {
    component: &'static str,
    kind: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    uid: Option<String>,
    reason: &'static str,
    message: String,
}

#[derive(Debug)]
struct Written {
    key: Key,
    count: i32,
}

/// Correlates notes.
#[derive(Debug, Default)]
pub struct Recorder {
    known: HashMap<Sameness, Written>,
    order: VecDeque<Sameness>,
}

impl Recorder {
    /// The write that records a note from a component: a new Event, or a patch of count and time of the one that says the same.
    pub fn record(&mut self, component: &'static str, note: &Note, now: Timestamp) -> Write {
        let regarding = &note.regarding;
        let sameness = Sameness {
            component,
            kind: regarding.kind.clone(),
            namespace: regarding.namespace.clone(),
            name: regarding.name.clone(),
            uid: regarding.uid.clone(),
            reason: note.reason,
            message: note.message.clone(),
        };
        if let Some(written) = self.known.get_mut(&sameness) {
            written.count = written.count.saturating_add(1);
            return Write::Patch {
                target: written.key.clone(),
                subresource: None,
                patch: serde_json::json!({"count": written.count, "lastTimestamp": Time(now)}),
            };
        }
        // Events about cluster-scoped objects live in the default namespace.
        let namespace =
            regarding.namespace.clone().filter(|name| !name.is_empty()).unwrap_or_else(|| "default".to_owned());
        let name = format!("{}.{:x}", regarding.name.as_deref().unwrap_or_default(), now.as_nanosecond());
        self.remember(sameness, Written { key: Key::new(Kind::Event, namespace.clone(), name.clone()), count: 1 });
        let event = Event {
            metadata: ObjectMeta { name: Some(name), namespace: Some(namespace), ..ObjectMeta::default() },
            involved_object: regarding.clone(),
            reason: Some(note.reason.to_owned()),
            message: Some(note.message.clone()),
            type_: Some(note.severity.name().to_owned()),
            source: Some(EventSource { component: Some(component.to_owned()), host: None }),
            reporting_component: Some(component.to_owned()),
            reporting_instance: Some(String::new()),
            first_timestamp: Some(Time(now)),
            last_timestamp: Some(Time(now)),
            count: Some(1),
            ..Event::default()
        };
        Write::Create(event.into_object())
    }

    fn remember(&mut self, sameness: Sameness, written: Written) {
        while self.order.len() >= REMEMBERED {
            if let Some(oldest) = self.order.pop_front() {
                self.known.remove(&oldest);
            }
        }
        self.order.push_back(sameness.clone());
        self.known.insert(sameness, written);
    }

    /// Forgets an Event that is not there any more (expired or deleted): the next note like it starts a new one.
    pub fn forget(&mut self, event: &Key) {
        self.known.retain(|_, written| written.key != *event);
        let known = &self.known;
        self.order.retain(|sameness| known.contains_key(sameness));
    }
}
