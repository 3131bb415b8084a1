use std::collections::{BTreeSet, HashMap};

use jiff::Timestamp;
use proptest::prelude::*;

use super::*;

fn ranges(texts: &[&str]) -> Vec<Cidr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn ipam(texts: &[&str]) -> Ipam {
    let mut ipam = Ipam::default();
    ipam.set_ranges(&ranges(texts)).unwrap();
    ipam
}

fn owner(container: &str) -> Owner {
    Owner {
        container: container.to_owned(),
        netns: format!("/run/netns/{container}"),
        namespace: "default".to_owned(),
        name: format!("pod-{container}"),
        uid: format!("uid-{container}"),
        labels: BTreeMap::new(),
        named_ports: Vec::new(),
        host_ports: Vec::new(),
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

#[test]
fn gives_one_address_of_each_family() {
    let mut ipam = ipam(&["10.244.3.0/24", "fd00:3::/64"]);
    let first = ipam.allocate(owner("a"), at(0)).unwrap();
    assert_eq!(first.addr4, Some("10.244.3.1".parse().unwrap()));
    assert_eq!(first.addr6, Some("fd00:3::1".parse().unwrap()));
    assert_eq!((first.endpoint, first.progress), (1, Progress::Preparing));
    let second = ipam.allocate(owner("b"), at(0)).unwrap();
    assert_eq!(second.addr4, Some("10.244.3.2".parse().unwrap()));
    assert_eq!(second.endpoint, 2);
}

#[test]
fn asking_again_for_a_container_gives_the_same() {
    let mut ipam = ipam(&["10.244.3.0/24"]);
    let first = ipam.allocate(owner("a"), at(0)).unwrap();
    ipam.ready("a");
    assert_eq!(ipam.get("a").unwrap().progress, Progress::Ready);
    assert_eq!(ipam.allocate(owner("a"), at(9)).unwrap(), first);
}

#[test]
fn a_full_range_says_so_and_keeps_the_other_familys_address() {
    let mut ipam = ipam(&["10.0.0.0/30", "fd00::/64"]);
    ipam.allocate(owner("a"), at(0)).unwrap();
    ipam.allocate(owner("b"), at(0)).unwrap();
    let before = ipam.clone();
    assert_eq!(ipam.allocate(owner("c"), at(0)), Err(IpamError::Exhausted("10.0.0.0/30".to_owned())));
    assert_eq!(ipam, before);
    ipam.release("a").unwrap();
    let third = ipam.allocate(owner("c"), at(0)).unwrap();
    assert_eq!(third.addr4, Some("10.0.0.1".parse().unwrap()));
    assert_eq!(third.endpoint, 3, "the address came back, the endpoint number never does");
}

#[test]
fn without_a_range_nothing_is_given() {
    assert_eq!(Ipam::default().allocate(owner("a"), at(0)), Err(IpamError::NoRange));
    assert_eq!(Ipam::default().set_ranges(&[]), Err(IpamError::NoRange));
    let two = ranges(&["10.0.0.0/24", "10.0.1.0/24"]);
    assert!(matches!(Ipam::default().set_ranges(&two), Err(IpamError::SameFamily(..))));
}

#[test]
fn a_changed_range_leaves_allocations_alone() {
    let mut ipam = ipam(&["10.0.0.0/29"]);
    let old = ipam.allocate(owner("a"), at(0)).unwrap();
    // The new range covers the old address, which is still in use.
    ipam.set_ranges(&ranges(&["10.0.0.0/28"])).unwrap();
    let new = ipam.allocate(owner("b"), at(0)).unwrap();
    assert_ne!(old.addr4, new.addr4);
    assert_eq!(ipam.get("a"), Some(&old));
}

#[test]
fn a_leak_is_told_from_a_sandbox_in_the_making() {
    let mut ipam = ipam(&["10.0.0.0/24"]);
    for (container, created) in [("live", 0), ("making", 95), ("vanished", 95), ("forgotten", 10)] {
        ipam.allocate(owner(container), at(created)).unwrap();
    }
    let live = BTreeSet::from(["live".to_owned()]);
    let leaked = ipam.leaked(&live, |netns| netns != "/run/netns/vanished", at(100), 60);
    assert_eq!(leaked, ["forgotten", "vanished"]);
}

#[derive(Clone, Debug)]
enum Op {
    Allocate(u8),
    Ready(u8),
    Release(u8),
    Restart,
    Register,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0u8..20).prop_map(Op::Allocate),
        2 => (0u8..20).prop_map(Op::Ready),
        3 => (0u8..20).prop_map(Op::Release),
        1 => Just(Op::Restart),
        1 => Just(Op::Register),
    ]
}

proptest! {
    /// Whatever happens: no address has two owners, no endpoint number comes twice, and an address is reused only after
    /// every other free one of its range.
    #[test]
    fn addresses_are_exclusive_and_reused_last(ops in prop::collection::vec(op(), 1..200)) {
        let texts = ["10.0.0.0/28", "fd00::/124"];
        let mut ipam = ipam(&texts);
        let mut endpoints = BTreeSet::new();
        let mut used_at: HashMap<IpAddr, usize> = HashMap::new();
        for (step, op) in ops.into_iter().enumerate() {
            match op {
                Op::Allocate(n) => {
                    let container = n.to_string();
                    let known = ipam.get(&container).is_some();
                    let taken: BTreeSet<IpAddr> = ipam.allocations().flat_map(Allocation::addresses).collect();
                    let result = ipam.allocate(owner(&container), at(0));
                    let Ok(allocation) = result else {
                        prop_assert!(!known && taken.iter().filter(|a| a.is_ipv4()).count() == 14);
                        continue;
                    };
                    if known {
                        continue;
                    }
                    prop_assert!(endpoints.insert(allocation.endpoint));
                    for addr in allocation.addresses() {
                        prop_assert!(!taken.contains(&addr));
                        if let Some(last) = used_at.get(&addr) {
                            let size = if addr.is_ipv4() { 14 } else { 15 };
                            let seen = used_at.keys().filter(|a| a.is_ipv4() == addr.is_ipv4()).count();
                            prop_assert_eq!(seen, size, "reused while others were never used");
                            let free = used_at.iter().filter(|(a, _)| a.is_ipv4() == addr.is_ipv4() && !taken.contains(a));
                            prop_assert_eq!(free.map(|(_, at)| at).min(), Some(last), "not the longest unused");
                        }
                        used_at.insert(addr, step);
                    }
                }
                Op::Ready(n) => ipam.ready(&n.to_string()),
                Op::Release(n) => {
                    if let Some(allocation) = ipam.release(&n.to_string()) {
                        for addr in allocation.addresses() {
                            used_at.insert(addr, step);
                        }
                    }
                }
                Op::Restart => {
                    let text = serde_json::to_string(&ipam).unwrap();
                    let read: Ipam = serde_json::from_str(&text).unwrap();
                    prop_assert_eq!(&read, &ipam);
                    ipam = read;
                }
                Op::Register => ipam.set_ranges(&ranges(&texts)).unwrap(),
            }
        }
    }
}
