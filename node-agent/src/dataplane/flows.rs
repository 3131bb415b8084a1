use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use skep_abi::{Addr, Direction, FlowEvent, Reason, Verdict};
use skep_agent_core::dataplane::Names;
use skep_dataplane::Events;
use tokio::io::unix::AsyncFd;
use tokio::sync::broadcast;
use tracing::error;

use super::Dataplane;

/// Records that a slow reader may be behind before it misses some.
const BEHIND: usize = 256;

/// How long a record waits for the names that belong to it.
const NAMES_PATIENCE: Duration = Duration::from_millis(200);

/// Flow records as lines of JSON, for any number of readers.
#[derive(Clone, Debug)]
pub struct FlowStream(broadcast::Sender<bytes::Bytes>);

impl FlowStream {
    /// The records from now on.
    #[must_use]
    pub fn subscribe(&self) -> broadcast::Receiver<bytes::Bytes> {
        self.0.subscribe()
    }
}

/// Reads the kernel's flow records and hands them to whoever listens.
///
/// # Errors
/// The ring buffer cannot be waited for.
pub fn follow_flows(events: Events, dataplane: Dataplane) -> std::io::Result<FlowStream> {
    let (sender, _) = broadcast::channel(BEHIND);
    let stream = FlowStream(sender.clone());
    // SAFETY: the ring buffer owns its descriptor, gives the same one each time, and closes it when it is dropped.
    #[allow(unsafe_code, reason = "tokio takes no owner of a descriptor on trust")]
    let registered = unsafe { AsyncFd::register_with_interest(events, tokio::io::Interest::READABLE) };
    let mut events = registered.map_err(std::io::Error::from)?;
    tokio::spawn(async move {
        loop {
            match events.readable_mut().await {
                Ok(mut ready) => {
                    while let Some(event) = ready.get_inner_mut().next() {
                        if sender.receiver_count() > 0 {
                            let names = names_for(&event, &dataplane).await;
                            publish(&event, &names, &sender);
                        }
                    }
                    ready.clear_ready();
                }
                Err(problem) => {
                    error!(%problem, "flow records end");
                    return;
                }
            }
        }
    });
    Ok(stream)
}

/// The names, once they know the rule list that decided: they come a little later than the maps.
async fn names_for(event: &FlowEvent, dataplane: &Dataplane) -> Arc<Names> {
    let known = |names: &Arc<Names>| event.list == 0 || names.rule_lists.contains_key(&event.list);
    let mut names = dataplane.watch_names();
    let found = tokio::time::timeout(NAMES_PATIENCE, names.wait_for(known)).await;
    match found {
        Ok(Ok(names)) => Arc::clone(&names),
        // A list that is gone already, or the end of the dataplane.
        Ok(Err(_)) | Err(_) => dataplane.names(),
    }
}

fn publish(event: &FlowEvent, names: &Names, sender: &broadcast::Sender<bytes::Bytes>) {
    match serde_json::to_vec(&FlowRecord::new(event, names, boot_time())) {
        Ok(mut line) => {
            line.push(b'\n');
            // The last reader may have gone this moment.
            let _ = sender.send(line.into());
        }
        Err(problem) => error!(%problem, "flow record"),
    }
}

/// When the machine booted, after the epoch: kernel timestamps count from then.
fn boot_time() -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let since_boot = nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME).map(Duration::from).unwrap_or(now);
    now.saturating_sub(since_boot)
}

/// A flow event as people read it.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct FlowRecord<'a> {
    time: String,
    verdict: &'static str,
    /// Why it was dropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    /// From the pod's point of view.
    direction: &'static str,
    protocol: String,
    /// `namespace/name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pod: Option<String>,
    local: Peer,
    remote: Peer,
    /// `namespace/name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    remote_pod: Option<String>,
    /// The Service address that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    service: Option<Peer>,
    /// The policy whose rule decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<String>,
    /// Place of the rule in the policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<usize>,
    /// Policies that select the pod in this direction, when none of their rules decided.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    policies: &'a [String],
    bytes: u32,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct Peer {
    address: IpAddr,
    port: u16,
}

impl Peer {
    fn new(addr: Addr, port_be: u16) -> Self {
        Self { address: addr.into(), port: u16::from_be(port_be) }
    }
}

impl<'a> FlowRecord<'a> {
    fn new(event: &FlowEvent, names: &'a Names, boot_time: Duration) -> Self {
        let time = boot_time + Duration::from_nanos(event.timestamp);
        let time = jiff::Timestamp::UNIX_EPOCH.checked_add(time).unwrap_or_default();
        let reason = Reason::ALL.get(usize::from(event.reason)).copied().unwrap_or(Reason::None);
        let pod = |pod: &skep_agent_core::dataplane::PodName| format!("{}/{}", pod.namespace, pod.name);
        let list = names.rule_lists.get(&event.list);
        let rule = list.and_then(|list| list.rules.get(usize::try_from(event.rule).ok()?).map(|rule| (list, rule)));
        Self {
            time: format!("{time:.6}"),
            verdict: if event.verdict == Verdict::Allowed as u8 { "allowed" } else { "dropped" },
            reason: (reason != Reason::None).then(|| reason.name()),
            direction: if event.direction == Direction::Ingress as u8 { "ingress" } else { "egress" },
            protocol: match event.proto {
                1 => "ICMP".to_owned(),
                6 => "TCP".to_owned(),
                17 => "UDP".to_owned(),
                58 => "ICMPv6".to_owned(),
                132 => "SCTP".to_owned(),
                other => other.to_string(),
            },
            pod: names.endpoints.get(&event.endpoint).map(pod),
            local: Peer::new(event.local, event.local_port_be),
            remote: Peer::new(event.remote, event.remote_port_be),
            remote_pod: names.addresses.get(&event.remote.into()).map(pod),
            service: (event.service != Addr::NONE).then(|| Peer::new(event.service, event.service_port_be)),
            policy: rule.map(|(list, rule)| format!("{}/{}", list.namespace, rule.policy)),
            rule: rule.map(|(_, rule)| rule.rule),
            policies: match (list, rule) {
                (Some(list), None) => &list.policies,
                _ => &[],
            },
            bytes: event.bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skep_agent_core::dataplane::{PodName, RuleListName, RuleName};

    fn event() -> FlowEvent {
        FlowEvent {
            timestamp: 1_500_000_000,
            remote_identity: 7,
            local: Addr::v4([10, 0, 0, 1]),
            remote: Addr::v4([10, 0, 1, 9]),
            service: Addr::NONE,
            endpoint: 4,
            list: 3,
            rule: u32::MAX,
            bytes: 60,
            local_port_be: 80u16.to_be(),
            remote_port_be: 40000u16.to_be(),
            service_port_be: 0,
            proto: 6,
            direction: Direction::Ingress as u8,
            verdict: Verdict::Dropped as u8,
            reason: Reason::PolicyDenied as u8,
            pad: [0; 6],
        }
    }

    fn names() -> Names {
        let pod = |name: &str| PodName { namespace: "shop".to_owned(), name: name.to_owned() };
        let list = RuleListName {
            direction: "ingress".to_owned(),
            namespace: "shop".to_owned(),
            policies: vec!["deny".to_owned(), "web".to_owned()],
            rules: vec![RuleName { policy: "web".to_owned(), rule: 0 }],
        };
        Names {
            endpoints: [(4, pod("web-1"))].into(),
            addresses: [("10.0.1.9".parse().unwrap(), pod("client"))].into(),
            rule_lists: [(3, list)].into(),
            ..Names::default()
        }
    }

    #[test]
    fn a_denied_packet_names_pods_reason_and_policies() {
        let names = names();
        let record = FlowRecord::new(&event(), &names, Duration::from_secs(1_700_000_000));
        let json = serde_json::to_value(&record).unwrap();
        assert_eq!(
            json,
            serde_json::json!({
                "time": "2023-11-14T22:13:21.500000Z", "verdict": "dropped", "reason": "policy_denied",
                "direction": "ingress", "protocol": "TCP", "pod": "shop/web-1",
                "local": {"address": "10.0.0.1", "port": 80}, "remote": {"address": "10.0.1.9", "port": 40000},
                "remotePod": "shop/client", "policies": ["deny", "web"], "bytes": 60,
            })
        );
    }

    #[test]
    fn an_allowed_connection_names_the_rule() {
        let allowed = FlowEvent { rule: 0, verdict: Verdict::Allowed as u8, reason: 0, ..event() };
        let names = names();
        let record = FlowRecord::new(&allowed, &names, Duration::ZERO);
        assert_eq!((record.verdict, record.reason), ("allowed", None));
        assert_eq!((record.policy.as_deref(), record.rule), (Some("shop/web"), Some(0)));
        assert!(record.policies.is_empty());
    }
}
