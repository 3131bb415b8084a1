use std::net::IpAddr;

use serde_json::{Value, json};
use skep_cni::{Added, Failure, GATEWAY4, GATEWAY6, Request};

use crate::invocation::VERSIONS;

/// Result of ADD (CNI specification, "Add Success").
pub(crate) fn added(version: &str, request: &Request, added: &Added) -> Value {
    let ips: Vec<Value> = added
        .addresses
        .iter()
        .map(|addr| match addr {
            IpAddr::V4(addr) => ip(version, "4", 1, format!("{addr}/32"), Some(GATEWAY4.to_string())),
            IpAddr::V6(addr) => ip(version, "6", 1, format!("{addr}/128"), Some(GATEWAY6.to_string())),
        })
        .collect();
    let routes: Vec<Value> = added
        .addresses
        .iter()
        .map(|addr| match addr {
            IpAddr::V4(_) => json!({"dst": "0.0.0.0/0", "gw": GATEWAY4}),
            IpAddr::V6(_) => json!({"dst": "::/0", "gw": GATEWAY6}),
        })
        .collect();
    json!({
        "cniVersion": version,
        "interfaces": [
            {"name": added.host_ifname, "mac": added.host_mac},
            {"name": request.ifname, "mac": added.mac, "sandbox": request.netns},
        ],
        "ips": ips,
        "routes": routes,
        "dns": {},
    })
}

/// Result of the `loopback` plugin.
pub(crate) fn loopback(version: &str, request: &Request) -> Value {
    json!({
        "cniVersion": version,
        "interfaces": [{"name": request.ifname, "mac": "00:00:00:00:00:00", "sandbox": request.netns}],
        "ips": [
            ip(version, "4", 0, "127.0.0.1/8".to_owned(), None),
            ip(version, "6", 0, "::1/128".to_owned(), None),
        ],
        "dns": {},
    })
}

/// Versions before 1.0.0 want the family spelled out.
fn ip(version: &str, family: &str, interface: usize, address: String, gateway: Option<String>) -> Value {
    let mut ip = json!({"interface": interface, "address": address});
    if let Some(gateway) = gateway {
        ip["gateway"] = gateway.into();
    }
    if !version.starts_with("1.") {
        ip["version"] = family.into();
    }
    ip
}

/// The error form of any result.
pub(crate) fn failed(version: &str, failure: &Failure) -> Value {
    json!({"cniVersion": version, "code": failure.code, "msg": failure.message})
}

/// Answer to VERSION.
pub(crate) fn versions() -> Value {
    json!({"cniVersion": "1.0.0", "supportedVersions": VERSIONS})
}
