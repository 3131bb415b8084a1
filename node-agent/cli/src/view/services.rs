use std::collections::BTreeMap;

use serde::Serialize;
use skep_abi::{Backend, Frontend, FrontendKey, SlotKey, scope};
use skep_agent_core::dataplane::Names;

use super::service_entries::{self, state};
use crate::show;
use crate::table::Row;

/// Backends that a table names before it only counts.
const NAMED: usize = 3;

/// An address of a Service and what is behind it.
#[derive(Debug, Serialize)]
pub(crate) struct ServiceRow {
    namespace: String,
    name: String,
    port: String,
    address: String,
    protocol: String,
    /// Who may use the address: `internal` or `external`.
    scope: &'static str,
    /// Number of the endpoint set.
    set: u32,
    generation: u32,
    flags: String,
    affinity_timeout_seconds: u32,
    /// New connections that the endpoint set was given since the agent first ran.
    connections: u64,
    backends: Vec<ServiceBackend>,
    /// Slots of the set that are not in the maps: always 0 but for the moment of a change.
    missing: u32,
}

/// A backend of a [`ServiceRow`].
#[derive(Debug, Serialize)]
struct ServiceBackend {
    address: String,
    pod: String,
    node: String,
    state: &'static str,
}

/// The Services, by name and address.
pub(crate) fn rows(
    frontends: &[(FrontendKey, Frontend)],
    slots: &[(SlotKey, u32)],
    backends: &[(u32, Backend)],
    hits: &[(u32, u64)],
    names: &Names,
) -> Vec<ServiceRow> {
    let slots: BTreeMap<SlotKey, u32> = slots.iter().copied().collect();
    let backends: BTreeMap<u32, Backend> = backends.iter().copied().collect();
    let hits: BTreeMap<u32, u64> = hits.iter().copied().collect();
    let mut rows: Vec<_> = frontends
        .iter()
        .map(|(key, value)| {
            let slot = |index| SlotKey { service: value.service, generation: value.generation, index };
            let behind: Vec<_> = (0..value.count)
                .filter_map(|index| {
                    let id = slots.get(&slot(index))?;
                    let backend = backends.get(id)?;
                    Some(ServiceBackend {
                        address: show::socket(backend.addr, backend.port_be),
                        pod: show::backend(*id, names),
                        node: names.backends.get(id).map(|pod| pod.node.clone()).unwrap_or_default(),
                        state: state(backend.state),
                    })
                })
                .collect();
            let name = names.services.get(&value.service);
            let part = |part: fn(&skep_agent_core::dataplane::ServiceName) -> &String| name.map(part).cloned();
            let found = u32::try_from(behind.len()).unwrap_or(u32::MAX);
            ServiceRow {
                namespace: part(|name| &name.namespace).unwrap_or_default(),
                name: part(|name| &name.name).unwrap_or_else(|| format!("#{}", value.service)),
                port: part(|name| &name.port).unwrap_or_default(),
                address: show::socket(key.addr, key.port_be),
                protocol: show::protocol(key.proto),
                scope: if key.scope == scope::EXTERNAL { "external" } else { "internal" },
                set: value.service,
                generation: value.generation,
                flags: service_entries::flags(value.flags),
                affinity_timeout_seconds: value.affinity_timeout,
                connections: hits.get(&value.service).copied().unwrap_or_default(),
                backends: behind,
                missing: value.count.saturating_sub(found),
            }
        })
        .collect();
    rows.sort_by(|a, b| (&a.namespace, &a.name, &a.port, a.scope).cmp(&(&b.namespace, &b.name, &b.port, b.scope)));
    rows
}

impl Row for ServiceRow {
    const HEADER: &'static [&'static str] =
        &["NAMESPACE", "NAME", "PORT", "ADDRESS", "PROTOCOL", "SCOPE", "FLAGS", "AFFINITY", "HITS", "BACKENDS"];

    fn cells(&self) -> Vec<String> {
        let mut backends: Vec<_> = self.backends.iter().take(NAMED).map(|backend| backend.address.clone()).collect();
        if self.backends.len() > NAMED {
            backends.push(format!("+{}", self.backends.len() - NAMED));
        }
        if self.missing > 0 {
            backends.push(format!("({} missing)", self.missing));
        }
        let backends = if backends.is_empty() { "none: refuses".to_owned() } else { backends.join(" ") };
        let affinity = match self.affinity_timeout_seconds {
            0 => String::new(),
            seconds => format!("{seconds}s"),
        };
        vec![
            self.namespace.clone(),
            self.name.clone(),
            self.port.clone(),
            self.address.clone(),
            self.protocol.clone(),
            self.scope.to_owned(),
            self.flags.clone(),
            affinity,
            self.connections.to_string(),
            backends,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;
    use crate::table::{columns, json};

    #[test]
    fn services_name_their_backends() {
        let maps = samples::contents();
        let vec = |map: &BTreeMap<FrontendKey, Frontend>| map.iter().map(|(k, v)| (*k, *v)).collect::<Vec<_>>();
        let slots: Vec<_> = maps.slots.iter().map(|(k, v)| (*k, *v)).collect();
        let backends: Vec<_> = maps.backends.iter().map(|(k, v)| (*k, *v)).collect();
        let rows = rows(&vec(&maps.frontends), &slots, &backends, &[(1, 12)], &samples::names());
        assert_eq!(
            columns(&rows),
            "\
NAMESPACE   NAME    PORT   ADDRESS        PROTOCOL   SCOPE      FLAGS      AFFINITY   HITS   BACKENDS
shop        empty   http   10.96.0.2:80   TCP        internal   -          -          0      none: refuses
shop        web     http   10.96.0.1:80   TCP        internal   affinity   10800s     12     10.0.0.1:80 10.0.0.2:80 10.0.0.3:80 +1
shop        web     http   [fd00::1]:80   TCP        internal   affinity   10800s     0      [fd01::1]:80
"
        );
        let json: serde_json::Value = serde_json::from_str(&json(&rows).unwrap()).unwrap();
        assert_eq!(json[1]["backends"][0]["pod"], "shop/web-1");
        assert_eq!(json[1]["missing"], 0);
    }

    #[test]
    fn a_service_without_a_name_shows_its_number_and_holes_are_told() {
        let maps = samples::contents();
        let frontends: Vec<_> = maps.frontends.iter().map(|(k, v)| (*k, *v)).take(1).collect();
        let rows = rows(&frontends, &[], &[], &[], &Names::default());
        let cells = rows[0].cells();
        assert!(cells[1].starts_with('#'), "{cells:?}");
        assert!(cells[9].contains("missing"), "{cells:?}");
    }
}
