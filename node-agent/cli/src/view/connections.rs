//! Entries of `conntrack` and `socket_origin`.

use serde::Serialize;
use skep_abi::{ConnKey, ConnState, ConnValue, OriginKey, OriginValue, conn_flags};
use skep_agent_core::dataplane::Names;

use crate::show;
use crate::table::Row;

/// A connection of a local pod.
#[derive(Debug, Serialize)]
pub(crate) struct ConnRow {
    pod: String,
    endpoint: u32,
    direction: &'static str,
    /// `flow`, or `service` for the entry that translates.
    kind: &'static str,
    protocol: String,
    local: String,
    remote: String,
    remote_pod: String,
    /// The other side of a translation.
    translated: String,
    state: &'static str,
    flags: String,
    tx_packets: u64,
    rx_packets: u64,
    expires_in_seconds: i64,
}

impl ConnRow {
    /// `now` in nanoseconds of the kernel's boot-time clock.
    pub(crate) fn new((key, value): &(ConnKey, ConnValue), names: &Names, now: u64) -> Self {
        let flags =
            [(conn_flags::FIN_TX, "fin-sent"), (conn_flags::FIN_RX, "fin-received"), (conn_flags::HAIRPIN, "hairpin")];
        let named: Vec<_> = flags.iter().map(|(bit, name)| (u32::from(*bit), *name)).collect();
        Self {
            pod: show::endpoint(key.endpoint, names),
            endpoint: key.endpoint,
            direction: if value.flags & conn_flags::OUTBOUND == 0 { "in" } else { "out" },
            kind: if key.kind == 0 { "flow" } else { "service" },
            protocol: show::protocol(key.proto),
            local: show::socket(key.local, key.local_port_be),
            remote: show::socket(key.remote, key.remote_port_be),
            remote_pod: show::pod_at(key.remote, names),
            translated: show::socket(value.nat_addr, value.nat_port_be),
            state: state(value.state),
            flags: show::flags(value.flags.into(), &named),
            tx_packets: value.tx_packets,
            rx_packets: value.rx_packets,
            expires_in_seconds: show::seconds_until(value.expires, now),
        }
    }
}

/// Name of a connection's state.
pub(crate) fn state(state: u8) -> &'static str {
    let states = [
        (ConnState::New, "new"),
        (ConnState::Established, "established"),
        (ConnState::Closing, "closing"),
        (ConnState::Closed, "closed"),
    ];
    states.iter().find(|(number, _)| *number as u8 == state).map_or("unknown", |(_, name)| name)
}

impl Row for ConnRow {
    const HEADER: &'static [&'static str] = &[
        "POD",
        "DIR",
        "KIND",
        "PROTOCOL",
        "LOCAL",
        "REMOTE",
        "TRANSLATED",
        "STATE",
        "TX",
        "RX",
        "EXPIRES",
        "REMOTE-POD",
    ];

    fn cells(&self) -> Vec<String> {
        let pod = if self.pod.is_empty() { format!("#{}", self.endpoint) } else { self.pod.clone() };
        vec![
            pod,
            self.direction.to_owned(),
            self.kind.to_owned(),
            self.protocol.clone(),
            self.local.clone(),
            self.remote.clone(),
            self.translated.clone(),
            self.state.to_owned(),
            self.tx_packets.to_string(),
            self.rx_packets.to_string(),
            show::expiry(self.expires_in_seconds),
            self.remote_pod.clone(),
        ]
    }
}

/// A translated socket.
#[derive(Debug, Serialize)]
pub(crate) struct OriginRow {
    cookie: u64,
    protocol: String,
    backend: String,
    backend_id: u32,
    pod: String,
    service: String,
}

impl OriginRow {
    pub(crate) fn new((key, value): &(OriginKey, OriginValue), names: &Names) -> Self {
        Self {
            cookie: key.cookie,
            protocol: show::protocol(key.proto),
            backend: show::socket(key.addr, key.port_be),
            backend_id: value.backend,
            pod: show::pod_at(key.addr, names),
            service: show::socket(value.addr, value.port_be),
        }
    }
}

impl Row for OriginRow {
    const HEADER: &'static [&'static str] = &["SOCKET", "PROTOCOL", "SERVICE", "BACKEND", "POD"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.cookie.to_string(),
            self.protocol.clone(),
            self.service.clone(),
            self.backend.clone(),
            self.pod.clone(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use skep_abi::Addr;

    use super::super::samples;
    use super::*;
    use crate::table::columns;

    #[test]
    fn connections_show_both_sides_and_the_service() {
        let key = ConnKey {
            local: Addr::v4([10, 0, 0, 9]),
            remote: Addr::v4([10, 0, 0, 1]),
            endpoint: 7,
            local_port_be: 40000_u16.to_be(),
            remote_port_be: 80_u16.to_be(),
            proto: 6,
            kind: 0,
            pad: 0,
        };
        let value = ConnValue {
            expires: 61_500_000_000,
            tx_packets: 5,
            rx_packets: 4,
            nat_addr: Addr::v4([10, 96, 0, 1]),
            nat_port_be: 80_u16.to_be(),
            state: ConnState::Established as u8,
            flags: conn_flags::OUTBOUND | conn_flags::FIN_TX,
            backend: 0,
        };
        let rows = [ConnRow::new(&(key, value), &samples::names(), 1_000_000_000)];
        let text = columns(&rows);
        let line: Vec<_> = text.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(
            line,
            [
                "shop/client",
                "out",
                "flow",
                "TCP",
                "10.0.0.9:40000",
                "10.0.0.1:80",
                "10.96.0.1:80",
                "established",
                "5",
                "4",
                "60s",
                "shop/web-1"
            ]
        );
        assert_eq!(rows[0].flags, "fin-sent");
        let late = ConnRow::new(&(key, value), &Names::default(), 90_000_000_000);
        assert_eq!((late.cells()[0].as_str(), late.cells()[10].as_str()), ("#7", "expired"));
    }
}
