//! Recording Events. An event that comes again is counted instead of written anew.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use serde_json::{Value, json};
use skep_control_core::api::Status as ApiStatus;
use skep_proto::node::v1::{Event, ReportEventsRequest};
use tonic::Status;

use super::super::failure;
use super::NodeDoor;
use super::lease::time;
use crate::api::WriteOptions;

/// Distinct events that are remembered; one that was forgotten is written anew when it comes again.
const REMEMBERED: usize = 4096;
/// Events of one report.
const MAX_EVENTS: usize = 1000;
/// Bytes of a message that are kept.
const MAX_MESSAGE: usize = 1024;
/// Bytes of an object's name in an Event's own name, which may have 253 altogether.
const MAX_NAME: usize = 230;

/// Which Event object an event is counted in: everything that must be the same.
type Same = (String, Event);

/// What was recorded lately.
#[derive(Debug, Default)]
pub(super) struct Aggregator {
    recent: Mutex<Recent>,
}

#[derive(Debug, Default)]
struct Recent {
    names: HashMap<Same, String>,
    order: VecDeque<Same>,
}

impl Aggregator {
    fn name(&self, same: &Same) -> Option<String> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner).names.get(same).cloned()
    }

    fn remember(&self, same: Same, name: String) {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if recent.names.insert(same.clone(), name).is_none() {
            recent.order.push_back(same);
        }
        if recent.order.len() > REMEMBERED
            && let Some(oldest) = recent.order.pop_front()
        {
            recent.names.remove(&oldest);
        }
    }
}

impl NodeDoor {
    /// Records each event. One that the API refuses (its namespace is gone) is dropped: it is not worth more.
    pub(super) async fn record_events(&self, node: &str, request: ReportEventsRequest) -> Result<(), Status> {
        if request.events.len() > MAX_EVENTS {
            return Err(Status::invalid_argument(format!("events: at most {MAX_EVENTS} at once")));
        }
        for mut event in request.events {
            cut(&mut event.message, MAX_MESSAGE);
            if event.kind == "Node" && event.name != node {
                let name = event.name;
                return Err(Status::permission_denied(format!("node {node:?} may not report events of node {name:?}")));
            }
            match self.record_event(node, event).await {
                Err(error) if error.code < 500 => tracing::debug!(node, %error, "an event is dropped"),
                other => other.map_err(|error| failure::status(&error))?,
            }
        }
        Ok(())
    }

    async fn record_event(&self, node: &str, event: Event) -> Result<(), ApiStatus> {
        let now = Timestamp::now();
        let caller = Self::caller(node);
        // Events of objects without a namespace are kept in the default one.
        let namespace = if event.namespace.is_empty() { "default" } else { &event.namespace }.to_owned();
        let same = (node.to_owned(), event);
        if let Some(name) = self.events.name(&same) {
            let counted = self.api.modify(&caller, "events", None, &namespace, &name, |object| {
                object["count"] = (object["count"].as_u64().unwrap_or(1) + 1).into();
                object["lastTimestamp"] = time(now);
                Ok(true)
            });
            match counted.await {
                // It has outlived its time.
                Err(error) if error.is_not_found() => {}
                other => return other.map(drop),
            }
        }
        let object = object(&same.1, node, &namespace, now);
        let made = self.api.create(&caller, "events", &namespace, object, &WriteOptions::default()).await?;
        self.events.remember(same, made.name().to_owned());
        Ok(())
    }
}

fn object(event: &Event, node: &str, namespace: &str, now: Timestamp) -> Value {
    let mut name = event.name.clone();
    cut(&mut name, MAX_NAME);
    let mut involved = json!({"apiVersion": event.api_version, "kind": event.kind, "name": event.name});
    for (field, text) in [("namespace", &event.namespace), ("uid", &event.uid), ("fieldPath", &event.field_path)] {
        if !text.is_empty() {
            involved[field] = text.as_str().into();
        }
    }
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": format!("{name}.{:x}", now.as_nanosecond()), "namespace": namespace},
        "involvedObject": involved,
        "type": event.r#type,
        "reason": event.reason,
        "message": event.message,
        "source": {"component": event.component, "host": node},
        "reportingComponent": event.component,
        "reportingInstance": node,
        "firstTimestamp": time(now),
        "lastTimestamp": time(now),
        "count": 1,
    })
}

/// Shortens a text to at most `max` bytes, between characters.
fn cut(text: &mut String, max: usize) {
    let mut end = max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
}
