//! Running probes when they are due.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Probe;

use super::starting::find;
use super::{Machine, Op};
use crate::pods::command::Command;
use crate::pods::event;
use crate::pods::probe::{self, ProbeKind, ProbeOutcome};
use crate::pods::{check, invalid::ConfigError};

impl Machine {
    pub(super) fn run_probes(&mut self, now: Timestamp) {
        let pod = Arc::clone(&self.pod);
        let names: Vec<String> = self.slots.keys().cloned().collect();
        for name in names {
            let Some(container) = find(&pod, &name) else { continue };
            // A container that is being stopped is only asked whether it still takes requests.
            let stopping = self.is_doing(&name, |op| matches!(op, Op::PreStop { .. } | Op::Stopping { .. }));
            let Some(probes) = self.slot(&name).probes.as_mut() else { continue };
            let id = probes.container_id.clone();
            let due = probes.take_due(now);
            for kind in due {
                if stopping && kind != ProbeKind::Readiness {
                    continue;
                }
                let spec = match kind {
                    ProbeKind::Startup => container.startup_probe.as_ref(),
                    ProbeKind::Liveness => container.liveness_probe.as_ref(),
                    ProbeKind::Readiness => container.readiness_probe.as_ref(),
                };
                let Some(spec) = spec else { continue };
                match self.check_of(container, spec) {
                    Ok(Some(check)) => {
                        let timeout = probe::timeout(spec);
                        let (container, id) = (name.clone(), id.clone());
                        self.emit(Command::RunProbe { container, id, kind, check, timeout });
                    }
                    Ok(None) => self.probed(&name, &id, kind, &ProbeOutcome::Success),
                    Err(error) => self.probed(&name, &id, kind, &ProbeOutcome::Error(error.to_string())),
                }
            }
            if let Some(next) = self.slots.get(&name).and_then(|slot| slot.probes.as_ref()).and_then(|p| p.next_due()) {
                self.wake(next);
            }
        }
    }

    fn check_of(
        &self,
        container: &k8s_openapi::api::core::v1::Container,
        probe: &Probe,
    ) -> Result<Option<check::Check>, ConfigError> {
        check::of_probe(container, probe, self.pod_ips.first().map_or("", String::as_str))
    }

    pub(super) fn probed(&mut self, name: &str, id: &str, kind: ProbeKind, outcome: &ProbeOutcome) {
        let Some(probes) = self.slot(name).probes.as_mut().filter(|probes| probes.container_id == id) else { return };
        probes.record(kind, *outcome == ProbeOutcome::Success);
        let stopping = self.is_doing(name, |op| matches!(op, Op::PreStop { .. } | Op::Stopping { .. }));
        if let Some(event) = event::unhealthy(kind, outcome).filter(|_| !stopping && !self.is_winding_down()) {
            self.container_event(name, event);
        }
    }
}
