//! Flow records of the agent: one JSON object a line.

use serde_json::Value;

/// Which records are shown.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    /// Only what was dropped or refused.
    pub(crate) dropped: bool,
    /// Only flows of or to this pod, as `namespace/name`.
    pub(crate) pod: Option<String>,
}

impl Filter {
    /// Whether a record is shown. A note that records were missed always is.
    pub(crate) fn takes(&self, record: &Value) -> bool {
        if record.get("missed").is_some() {
            return true;
        }
        let is = |field: &str, text: &str| record.get(field).and_then(Value::as_str) == Some(text);
        let pod = self.pod.as_deref().is_none_or(|pod| is("pod", pod) || is("remotePod", pod));
        pod && (!self.dropped || is("verdict", "dropped"))
    }
}

/// A record as a line for people.
pub(crate) fn line(record: &Value) -> String {
    if let Some(missed) = record.get("missed").and_then(Value::as_u64) {
        return format!("({missed} records were missed)\n");
    }
    let text = |field: &str| record.get(field).and_then(Value::as_str).unwrap_or_default();
    let side = |field: &str, pod: &str| {
        let part = record.get(field)?;
        let (address, port) = (part.get("address")?.as_str()?, part.get("port")?.as_u64()?);
        let socket = if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") };
        Some(if pod.is_empty() { socket } else { format!("{pod} ({socket})") })
    };
    let local = side("local", text("pod")).unwrap_or_default();
    let remote = side("remote", text("remotePod")).unwrap_or_default();
    let (from, to) = if text("direction") == "egress" { (local, remote) } else { (remote, local) };
    let mut line = format!("{} {:7} {} {} -> {}", text("time"), text("verdict"), text("protocol"), from, to);
    if let Some(service) = side("service", "") {
        line.push_str(&format!(" via {service}"));
    }
    if !text("policy").is_empty() {
        let rule = record.get("rule").and_then(Value::as_u64).map(|rule| format!("[{rule}]")).unwrap_or_default();
        line.push_str(&format!(" by {}{rule}", text("policy")));
    }
    if !text("reason").is_empty() {
        line.push_str(&format!(" {} {}", text("direction"), text("reason")));
    }
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn dropped() -> Value {
        json!({
            "time": "T", "verdict": "dropped", "reason": "policy_denied", "direction": "ingress", "protocol": "TCP",
            "pod": "shop/web-1", "local": {"address": "10.0.0.1", "port": 80},
            "remote": {"address": "fd00::9", "port": 40000}, "policies": ["deny"], "bytes": 60,
        })
    }

    #[test]
    fn lines_read_from_the_opener_to_the_other_side() {
        assert_eq!(
            line(&dropped()),
            "T dropped TCP [fd00::9]:40000 -> shop/web-1 (10.0.0.1:80) ingress policy_denied\n"
        );
        let allowed = json!({
            "time": "T", "verdict": "allowed", "direction": "egress", "protocol": "UDP", "pod": "shop/client",
            "local": {"address": "10.0.0.9", "port": 5}, "remote": {"address": "10.0.0.1", "port": 53},
            "remotePod": "shop/dns", "service": {"address": "10.96.0.10", "port": 53}, "policy": "shop/p", "rule": 2,
        });
        assert_eq!(
            line(&allowed),
            "T allowed UDP shop/client (10.0.0.9:5) -> shop/dns (10.0.0.1:53) via 10.96.0.10:53 by shop/p[2]\n"
        );
        assert_eq!(line(&json!({"missed": 3})), "(3 records were missed)\n");
    }

    #[test]
    fn filters() {
        let only = |dropped, pod: Option<&str>| Filter { dropped, pod: pod.map(str::to_owned) };
        let allowed = json!({"verdict": "allowed", "pod": "shop/a", "remotePod": "shop/b"});
        assert!(only(false, None).takes(&allowed) && !only(true, None).takes(&allowed));
        assert!(only(false, Some("shop/b")).takes(&allowed) && !only(false, Some("shop/c")).takes(&allowed));
        assert!(only(true, Some("shop/web-1")).takes(&dropped()));
        assert!(only(true, Some("shop/c")).takes(&json!({"missed": 1})));
    }
}
