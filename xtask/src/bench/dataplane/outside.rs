//! From a machine outside, through a node port of one node to a pod on another.

use anyhow::{Context as _, Result};
use skep_tests::Spec;
use skep_tests::testbed::{Client, TestCluster};

use super::super::report::{Aim, Row};
use super::super::rules;
use super::measure::{Measured, Target, What};
use super::plain::Plain;
use super::{BENCH, NODE, Options, start};

const OTHER: &str = "node-2";
/// What of the machine outside is measured.
const WHAT: [What; 3] = [What::Connections, What::Datagrams, What::Packets];

/// A cluster whose node ports are measured.
struct Case {
    name: &'static str,
    cluster: &'static str,
    agent_args: &'static [&'static str],
    /// Packets a second, as a multiple of what the rules reach.
    packets: f64,
}

const CASES: [Case; 1] = [Case { name: "NodePort, tc", cluster: "bench-out", agent_args: &[], packets: 1.5 }];

pub(super) fn run(options: &Options) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for case in CASES {
        rows.extend(measure(&case, options)?);
    }
    Ok(rows)
}

fn measure(case: &Case, options: &Options) -> Result<Vec<Row>> {
    println!("cluster of two nodes, node ports, and two machines with rules...");
    let mut spec = Spec::new(case.cluster, 2);
    spec.agent_args.extend(case.agent_args.iter().map(|&arg| arg.to_owned()));
    let cluster = TestCluster::up(spec)?;
    cluster.add_outside()?;
    let plain = Plain::start(&cluster)?;
    start(&cluster, OTHER, "NodePort")?;
    let service = cluster.kubectl().json("get service web")?;
    let port = |index: usize| {
        let port = service["spec"]["ports"][index]["nodePort"].as_u64().and_then(|port| u16::try_from(port).ok());
        port.context("a node port")
    };
    let [node, _] = cluster.node_addresses(NODE)?;
    let ports = Target::NodePorts(node, [port(0)?, port(1)?, port(2)?, port(3)?, port(4)?]);
    let baseline = Target::NodePorts(plain.address().to_owned(), rules::NODE_PORTS);
    let (name, other) = (case.name, format!("nftables beside {}", case.name));
    let client = Client::Outside;
    let mut bench = Measured::new(&cluster, &client, options);
    for _ in 0..options.rounds {
        for what in WHAT {
            bench.measure(name, what, &ports)?;
            bench.measure(&other, what, &baseline)?;
        }
    }
    let mut rows = bench.rows();
    for what in WHAT {
        let aim = if what == What::Packets { Aim::AtLeast(case.packets) } else { Aim::Above(1.0) };
        let value = bench.ratio(what, name, &other)?;
        rows.push(Row::new(BENCH, name, &what.of("nftables"), value, "ratio", aim));
    }
    Ok(rows)
}
