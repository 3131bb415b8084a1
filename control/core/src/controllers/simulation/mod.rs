//! Seeded simulations: every controller and the scheduler over a small API server, with nodes that run pods, and a watch that is
//! late, repeats itself and gets lost. One invariant a file.
//!
//! Each test runs many seeds; a failure names its seed. To run that one alone: `SEED=n cargo test -p skep-control-core NAME`;
//! to run more of them: `SEEDS=n`.

mod binding;
mod endpoints;
mod idle;
mod load_balancers;
mod lost_node;
mod namespaces;
mod replicas;
mod rollout;

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::naming::mix;
use super::testing::{World, node, node_status};
use super::{Engine, Key, Kind, Report, Settings, Work, all};
use crate::api::{Subresource, meta};
use crate::scheduler::Scheduler;

/// Silence after which a node is lost, seconds.
const GRACE: i64 = 10;
/// Stay of pods on a lost node, seconds.
const EVICTION: i64 = 5;

pub(super) struct Sim {
    pub(super) world: World,
    engine: Engine,
    /// Entries of the world's log that the engine has seen.
    seen: usize,
    under_way: Vec<Work>,
    random: u64,
    /// Nodes whose agent runs.
    pub(super) alive: BTreeSet<String>,
    addresses: u64,
    /// Chance in percent that a write is refused for no reason.
    pub(super) refusals: u64,
    /// Chance in percent that pods get ready at a step.
    pub(super) pace: u64,
    /// Reasons of the Events that were noted.
    pub(super) notes: BTreeMap<&'static str, usize>,
}

pub(super) fn settings() -> Settings {
    Settings {
        node_monitor_grace: SignedDuration::from_secs(GRACE),
        node_eviction: SignedDuration::from_secs(EVICTION),
        api_service_addresses: vec!["10.96.0.1".parse().expect("an address")],
        dns_addresses: vec!["10.96.0.10".parse().expect("an address")],
        advertise: Some("192.0.2.1:6443".parse().expect("an address")),
        root_ca: "certificate".to_owned(),
    }
}

/// Runs a test for every seed, or as many as `SEEDS` says, or the one in `SEED`.
pub(super) fn seeds(count: u64, test: impl Fn(u64)) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let count = number("SEEDS").unwrap_or(count);
    let one = number("SEED");
    for seed in one.map_or(0..count, |seed| seed..seed + 1) {
        let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(seed)));
        if let Err(cause) = failed {
            eprintln!("failed with SEED={seed}");
            std::panic::resume_unwind(cause);
        }
    }
}

impl Sim {
    pub(super) fn new(seed: u64, nodes: usize) -> Self {
        let mut world = World::new();
        let mut alive = BTreeSet::new();
        for number in 1..=nodes {
            let name = format!("node-{number}");
            let key = world.must(node(&name));
            world.merge(&key, Some(Subresource::Status), &node_status(world.now)).expect("a status");
            alive.insert(name);
        }
        let mut engine = Engine::new(all(&settings()), Scheduler::default(), seed);
        engine.apply(world.listing(), world.now);
        let seen = world.log.len();
        Self {
            world,
            engine,
            seen,
            under_way: Vec::new(),
            random: seed,
            alive,
            addresses: 0,
            refusals: 2,
            pace: 60,
            notes: BTreeMap::new(),
        }
    }

    /// A number below `bound`.
    pub(super) fn draw(&mut self, bound: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9);
        mix(self.random) % bound.max(1)
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.draw(100) < percent
    }

    /// One random step of everything but users.
    pub(super) fn step(&mut self) {
        match self.draw(10) {
            0..3 => self.deliver(),
            3..5 => {
                if let Some(work) = self.engine.next(self.world.now) {
                    self.under_way.push(work);
                }
            }
            5..7 => self.execute(),
            7..9 => self.run_nodes(),
            _ => {
                let wait = SignedDuration::from_millis(i64::try_from(self.draw(800)).expect("small"));
                self.pass(wait);
            }
        }
    }

    fn pass(&mut self, wait: SignedDuration) {
        let before = self.world.now.as_second();
        self.world.pass(wait);
        if self.world.now.as_second() != before {
            self.beat();
        }
        self.engine.tick(self.world.now);
    }

    /// Leases of living nodes are renewed; a node that was given up reports itself ready again.
    fn beat(&mut self) {
        for name in self.alive.clone() {
            let key = Key::new(Kind::Lease, "kube-node-lease", name.clone());
            let renewed = json!({"spec": {"holderIdentity": name, "renewTime": format!("{:.6}", self.world.now)}});
            if self.world.value(&key).is_none() {
                let mut lease = renewed;
                lease["apiVersion"] = "coordination.k8s.io/v1".into();
                lease["kind"] = "Lease".into();
                lease["metadata"] = json!({"name": name, "namespace": "kube-node-lease"});
                self.world.must(lease);
            } else {
                self.world.merge(&key, None, &renewed).expect("a lease");
            }
            let node = Key::cluster(Kind::Node, name);
            let ready = self.world.value(&node).is_some_and(|node| condition(node, "Ready") == Some("True"));
            if !ready && self.world.value(&node).is_some() {
                let status = node_status(self.world.now);
                self.world.merge(&node, Some(Subresource::Status), &status).expect("a status");
            }
        }
    }

    /// The watch: some changes, sometimes again, sometimes lost and listed anew.
    fn deliver(&mut self) {
        let now = self.world.now;
        if self.chance(2) {
            self.engine.apply(self.world.listing(), now);
            self.seen = self.world.log.len();
            return;
        }
        if self.seen > 0 && self.chance(5) {
            let old = usize::try_from(self.draw(self.seen as u64)).expect("small");
            self.engine.apply(self.world.log[old].clone(), now);
        }
        let most = 1 + usize::try_from(self.draw(6)).expect("small");
        for change in self.world.log.iter().skip(self.seen).take(most).cloned().collect::<Vec<_>>() {
            self.engine.apply(change, now);
            self.seen += 1;
        }
    }

    /// Executes one piece of the work that is under way.
    fn execute(&mut self) {
        if self.under_way.is_empty() {
            return;
        }
        let place = usize::try_from(self.draw(self.under_way.len() as u64)).expect("small");
        let work = self.under_way.swap_remove(place);
        let mut report = Report::default();
        for action in work.actions {
            if self.chance(self.refusals) {
                report.failed = true;
                break;
            }
            match self.world.write(&action.write) {
                Ok(revision) => {
                    report.revision = report.revision.max(revision);
                    if let Some(note) = action.done {
                        *self.notes.entry(note.reason).or_default() += 1;
                    }
                }
                Err(status) => {
                    let stale = status.is_conflict() || status.is_already_exists() || status.is_not_found();
                    let leaving = status.message.contains("leaving");
                    assert!(stale || leaving, "{}: {:?}", status.message, action.write);
                    report.failed = true;
                    break;
                }
            }
        }
        self.engine.finish(work.ticket, report, self.world.now);
    }

    /// Living nodes start their pods, report them ready, and end those that are to go.
    fn run_nodes(&mut self) {
        for key in self.world.keys(Kind::Pod) {
            let Some(pod) = self.world.value(&key).cloned() else { continue };
            let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
            if !self.alive.contains(node) || !self.chance(self.pace) {
                continue;
            }
            if meta::is_deleting(&pod) {
                let options = crate::api::DeleteOptions { grace_period_seconds: Some(0), ..Default::default() };
                self.world.delete(&key, &options).expect("the pod is there");
            } else if condition(&pod, "Ready") != Some("True") {
                self.addresses += 1;
                let address = match pod["status"]["podIP"].as_str() {
                    Some(address) => address.to_owned(),
                    None => format!("10.244.{}.{}", self.addresses / 200, self.addresses % 200 + 1),
                };
                let status = json!({"status": {
                    "phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
                    "conditions": [{
                        "type": "Ready", "status": "True", "lastTransitionTime": meta::time_text(self.world.now),
                    }],
                }});
                self.world.merge(&key, Some(Subresource::Status), &status).expect("a status");
            }
        }
    }

    /// Runs everything without faults until a minute passed in which nothing was written; then nothing is under way.
    pub(super) fn settle(&mut self) {
        let (refusals, pace) = (self.refusals, self.pace);
        self.refusals = 0;
        self.pace = 100;
        let mut quiet = 0;
        for _ in 0..2000 {
            let before = self.writes();
            loop {
                while self.seen < self.world.log.len() {
                    self.engine.apply(self.world.log[self.seen].clone(), self.world.now);
                    self.seen += 1;
                }
                while let Some(work) = self.engine.next(self.world.now) {
                    self.under_way.push(work);
                }
                if self.under_way.is_empty() && self.seen == self.world.log.len() {
                    break;
                }
                self.execute();
            }
            self.run_nodes();
            quiet = if self.writes() == before { quiet + 1 } else { 0 };
            if quiet > 90 {
                self.refusals = refusals;
                self.pace = pace;
                return;
            }
            self.pass(SignedDuration::from_secs(1));
        }
        panic!("does not settle: {:?}", self.world.log.iter().rev().take(4).collect::<Vec<_>>());
    }

    /// Writes so far, heartbeats apart.
    fn writes(&self) -> usize {
        let lease = |change: &super::Change| matches!(change, super::Change::Upsert { object, .. } if object.kind() == Kind::Lease);
        self.world.log.iter().filter(|change| !lease(change)).count()
    }

    pub(super) fn pods(&self, selects: impl Fn(&Value) -> bool) -> Vec<&Value> {
        self.world.values(Kind::Pod).map(|(_, pod)| pod).filter(|pod| selects(pod)).collect()
    }
}

pub(super) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a str> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == kind)?["status"].as_str()
}

/// Counts towards replicas.
pub(super) fn active(pod: &Value) -> bool {
    !meta::is_deleting(pod) && !matches!(pod["status"]["phase"].as_str(), Some("Failed" | "Succeeded"))
}

/// Serves.
pub(super) fn available(pod: &Value) -> bool {
    active(pod) && condition(pod, "Ready") == Some("True")
}
