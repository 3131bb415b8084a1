//! The program against maps in the kernel. Needs root.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::PathBuf;
use std::process::{Command, Output};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use skep_abi::{
    Addr, Backend, Bits, Config, ConnKey, ConnValue, Endpoint, Frontend, FrontendKey, NodeAddr, PeerKey, RuleList,
    RuleListKey, SlotKey, rule_list_flags,
};
use skep_agent_core::dataplane::Capacities;
use skep_dataplane::{Dataplane, Maps, Options};

/// A dataplane of this test's own, on a BPF file system of its own; both are gone at the end.
struct Node {
    bpf_dir: PathBuf,
    run_dir: PathBuf,
}

impl Node {
    /// `None`, with the reason printed, where this test cannot run.
    fn start(name: &str) -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("skipped: loading BPF programs needs root");
            return None;
        }
        let run_dir = std::env::temp_dir().join(format!("skep-cli-{name}-{}", std::process::id()));
        let node = Self { bpf_dir: run_dir.join("bpf"), run_dir };
        std::fs::create_dir_all(&node.bpf_dir).unwrap();
        mount(Some("bpf"), &node.bpf_dir, Some("bpf"), MsFlags::empty(), None::<&str>).unwrap();
        Some(node)
    }

    fn load(&self) -> Dataplane {
        self.load_with(&[])
    }

    fn load_with(&self, capacities: &[(&'static str, u32)]) -> Dataplane {
        let capacities = capacities.iter().copied().collect();
        let node_addr4 = Addr::v4([192, 0, 2, 1]);
        let config =
            Config { version: skep_abi::VERSION, flags: 0, node_addr4, node_addr6: Addr::NONE, ..Config::default() };
        Dataplane::open(&Options { bpf_dir: self.bpf_dir.clone(), config, capacities, ..Options::default() }).unwrap()
    }

    fn skep(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_skep"));
        command.arg("--bpf-dir").arg(&self.bpf_dir).arg("--run-dir").arg(&self.run_dir).args(args).output().unwrap()
    }

    fn shows(&self, args: &[&str]) -> String {
        let output = self.skep(args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn json(&self, args: &[&str]) -> serde_json::Value {
        serde_json::from_str(&self.shows(&[args, &["-o", "json"]].concat())).unwrap()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // What was never made need not be removed; the pins go with their file system.
        let _ = umount2(&self.bpf_dir, MntFlags::MNT_DETACH);
        let _ = std::fs::remove_dir_all(&self.run_dir);
    }
}

fn fill(maps: &Maps) {
    let key = FrontendKey { addr: Addr::v4([10, 96, 0, 1]), port_be: 80_u16.to_be(), proto: 6, scope: 0 };
    maps.backends
        .set(
            &5,
            &Backend {
                addr: Addr::v4([10, 0, 0, 1]),
                node: Addr::NONE,
                flags: 0,
                port_be: 80_u16.to_be(),
                proto: 6,
                state: 0,
            },
        )
        .unwrap();
    maps.slots.set(&SlotKey { service: 1, generation: 0, index: 0 }, &5).unwrap();
    maps.frontends.set(&key, &Frontend { service: 1, generation: 0, count: 1, flags: 0, affinity_timeout: 0 }).unwrap();
    let list =
        RuleList { any_peer: Bits::default(), any_port: Bits([1, 0, 0, 0]), flags: rule_list_flags::PEERS, pad: 0 };
    maps.rule_lists.set(&RuleListKey { list: 3, word: 0 }, &list).unwrap();
    maps.peer_rules.set(&PeerKey { identity: 0xab, list: 3, word: 0 }, &Bits([1, 0, 0, 0])).unwrap();
    maps.identities.set(&Addr::v4([10, 0, 0, 9]), &0xab).unwrap();
    let endpoint = Endpoint {
        identity: 0xcd,
        addr4: Addr::v4([10, 0, 0, 1]),
        addr6: Addr::NONE,
        id: 7,
        flags: 0,
        rule_list: [3, 0],
        words: [1, 0],
        mac: [2, 0, 0, 0, 0, 1],
        pad: [0; 6],
    };
    maps.endpoints.set(&12, &endpoint).unwrap();
    let conn = ConnKey {
        local: Addr::v4([10, 0, 0, 1]),
        remote: Addr::v4([10, 0, 0, 9]),
        endpoint: 7,
        local_port_be: 80_u16.to_be(),
        remote_port_be: 40000_u16.to_be(),
        proto: 6,
        kind: 0,
        pad: 0,
    };
    let value = ConnValue {
        expires: u64::MAX,
        tx_packets: 1,
        rx_packets: 2,
        nat_addr: Addr::NONE,
        nat_port_be: 0,
        state: 1,
        flags: 0,
        backend: 0,
    };
    maps.conntrack.set(&conn, &value).unwrap();
}

const NAMES: &str = r#"{
    "services": {"1": {"namespace": "shop", "name": "web", "port": "http"}},
    "backends": {"5": {"namespace": "shop", "pod": "web-1", "node": "n1"}},
    "identities": {"171": {"namespace": "shop", "labels": {"app": "client"}}},
    "endpoints": {"7": {"namespace": "shop", "name": "web-1"}},
    "addresses": {"10.0.0.9": {"namespace": "shop", "name": "client"}},
    "rule_lists": {"3": {"direction": "ingress", "namespace": "shop", "policies": ["allow"], "rules": [{"policy": "allow", "rule": 0}]}}
}"#;

#[test]
fn what_the_kernel_holds_is_shown_by_name() {
    let Some(node) = Node::start("names") else { return };
    let dataplane = node.load();
    fill(dataplane.maps());
    std::fs::write(node.run_dir.join("names.json"), NAMES).unwrap();

    let status = node.json(&["status"]);
    assert_eq!(status["version"], skep_abi::VERSION);
    assert_eq!(status["node_addresses"][0], "192.0.2.1");
    assert_eq!((&status["endpoints"], &status["agent"]), (&1.into(), &serde_json::Value::Null));
    assert!(node.shows(&["status"]).contains("agent          does not answer"));

    let maps = node.json(&["maps"]);
    let frontends = maps.as_array().unwrap().iter().find(|map| map["name"] == "frontends").unwrap().clone();
    assert_eq!((&frontends["entries"], &frontends["type"]), (&1.into(), &"hash".into()));
    for map in maps.as_array().unwrap() {
        let name = map["name"].as_str().unwrap();
        let shown = node.skep(&["maps", name]);
        let rowless = ["config", "events", "fragments"].contains(&name);
        assert_eq!(shown.status.success(), !rowless, "{name}: {}", String::from_utf8_lossy(&shown.stderr));
    }
    assert_eq!(node.json(&["maps", "frontends"])[0]["service_name"], "shop/web:http");

    assert_eq!(node.json(&["services"])[0]["backends"][0]["pod"], "shop/web-1");
    assert_eq!(node.json(&["conntrack"])[0]["remote_pod"], "shop/client");
    assert_eq!(node.json(&["endpoints"])[0]["pod"], "shop/web-1");
    assert_eq!(node.json(&["policy", "shop/web-1"])["ingress"]["rules"][0]["peers"][0], "shop:app=client");
    assert_eq!(node.shows(&["drops"]), "REASON   DIRECTION   PACKETS   BYTES\n");
}

#[test]
fn a_map_that_is_nearly_full_is_named_and_the_exit_code_tells() {
    let Some(node) = Node::start("full") else { return };
    let dataplane = node.load_with(&[("node_addrs", 1000)]);
    let addresses: Vec<Addr> = (0..900_u32).map(|n| Addr::v4((0x0a00_0000 + n).to_be_bytes())).collect();
    let (last, first) = addresses.split_last().unwrap();
    let node_addrs = &dataplane.maps().node_addrs;
    assert!(node_addrs.set_all(first, &vec![NodeAddr { flags: 0 }; first.len()]).is_empty());
    assert_eq!(node.json(&["status"])["nearly_full"], serde_json::json!([]));
    node_addrs.set(last, &NodeAddr { flags: 0 }).unwrap();
    let output = node.skep(&["status"]);
    let shown = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{shown}");
    assert!(shown.contains("nearly full    map node_addrs: 900 of 1000 entries, 90%"), "{shown}");
}

#[test]
fn the_agents_default_sizes_are_those_of_the_kernel_object() {
    let Some(node) = Node::start("sizes") else { return };
    let capacities = node.load().maps().capacities().unwrap();
    for (name, entries) in Capacities::default().maps() {
        let found = capacities.iter().find(|map| map.name == name).unwrap();
        assert_eq!(found.capacity, entries, "{name}");
    }
}

#[test]
fn without_names_numbers_are_shown() {
    let Some(node) = Node::start("numbers") else { return };
    let dataplane = node.load();
    fill(dataplane.maps());
    assert_eq!(node.json(&["services"])[0]["name"], "#1");
    let refused = node.skep(&["policy", "shop/web-1"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("no pod \"shop/web-1\" on this node"));
    std::fs::write(node.run_dir.join("names.json"), "{").unwrap();
    let broken = node.skep(&["services"]);
    assert_eq!(broken.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&broken.stderr).contains("names.json"));
}
