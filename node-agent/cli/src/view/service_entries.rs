//! Entries of the maps that Services live in.

use serde::Serialize;
use skep_abi::{Addr, Backend, BackendState, Frontend, FrontendKey, SlotKey, backend_flags, frontend_flags};
use skep_agent_core::dataplane::Names;

use crate::show;
use crate::table::Row;

/// An entry of `frontends`.
#[derive(Debug, Serialize)]
pub(crate) struct FrontendRow {
    address: String,
    protocol: String,
    scope: u8,
    service: u32,
    service_name: String,
    generation: u32,
    count: u32,
    flags: String,
    affinity_timeout_seconds: u32,
}

impl FrontendRow {
    pub(crate) fn new((key, value): &(FrontendKey, Frontend), names: &Names) -> Self {
        Self {
            address: show::socket(key.addr, key.port_be),
            protocol: show::protocol(key.proto),
            scope: key.scope,
            service: value.service,
            service_name: show::service(value.service, names),
            generation: value.generation,
            count: value.count,
            flags: flags(value.flags),
            affinity_timeout_seconds: value.affinity_timeout,
        }
    }
}

/// Names of a frontend's flags.
pub(crate) fn flags(flags: u32) -> String {
    let names = [
        (frontend_flags::AFFINITY, "affinity"),
        (frontend_flags::SOURCE_RANGES, "source-ranges"),
        (frontend_flags::MAGLEV, "maglev"),
        (frontend_flags::LOCAL, "local"),
        (frontend_flags::EXTERNAL_ADDR, "external"),
        (frontend_flags::HOST_PORT, "host-port"),
    ];
    show::flags(flags, &names)
}

impl Row for FrontendRow {
    const HEADER: &'static [&'static str] =
        &["ADDRESS", "PROTOCOL", "SERVICE", "GENERATION", "BACKENDS", "FLAGS", "NAME"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.address.clone(),
            self.protocol.clone(),
            self.service.to_string(),
            self.generation.to_string(),
            self.count.to_string(),
            self.flags.clone(),
            self.service_name.clone(),
        ]
    }
}

/// An entry of `slots`.
#[derive(Debug, Serialize)]
pub(crate) struct SlotRow {
    service: u32,
    service_name: String,
    generation: u32,
    index: u32,
    backend: u32,
    backend_name: String,
}

impl SlotRow {
    pub(crate) fn new((key, backend): &(SlotKey, u32), names: &Names) -> Self {
        Self {
            service: key.service,
            service_name: show::service(key.service, names),
            generation: key.generation,
            index: key.index,
            backend: *backend,
            backend_name: show::backend(*backend, names),
        }
    }
}

impl Row for SlotRow {
    const HEADER: &'static [&'static str] = &["SERVICE", "GENERATION", "INDEX", "BACKEND", "POD", "NAME"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.service.to_string(),
            self.generation.to_string(),
            self.index.to_string(),
            self.backend.to_string(),
            self.backend_name.clone(),
            self.service_name.clone(),
        ]
    }
}

/// An entry of `backends`.
#[derive(Debug, Serialize)]
pub(crate) struct BackendRow {
    id: u32,
    address: String,
    protocol: String,
    state: &'static str,
    flags: String,
    pod: String,
    node: String,
}

impl BackendRow {
    pub(crate) fn new((id, value): &(u32, Backend), names: &Names) -> Self {
        Self {
            id: *id,
            address: show::socket(value.addr, value.port_be),
            protocol: show::protocol(value.proto),
            state: state(value.state),
            flags: show::flags(value.flags, &[(backend_flags::LOCAL, "local"), (backend_flags::HOST, "host")]),
            pod: show::backend(*id, names),
            node: names.backends.get(id).map(|pod| pod.node.clone()).unwrap_or_default(),
        }
    }
}

impl Row for BackendRow {
    const HEADER: &'static [&'static str] = &["ID", "ADDRESS", "PROTOCOL", "STATE", "FLAGS", "NODE", "POD"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.id.to_string(),
            self.address.clone(),
            self.protocol.clone(),
            self.state.to_owned(),
            self.flags.clone(),
            self.node.clone(),
            self.pod.clone(),
        ]
    }
}

/// Name of a backend's state.
pub(crate) fn state(state: u8) -> &'static str {
    match state {
        state if state == BackendState::Active as u8 => "active",
        state if state == BackendState::Terminating as u8 => "terminating",
        _ => "unknown",
    }
}

/// An entry of `identities`.
#[derive(Debug, Serialize)]
pub(crate) struct IdentityRow {
    address: String,
    pod: String,
    identity: String,
    labels: String,
}

impl IdentityRow {
    pub(crate) fn new((addr, identity): &(Addr, u64), names: &Names) -> Self {
        Self {
            address: show::address(*addr),
            pod: show::pod_at(*addr, names),
            identity: show::identity_number(*identity),
            labels: show::identity(*identity, names),
        }
    }
}

impl Row for IdentityRow {
    const HEADER: &'static [&'static str] = &["ADDRESS", "IDENTITY", "POD", "LABELS"];

    fn cells(&self) -> Vec<String> {
        vec![self.address.clone(), self.identity.clone(), self.pod.clone(), self.labels.clone()]
    }
}

/// An entry of `identity_tails`.
#[derive(Debug, Serialize)]
pub(crate) struct TailRow {
    identity: String,
    tail: String,
    labels: String,
}

impl TailRow {
    pub(crate) fn new((identity, tail): &(u64, u64), names: &Names) -> Self {
        Self {
            identity: show::identity_number(*identity),
            tail: format!("{tail:012x}"),
            labels: show::identity(*identity, names),
        }
    }
}

impl Row for TailRow {
    const HEADER: &'static [&'static str] = &["IDENTITY", "TAIL", "LABELS"];

    fn cells(&self) -> Vec<String> {
        vec![self.identity.clone(), self.tail.clone(), self.labels.clone()]
    }
}
