//! From a machine outside, through a node port of one node to a pod on another.

use anyhow::{Context as _, Result};
use skep_tests::Spec;
use skep_tests::testbed::{Client, TestCluster};

use super::super::report::{Aim, Row};
use super::super::rules;
use super::measure::{Measured, Target, What};
use super::{BENCH, NODE, Options, start};

const OTHER: &str = "node-2";
/// What of the machine outside is measured.
const WHAT: [What; 2] = [What::Connections, What::Datagrams];

const CASE: &str = "NodePort, tc";

pub(super) fn run(options: &Options) -> Result<Vec<Row>> {
    println!("cluster of two nodes, node ports...");
    let cluster = TestCluster::up(Spec::new("bench-out", 2))?;
    cluster.add_outside()?;
    let (_, server) = start(&cluster, OTHER, "NodePort")?;
    let service = cluster.kubectl().json("get service web")?;
    let port = |index: usize| {
        let port = service["spec"]["ports"][index]["nodePort"].as_u64().and_then(|port| u16::try_from(port).ok());
        port.context("a node port")
    };
    let [node, _] = cluster.node_addresses(NODE)?;
    let ports = Target::NodePorts(node.clone(), [port(0)?, port(1)?, port(2)?, port(3)?]);
    let baseline = Target::NodePorts(node, rules::NODE_PORTS);
    let client = Client::Outside;
    let mut bench = Measured::new(&cluster, &client, options);
    for _ in 0..options.rounds {
        for what in WHAT {
            bench.measure(CASE, what, &ports)?;
        }
        rules::load(&cluster, NODE, &["nft", "-f", "-"], &rules::node_ports(&server))?;
        for what in WHAT {
            bench.measure("NodePort, nftables", what, &baseline)?;
        }
        rules::load(&cluster, NODE, &["nft", "delete", "table", "ip", "bench"], "")?;
    }
    let mut rows = bench.rows();
    for what in WHAT {
        let aim = if what == What::Datagrams { Aim::AtLeast(1.5) } else { Aim::Above(1.0) };
        let value = bench.ratio(what, CASE, "NodePort, nftables")?;
        rows.push(Row::new(BENCH, CASE, &what.of("nftables"), value, "ratio", aim));
    }
    Ok(rows)
}
