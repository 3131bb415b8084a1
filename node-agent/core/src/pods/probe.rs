//! Probes of one running container: when each is due, and what their results add up to.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Container, Probe};

/// What a probe decides.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum ProbeKind {
    /// Whether the container has started; the others wait for it.
    Startup,
    /// Whether it has to be restarted.
    Liveness,
    /// Whether it takes requests.
    Readiness,
}

impl fmt::Display for ProbeKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Startup => "Startup",
            Self::Liveness => "Liveness",
            Self::Readiness => "Readiness",
        })
    }
}

/// How one run of a probe ended; the texts are what users read in events.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ProbeOutcome {
    /// It succeeded.
    Success,
    /// It failed.
    Failure(String),
    /// It could not be run, which counts as a failure.
    Error(String),
}

/// One probe of one running container.
#[derive(Clone, Debug)]
struct Prober {
    period: SignedDuration,
    success_threshold: u32,
    failure_threshold: u32,
    due: Timestamp,
    in_flight: bool,
    /// Results of the same kind in a row.
    run: Option<(bool, u32)>,
    /// What holds, once a threshold was reached.
    verdict: Option<bool>,
}

impl Prober {
    fn new(probe: &Probe, started_at: Timestamp) -> Self {
        let seconds = |value: Option<i32>, default: i32| i64::from(value.filter(|value| *value > 0).unwrap_or(default));
        let count = |value: Option<i32>, default: u32| {
            value.and_then(|value| u32::try_from(value).ok()).filter(|value| *value > 0).unwrap_or(default)
        };
        let delay = SignedDuration::from_secs(seconds(probe.initial_delay_seconds, 0));
        Self {
            period: SignedDuration::from_secs(seconds(probe.period_seconds, 10)),
            success_threshold: count(probe.success_threshold, 1),
            failure_threshold: count(probe.failure_threshold, 3),
            due: started_at.checked_add(delay).unwrap_or(Timestamp::MAX),
            in_flight: false,
            run: None,
            verdict: None,
        }
    }

    fn record(&mut self, success: bool) {
        self.in_flight = false;
        let count = match self.run {
            Some((last, count)) if last == success => count.saturating_add(1),
            _ => 1,
        };
        self.run = Some((success, count));
        let threshold = if success { self.success_threshold } else { self.failure_threshold };
        if count >= threshold {
            self.verdict = Some(success);
        }
    }
}

/// How long one run of a probe may take.
#[must_use]
pub fn timeout(probe: &Probe) -> SignedDuration {
    SignedDuration::from_secs(i64::from(probe.timeout_seconds.filter(|seconds| *seconds > 0).unwrap_or(1)))
}

/// The probes of one running container.
#[derive(Clone, Debug)]
pub struct Probes {
    /// The container that they are about.
    pub container_id: String,
    startup: Option<Prober>,
    liveness: Option<Prober>,
    readiness: Option<Prober>,
}

impl Probes {
    /// For a container that runs since `started_at`.
    #[must_use]
    pub fn new(container: &Container, container_id: &str, started_at: Timestamp) -> Self {
        let prober = |probe: &Option<Probe>| probe.as_ref().map(|probe| Prober::new(probe, started_at));
        Self {
            container_id: container_id.to_owned(),
            startup: prober(&container.startup_probe),
            liveness: prober(&container.liveness_probe),
            readiness: prober(&container.readiness_probe),
        }
    }

    /// Takes over what was known of the same container before the agent restarted.
    pub fn adopt(&mut self, started: bool, ready: bool) {
        if let Some(startup) = self.startup.as_mut().filter(|_| started) {
            startup.verdict = Some(true);
        }
        if let Some(readiness) = self.readiness.as_mut().filter(|_| ready) {
            readiness.verdict = Some(true);
        }
    }

    /// It has started, as far as the startup probe tells.
    #[must_use]
    pub fn is_started(&self) -> bool {
        self.startup.as_ref().is_none_or(|startup| startup.verdict == Some(true))
    }

    /// It takes requests, as far as the probes tell.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.is_started() && self.readiness.as_ref().is_none_or(|readiness| readiness.verdict == Some(true))
    }

    /// The probe for which the container has to be restarted.
    #[must_use]
    pub fn failed(&self) -> Option<ProbeKind> {
        let failed = |prober: &Option<Prober>| prober.as_ref().is_some_and(|prober| prober.verdict == Some(false));
        if failed(&self.startup) {
            return Some(ProbeKind::Startup);
        }
        failed(&self.liveness).then_some(ProbeKind::Liveness)
    }

    /// The probes to run now; each is due again a period later.
    pub fn take_due(&mut self, now: Timestamp) -> Vec<ProbeKind> {
        let mut due = Vec::new();
        for kind in self.active() {
            if let Some(prober) = self.prober(kind).filter(|prober| !prober.in_flight && prober.due <= now) {
                prober.in_flight = true;
                prober.due = now.checked_add(prober.period).unwrap_or(Timestamp::MAX);
                due.push(kind);
            }
        }
        due
    }

    /// When the next one is due; `None` while all are under way.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        let of = |kind| match kind {
            ProbeKind::Startup => self.startup.as_ref(),
            ProbeKind::Liveness => self.liveness.as_ref(),
            ProbeKind::Readiness => self.readiness.as_ref(),
        };
        self.active().into_iter().filter_map(of).filter(|prober| !prober.in_flight).map(|prober| prober.due).min()
    }

    /// Takes note of a result.
    pub fn record(&mut self, kind: ProbeKind, success: bool) {
        if let Some(prober) = self.prober(kind) {
            prober.record(success);
        }
    }

    fn active(&self) -> Vec<ProbeKind> {
        if self.is_started() { vec![ProbeKind::Liveness, ProbeKind::Readiness] } else { vec![ProbeKind::Startup] }
    }

    fn prober(&mut self, kind: ProbeKind) -> Option<&mut Prober> {
        match kind {
            ProbeKind::Startup => self.startup.as_mut(),
            ProbeKind::Liveness => self.liveness.as_mut(),
            ProbeKind::Readiness => self.readiness.as_mut(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn probes(container: Value) -> (Probes, Timestamp) {
        let mut container = container;
        container["name"] = json!("app");
        let start = Timestamp::from_second(1_000_000).unwrap();
        (Probes::new(&serde_json::from_value(container).unwrap(), "c1", start), start)
    }

    #[test]
    fn without_probes_a_running_container_is_ready() {
        let (mut probes, start) = probes(json!({}));
        assert!(probes.is_started() && probes.is_ready() && probes.failed().is_none());
        assert_eq!((probes.take_due(start), probes.next_due()), (vec![], None));
    }

    #[test]
    fn defaults_delay_and_period() {
        let (mut probes, start) = probes(json!({
            "livenessProbe": {"exec": {}}, "readinessProbe": {"exec": {}, "initialDelaySeconds": 3, "periodSeconds": 5},
        }));
        let at = |seconds| start + SignedDuration::from_secs(seconds);
        assert_eq!(probes.take_due(start), [ProbeKind::Liveness]);
        assert_eq!(probes.next_due(), Some(at(3)));
        assert_eq!(probes.take_due(at(3)), [ProbeKind::Readiness]);
        assert_eq!(probes.next_due(), None, "both are under way");
        probes.record(ProbeKind::Readiness, true);
        assert_eq!(probes.next_due(), Some(at(8)));
        probes.record(ProbeKind::Liveness, true);
        assert_eq!(probes.take_due(at(10)), [ProbeKind::Liveness, ProbeKind::Readiness]);
    }

    #[test]
    fn thresholds() {
        let (mut probes, _) = probes(json!({
            "livenessProbe": {"exec": {}, "failureThreshold": 2}, "readinessProbe": {"exec": {}, "successThreshold": 2},
        }));
        let mut ready = Vec::new();
        for success in [true, true, false, false, true, false, false, false, true, true] {
            probes.record(ProbeKind::Readiness, success);
            ready.push(probes.is_ready());
        }
        assert_eq!(ready, [false, true, true, true, true, true, true, false, false, true]);
        for success in [false, true, false] {
            probes.record(ProbeKind::Liveness, success);
            assert_eq!(probes.failed(), None);
        }
        probes.record(ProbeKind::Liveness, false);
        assert_eq!(probes.failed(), Some(ProbeKind::Liveness));
    }

    #[test]
    fn the_startup_probe_holds_the_others_back() {
        let (mut probes, start) = probes(json!({
            "startupProbe": {"exec": {}}, "livenessProbe": {"exec": {}}, "readinessProbe": {"exec": {}},
        }));
        assert!(!probes.is_started() && !probes.is_ready());
        assert_eq!(probes.take_due(start), [ProbeKind::Startup]);
        probes.record(ProbeKind::Startup, true);
        assert!(probes.is_started() && !probes.is_ready());
        assert_eq!(probes.take_due(start), [ProbeKind::Liveness, ProbeKind::Readiness]);
    }

    #[test]
    fn what_was_known_before_a_restart_of_the_agent_holds() {
        let (mut probes, _) = probes(json!({"startupProbe": {"exec": {}}, "readinessProbe": {"exec": {}}}));
        probes.adopt(true, true);
        assert!(probes.is_ready());
        for expected in [true, true, false] {
            probes.record(ProbeKind::Readiness, false);
            assert_eq!(probes.is_ready(), expected);
        }
    }
}
