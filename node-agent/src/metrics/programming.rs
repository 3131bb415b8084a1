use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use skep_proto::dataplane::v1::watch_event::Event;
use skep_proto::dataplane::v1::{Kind, WatchEvent};

/// Upper ends of the buckets, seconds. Changes take milliseconds as a rule, and half a minute is too long whatever it is.
const BUCKETS: [f64; 15] = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

/// Changes that are remembered while writes fail; later ones are not measured then.
const MOST_PENDING: usize = 65_536;

type Labels = [(&'static str, &'static str); 1];

/// How long changes of Services take until packets obey: `skep_network_programming_seconds`, by kind of object.
///
/// From the moment at which the control service's store hands a change over ([`WatchEvent::changed_at_unix_nanos`]) to the
/// last of its map writes; objects of a snapshot are not measured. The two ends are read from the clocks of two machines: the
/// result is wrong by the difference between them, and what would be negative counts as 0.
#[derive(Clone, Debug)]
pub struct ProgrammingLatency(Family<Labels, Histogram>);

impl Default for ProgrammingLatency {
    fn default() -> Self {
        Self(Family::<Labels, Histogram>::new_with_constructor(|| Histogram::new(BUCKETS)))
    }
}

impl ProgrammingLatency {
    pub(super) fn family(&self) -> Family<Labels, Histogram> {
        self.0.clone()
    }

    /// Notes that a change is in the maps at `now`, nanoseconds after the Unix epoch.
    pub fn observe(&self, trigger: &Trigger, now: u64) {
        let nanos = now.saturating_sub(trigger.changed_at);
        self.0.get_or_create(&[("kind", trigger.kind)]).observe(nanos as f64 / 1e9);
    }
}

/// A change whose way to the maps is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trigger {
    kind: &'static str,
    /// Nanoseconds after the Unix epoch, by the control service's clock.
    changed_at: u64,
}

impl Trigger {
    /// A Service or EndpointSlice that came, changed or went at a time that is known.
    #[must_use]
    pub fn of(event: &WatchEvent) -> Option<Self> {
        let kind = match event.event.as_ref()? {
            Event::Service(_) => Kind::Service,
            Event::EndpointSlice(_) => Kind::EndpointSlice,
            Event::Deleted(deleted) => deleted.kind(),
            _ => return None,
        };
        let kind = match kind {
            Kind::Service => "Service",
            Kind::EndpointSlice => "EndpointSlice",
            _ => return None,
        };
        let changed_at = event.changed_at_unix_nanos;
        (changed_at != 0).then_some(Self { kind, changed_at })
    }
}

/// Changes whose writes are not done yet.
#[derive(Debug, Default)]
pub struct Pending {
    latency: ProgrammingLatency,
    triggers: Vec<Trigger>,
}

impl Pending {
    /// None yet.
    #[must_use]
    pub fn new(latency: ProgrammingLatency) -> Self {
        Self { latency, triggers: Vec::new() }
    }

    /// Notes a change that is to be written.
    pub fn add(&mut self, trigger: Option<Trigger>) {
        if self.triggers.len() < MOST_PENDING {
            self.triggers.extend(trigger);
        }
    }

    /// Everything is in the maps now.
    pub fn written(&mut self) {
        if self.triggers.is_empty() {
            return;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        for trigger in self.triggers.drain(..) {
            self.latency.observe(&trigger, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text;
    use prometheus_client::registry::{Registry, Unit};
    use skep_proto::dataplane::v1::{Deleted, EndpointSlice, Service, Workload};

    use super::*;

    fn event(event: Event, changed_at_unix_nanos: u64) -> WatchEvent {
        WatchEvent { revision: 1, changed_at_unix_nanos, event: Some(event) }
    }

    fn deleted(kind: Kind) -> Event {
        Event::Deleted(Deleted { kind: kind.into(), ..Deleted::default() })
    }

    #[test]
    fn services_and_slices_are_measured_when_their_time_is_known() {
        let kind = |event| Trigger::of(&event).map(|trigger| trigger.kind);
        assert_eq!(kind(event(Event::Service(Service::default()), 5)), Some("Service"));
        assert_eq!(kind(event(Event::EndpointSlice(EndpointSlice::default()), 5)), Some("EndpointSlice"));
        assert_eq!(kind(event(deleted(Kind::Service), 5)), Some("Service"));
        assert_eq!(kind(event(deleted(Kind::EndpointSlice), 5)), Some("EndpointSlice"));
        for other in [Event::Workload(Workload::default()), deleted(Kind::Workload), deleted(Kind::Unspecified)] {
            assert_eq!(kind(event(other, 5)), None);
        }
        assert_eq!(kind(event(Event::Service(Service::default()), 0)), None);
        assert_eq!(Trigger::of(&WatchEvent { changed_at_unix_nanos: 5, ..WatchEvent::default() }), None);
    }

    fn shown(latency: &ProgrammingLatency) -> String {
        let mut registry = Registry::with_prefix("skep");
        registry.register_with_unit("network_programming", "Help", Unit::Seconds, latency.family());
        let mut shown = String::new();
        text::encode(&mut shown, &registry).unwrap();
        shown
    }

    #[test]
    fn times_fall_into_their_buckets_and_none_is_negative() {
        let latency = ProgrammingLatency::default();
        let trigger = Trigger { kind: "Service", changed_at: 1_000_000_000 };
        latency.observe(&trigger, 1_003_000_000);
        // The control service's clock is ahead.
        latency.observe(&trigger, 999_000_000);
        latency.observe(&Trigger { kind: "EndpointSlice", ..trigger }, 61_000_000_000);
        let shown = shown(&latency);
        for line in [
            "skep_network_programming_seconds_bucket{le=\"0.0005\",kind=\"Service\"} 1",
            "skep_network_programming_seconds_bucket{le=\"0.002\",kind=\"Service\"} 1",
            "skep_network_programming_seconds_bucket{le=\"0.005\",kind=\"Service\"} 2",
            "skep_network_programming_seconds_count{kind=\"Service\"} 2",
            "skep_network_programming_seconds_sum{kind=\"Service\"} 0.003",
            "skep_network_programming_seconds_bucket{le=\"30.0\",kind=\"EndpointSlice\"} 0",
            "skep_network_programming_seconds_bucket{le=\"+Inf\",kind=\"EndpointSlice\"} 1",
        ] {
            assert!(shown.lines().any(|shown| shown == line), "{line} is not in\n{shown}");
        }
    }

    #[test]
    fn changes_wait_until_they_are_written_and_are_measured_once() {
        let latency = ProgrammingLatency::default();
        let mut pending = Pending::new(latency.clone());
        for n in 0..MOST_PENDING + 10 {
            pending.add(Some(Trigger { kind: "Service", changed_at: 1 + n as u64 }));
        }
        pending.add(None);
        assert!(!shown(&latency).contains("_count"));
        pending.written();
        pending.written();
        let line = format!("skep_network_programming_seconds_count{{kind=\"Service\"}} {MOST_PENDING}");
        assert!(shown(&latency).contains(&line), "{}", shown(&latency));
    }
}
