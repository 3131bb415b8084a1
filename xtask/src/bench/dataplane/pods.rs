//! From one pod to another on the same node.

use anyhow::Result;
use skep_tests::testbed::TestCluster;
use skep_tests::{Member, Spec};

use super::super::report::{Aim, Row};
use super::super::rules;
use super::measure::{Measured, Target, What};
use super::{BENCH, NODE, Options, create_services, resident, start, wait_for_service};

/// With socket hooks: directly, through a ClusterIP with one Service and with many, through rule sets.
pub(super) fn run(options: &Options) -> Result<Vec<Row>> {
    println!("cluster of one node...");
    let cluster = TestCluster::up(Spec::new("bench", 1))?;
    let (client, server) = start(&cluster, NODE, "ClusterIP")?;
    let first = cluster.kubectl().run("get service web -o jsonpath={.spec.clusterIP}")?;
    let mut bench = Measured::new(&cluster, &client, options);
    let direct = Target::Direct(server.clone());
    for _ in 0..options.rounds {
        bench.measure("direct, 1 Service", What::Connections, &direct)?;
        bench.measure("ClusterIP, 1 Service", What::Connections, &Target::Service(first.clone()))?;
    }

    let before = [resident(&cluster, Member::Control)?, resident(&cluster, Member::Agent(NODE))?];
    println!("{} Services through the API...", options.services);
    let last = create_services(&cluster, options.services)?;
    wait_for_service(&cluster, &client, &last)?;
    let large = format!("{} Services", options.services);
    let names = ["direct", "ClusterIP", "nftables", "iptables"].map(|way| format!("{way}, {large}"));
    let through = Target::Service(last);
    let baseline = Target::Service(rules::address(options.services - 1));
    let nft = rules::nftables(options.services, &server);
    let iptables = rules::iptables(options.services, &server);
    for _ in 0..options.rounds {
        for what in What::ALL {
            bench.measure(&names[0], what, &direct)?;
            bench.measure(&names[1], what, &through)?;
        }
        rules::load(&cluster, NODE, &["nft", "-f", "-"], &nft)?;
        for what in What::ALL {
            bench.measure(&names[2], what, &baseline)?;
        }
        rules::load(&cluster, NODE, &["nft", "delete", "table", "ip", "bench"], "")?;
        rules::load(&cluster, NODE, &["iptables-restore"], &iptables)?;
        for what in What::ALL {
            bench.measure(&names[3], what, &baseline)?;
        }
        rules::load(&cluster, NODE, &["iptables-restore"], "*nat\nCOMMIT\n")?;
    }

    let mut rows = bench.rows();
    let small = bench.ratio(What::Connections, "ClusterIP, 1 Service", "direct, 1 Service")?;
    rows.push(ratio("ClusterIP, 1 Service", &What::Connections.of("direct"), small, Aim::AtLeast(0.97)));
    for what in What::ALL {
        let to = |other: usize| bench.ratio(what, &names[1], &names[other]);
        rows.push(ratio(&names[1], &what.of("direct"), to(0)?, Aim::AtLeast(0.97)));
        let connections = what == What::Connections;
        let nft = if connections { Aim::AtLeast(1.15) } else { Aim::Above(1.0) };
        rows.push(ratio(&names[1], &what.of("nftables"), to(2)?, nft));
        let iptables = if connections && options.services >= 30_000 { Aim::AtLeast(2.2) } else { Aim::Above(1.0) };
        rows.push(ratio(&names[1], &what.of("iptables"), to(3)?, iptables));
    }
    let flat = bench.ratio(What::Connections, &names[1], &names[0])? / small;
    rows.push(ratio(&names[1], "connections of 1 Service (flat)", flat, Aim::AtLeast(0.97)));
    for (member, name, before) in [(Member::Control, "control", before[0]), (Member::Agent(NODE), "agent", before[1])] {
        rows.push(Row::new(BENCH, name, "resident, 1 Service", before, "MiB", Aim::None));
        rows.push(Row::new(BENCH, name, &format!("resident, {large}"), resident(&cluster, member)?, "MiB", Aim::None));
    }
    Ok(rows)
}

/// By tc alone: what a packet costs that is translated on its way.
pub(super) fn run_tc(options: &Options) -> Result<Vec<Row>> {
    println!("cluster of one node without socket hooks...");
    let mut spec = Spec::new("bench-tc", 1);
    spec.agent_args.push("--no-socket-lb".to_owned());
    let cluster = TestCluster::up(spec)?;
    let (client, server) = start(&cluster, NODE, "ClusterIP")?;
    let address = cluster.kubectl().run("get service web -o jsonpath={.spec.clusterIP}")?;
    let mut bench = Measured::new(&cluster, &client, options);
    for _ in 0..options.rounds {
        for what in What::ALL {
            bench.measure("direct, tc alone", what, &Target::Direct(server.clone()))?;
            bench.measure("ClusterIP, tc alone", what, &Target::Service(address.clone()))?;
        }
    }
    let mut rows = bench.rows();
    for what in What::ALL {
        let figure = bench.ratio(what, "ClusterIP, tc alone", "direct, tc alone")?;
        rows.push(ratio("ClusterIP, tc alone", &what.of("direct"), figure, Aim::None));
    }
    Ok(rows)
}

fn ratio(case: &str, figure: &str, value: f64, aim: Aim) -> Row {
    Row::new(BENCH, case, figure, value, "ratio", aim)
}
