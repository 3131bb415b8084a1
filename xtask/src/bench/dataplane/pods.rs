//! From one pod to another on the same node.

use anyhow::Result;
use skep_tests::testbed::TestCluster;
use skep_tests::{Member, Spec};

use super::super::report::{Aim, Row};
use super::super::rules;
use super::measure::{Measured, Target, What};
use super::{BENCH, NODE, Options, create_services, resident, start, wait_for_service};

/// Services of the iptables baseline at the most: it looks at one after the other.
const IPTABLES_SERVICES: usize = 30_000;

/// With socket hooks: directly, through a ClusterIP with one Service and with many, through rule sets.
pub(super) fn run(options: &Options) -> Result<Vec<Row>> {
    println!("cluster of one node...");
    let mut spec = Spec::new("bench", 1);
    // The default range of Service addresses has 65,534.
    if options.services.iter().any(|&services| services > 60_000) {
        spec.control_args.push("--service-cidr=10.112.0.0/14,fd53:6b65:7073::/108".to_owned());
    }
    let cluster = TestCluster::up(spec)?;
    let (client, server) = start(&cluster, NODE, "ClusterIP")?;
    let first = cluster.kubectl().run("get service web -o jsonpath={.spec.clusterIP}")?;
    let mut bench = Measured::new(&cluster, &client, options);
    let direct = Target::Direct(server.clone());
    for _ in 0..options.rounds {
        bench.measure("direct, 1 Service", What::Connections, &direct)?;
        bench.measure("ClusterIP, 1 Service", What::Connections, &Target::Service(first.clone()))?;
    }
    let small = bench.ratio(What::Connections, "ClusterIP, 1 Service", "direct, 1 Service")?;
    let mut ratios = vec![ratio("ClusterIP, 1 Service", &What::Connections.of("direct"), small, Aim::AtLeast(0.97))];
    ratios.extend(residents(&cluster, 1)?);

    let mut there = 0;
    for &services in &options.services {
        println!("{services} Services through the API...");
        let last = create_services(&cluster, there..services)?;
        there = services;
        wait_for_service(&cluster, &client, &last)?;
        let stage = Stage::new(services, &server);
        for _ in 0..options.rounds {
            for what in What::ALL {
                bench.measure(&stage.direct, what, &direct)?;
                bench.measure(&stage.cluster_ip, what, &Target::Service(last.clone()))?;
            }
            for rules in &stage.rules {
                rules::load(&mut rules::on_node(&cluster, NODE, rules.load)?, &rules.text)?;
                for what in What::ALL {
                    bench.measure(&rules.case, what, &Target::Service(rules::address(rules.services - 1)))?;
                }
                rules::load(&mut rules::on_node(&cluster, NODE, rules.unload)?, rules.nothing)?;
            }
        }
        let case = &stage.cluster_ip;
        for what in What::ALL {
            ratios.push(ratio(case, &what.of("direct"), bench.ratio(what, case, &stage.direct)?, Aim::AtLeast(0.97)));
            for rules in &stage.rules {
                let aim = if what == What::Connections { rules.aim } else { Aim::Above(1.0) };
                ratios.push(ratio(case, &what.of(&rules.case), bench.ratio(what, case, &rules.case)?, aim));
            }
        }
        let flat = bench.ratio(What::Connections, case, &stage.direct)? / small;
        ratios.push(ratio(case, "connections of 1 Service (flat)", flat, Aim::AtLeast(0.97)));
        ratios.extend(residents(&cluster, services)?);
    }
    let mut rows = bench.rows();
    rows.extend(ratios);
    Ok(rows)
}

/// What is measured with a number of Services.
struct Stage {
    direct: String,
    cluster_ip: String,
    rules: Vec<Rules>,
}

/// A rule set to compare with.
struct Rules {
    case: String,
    services: usize,
    text: String,
    load: &'static [&'static str],
    unload: &'static [&'static str],
    /// Input of `unload`.
    nothing: &'static str,
    /// For connections.
    aim: Aim,
}

impl Stage {
    fn new(services: usize, server: &str) -> Self {
        let listed = services.min(IPTABLES_SERVICES);
        let iptables = if listed == IPTABLES_SERVICES { Aim::AtLeast(2.2) } else { Aim::Above(1.0) };
        let rules = vec![
            Rules {
                case: format!("nftables, {services} Services"),
                services,
                text: rules::nftables(services, server),
                load: &["nft", "-f", "-"],
                unload: &["nft", "delete", "table", "ip", "bench"],
                nothing: "",
                aim: Aim::AtLeast(1.15),
            },
            Rules {
                case: format!("iptables, {listed} Services"),
                services: listed,
                text: rules::iptables(listed, server),
                load: &["iptables-restore"],
                unload: &["iptables-restore"],
                nothing: "*nat\nCOMMIT\n",
                aim: iptables,
            },
        ];
        let case = |way: &str| format!("{way}, {services} Services");
        Self { direct: case("direct"), cluster_ip: case("ClusterIP"), rules }
    }
}

/// Resident memory of control and agent.
fn residents(cluster: &TestCluster, services: usize) -> Result<Vec<Row>> {
    let row = |(member, name): (Member<'_>, &str)| {
        let figure = format!("resident, {services} Services");
        Ok(Row::new(BENCH, name, &figure, resident(cluster, member)?, "MiB", Aim::None))
    };
    [(Member::Control, "control"), (Member::Agent(NODE), "agent")].into_iter().map(row).collect()
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
