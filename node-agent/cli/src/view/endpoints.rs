use serde::Serialize;
use skep_abi::{Direction, Endpoint, endpoint_flags};
use skep_agent_core::dataplane::Names;

use crate::show;
use crate::table::Row;

/// A local pod.
#[derive(Debug, Serialize)]
pub(crate) struct EndpointRow {
    ifindex: u32,
    id: u32,
    pod: String,
    addresses: Vec<String>,
    mac: String,
    identity: String,
    labels: String,
    /// `open`, or `closed` when its policies could not be written.
    state: &'static str,
    ingress: EndpointPolicy,
    egress: EndpointPolicy,
}

/// What decides one direction.
#[derive(Debug, Serialize)]
struct EndpointPolicy {
    /// 0: no policy.
    list: u32,
    words: u16,
    policies: Vec<String>,
}

impl EndpointPolicy {
    fn new(endpoint: &Endpoint, direction: Direction, names: &Names) -> Self {
        let [list, words] = match direction {
            Direction::Ingress => [endpoint.rule_list[0], endpoint.words[0].into()],
            Direction::Egress => [endpoint.rule_list[1], endpoint.words[1].into()],
        };
        let policies = names.rule_lists.get(&list).map(|list| list.policies.clone()).unwrap_or_default();
        Self { list, words: u16::try_from(words).unwrap_or(u16::MAX), policies }
    }

    fn shown(&self) -> String {
        match (self.list, self.policies.as_slice()) {
            (0, _) => "any".to_owned(),
            (list, []) => format!("#{list}"),
            (_, policies) => policies.join(","),
        }
    }
}

impl EndpointRow {
    pub(crate) fn new((ifindex, value): &(u32, Endpoint), names: &Names) -> Self {
        let [a, b, c, d, e, f] = value.mac;
        let addresses = [show::address(value.addr4), show::address(value.addr6)];
        Self {
            ifindex: *ifindex,
            id: value.id,
            pod: show::endpoint(value.id, names),
            addresses: addresses.into_iter().filter(|addr| !addr.is_empty()).collect(),
            mac: format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}"),
            identity: show::identity_number(value.identity),
            labels: show::identity(value.identity, names),
            state: if value.flags & endpoint_flags::CLOSED == 0 { "open" } else { "closed" },
            ingress: EndpointPolicy::new(value, Direction::Ingress, names),
            egress: EndpointPolicy::new(value, Direction::Egress, names),
        }
    }
}

impl Row for EndpointRow {
    const HEADER: &'static [&'static str] =
        &["POD", "INTERFACE", "ID", "ADDRESSES", "IDENTITY", "STATE", "INGRESS", "EGRESS"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.pod.clone(),
            self.ifindex.to_string(),
            self.id.to_string(),
            self.addresses.join(","),
            self.identity.clone(),
            self.state.to_owned(),
            self.ingress.shown(),
            self.egress.shown(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;

    #[test]
    fn endpoints_show_what_decides_each_direction() {
        let names = samples::names();
        let rows: Vec<_> =
            samples::contents().endpoints.iter().map(|(k, v)| EndpointRow::new(&(*k, *v), &names)).collect();
        assert_eq!(
            rows[0].cells(),
            ["shop/client", "12", "7", "10.0.0.9,fd01::9", "00000000000000ab", "open", "allow,deny", "any"]
        );
        assert_eq!(rows[1].cells(), ["", "13", "8", "10.0.0.10", "0000000000000000", "closed", "any", "#99"]);
    }
}
