//! Every kind of Service address from everywhere that traffic can come from, one cell of a table after the other.
//!
//! A cell is one connection (or one exchange of datagrams). It is right when the one backend that the Service has answers,
//! sees the source address that it should, and the client sees the address that it asked for.
//!
//! | client | what cannot be, and why |
//! | --- | --- |
//! | outside | `ClusterIP`: no route leads there, as on any cluster; its own backend: it is no pod |
//! | host process, host-network pod | without socket hooks: when tc sees a packet of the host it has been routed already, by an address that leads nowhere |
//! | host process, host-network pod | its own backend: the servers are pods with addresses of their own |
#![allow(clippy::print_stdout, reason = "the table is for whoever reads the test's output")]

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use skep_tests::command::output;
use skep_tests::testbed::{Client, TestCluster};
use skep_tests::{Spec, image};

/// Where the client is, or by whose address the client outside comes in.
const HERE: &str = "node-1";
/// Where the other backend is.
const THERE: &str = "node-2";
/// A node without client or backend.
const ELSEWHERE: &str = "node-3";

const HOST_PORT: u16 = 9080;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    ClusterIp,
    /// Port of the client's own node.
    NodePort,
    /// Port of a node that has neither client nor backend.
    NodePortElsewhere,
    LoadBalancer,
    ExternalIp,
    HostPort,
}

const KINDS: [Kind; 6] =
    [Kind::ClusterIp, Kind::NodePort, Kind::NodePortElsewhere, Kind::LoadBalancer, Kind::ExternalIp, Kind::HostPort];

/// How the client speaks.
const PROTOCOLS: [&str; 3] = ["", "--udp", "--udp --connected"];

/// A place of the client, and what to call it.
struct Place {
    name: &'static str,
    client: Client,
    /// Its addresses as servers should see them, IPv4 and IPv6.
    addresses: [IpAddr; 2],
    /// The server that it is itself.
    own: Option<&'static str>,
}

/// A Service with one backend.
struct Target {
    server: &'static str,
    node: &'static str,
    /// Addresses of each family.
    cluster_ips: [IpAddr; 2],
    load_balancers: [IpAddr; 2],
    external_ips: [IpAddr; 2],
    /// TCP and UDP.
    node_ports: [u16; 2],
}

/// What is known of the cluster.
struct World {
    /// Addresses of the nodes by name.
    nodes: BTreeMap<String, [IpAddr; 2]>,
    targets: Vec<Target>,
    places: Vec<Place>,
    /// Node that answers for each load balancer address.
    announcers: BTreeMap<IpAddr, String>,
}

struct Cell<'a> {
    place: &'a Place,
    target: &'a Target,
    kind: Kind,
    protocol: &'static str,
    /// 0 for IPv4, 1 for IPv6.
    family: usize,
}

impl fmt::Display for Cell<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = if self.protocol.is_empty() { "--tcp" } else { self.protocol };
        let whose = if self.place.own == Some(self.target.server) {
            "itself"
        } else if self.target.node == HERE {
            "local"
        } else {
            "remote"
        };
        write!(f, "{} -> {:?} {protocol} IPv{} {whose}", self.place.name, self.kind, [4, 6][self.family])
    }
}

impl Cell<'_> {
    fn address(&self, world: &World) -> Result<SocketAddr> {
        let target = self.target;
        let node = |name: &str| world.nodes.get(name).map(|addresses| addresses[self.family]).context("a node");
        let node_port = target.node_ports[usize::from(!self.protocol.is_empty())];
        Ok(match self.kind {
            Kind::ClusterIp => SocketAddr::new(target.cluster_ips[self.family], 80),
            Kind::NodePort => SocketAddr::new(node(HERE)?, node_port),
            Kind::NodePortElsewhere => SocketAddr::new(node(ELSEWHERE)?, node_port),
            Kind::LoadBalancer => SocketAddr::new(target.load_balancers[self.family], 80),
            Kind::ExternalIp => SocketAddr::new(target.external_ips[self.family], 80),
            Kind::HostPort => SocketAddr::new(node(target.node)?, HOST_PORT),
        })
    }

    /// The client's address as the server should see it.
    fn source(&self, world: &World, address: SocketAddr, mode: Mode) -> Result<IpAddr> {
        let own = self.place.addresses[self.family];
        // Connected datagram sockets of pods are left to tc, so that they can move to another backend.
        let by_tc = !mode.socket_hooks || self.protocol.contains("--connected");
        if self.place.own == Some(self.target.server) && by_tc {
            // The pod would not take a packet from its own address.
            return Ok(address.ip());
        }
        if !matches!(self.place.client, Client::Outside) || self.kind == Kind::HostPort {
            return Ok(own);
        }
        // The node by which the packet comes in; it gives its own address when it has to send the packet on.
        let entry = match self.kind {
            Kind::NodePortElsewhere => ELSEWHERE,
            Kind::LoadBalancer => world.announcers.get(&address.ip()).context("nobody announces it")?,
            _ => HERE,
        };
        if entry == self.target.node {
            return Ok(own);
        }
        Ok(world.nodes.get(entry).context("a node")?[self.family])
    }

    /// Whether there can be such traffic; see the table above.
    fn can_be(&self, mode: Mode) -> bool {
        match self.place.client {
            Client::Pod(_) if self.place.own.is_some() || self.place.name == "pod" => true,
            Client::Pod(_) | Client::Host(_) => mode.socket_hooks,
            Client::Outside => self.kind != Kind::ClusterIp,
        }
    }

    fn run(&self, cluster: &TestCluster, world: &World, mode: Mode) -> Result<()> {
        let address = self.address(world)?;
        let report =
            cluster.demo_from(&self.place.client, &format!("connect {address} {} --timeout-ms 1500", self.protocol))?;
        let (server, source) = report.answer.split_once(' ').context("an answer with name and address")?;
        let source = source.parse::<SocketAddr>()?.ip().to_canonical();
        ensure!(server == self.target.server, "{server} answered");
        let expected = self.source(world, address, mode)?;
        ensure!(source == expected, "the server saw {source}, not {expected}");
        ensure!(report.peer == address.to_string(), "the client saw {}, not {address}", report.peer);
        Ok(())
    }
}

/// How the cluster is run.
#[derive(Clone, Copy)]
struct Mode {
    socket_hooks: bool,
    overlay: bool,
}

fn server(name: &str, node: &str) -> String {
    format!(
        r#"apiVersion: v1
kind: Pod
metadata:
  name: {name}
  labels: {{app: {name}}}
spec:
  nodeSelector: {{kubernetes.io/hostname: {node}}}
  terminationGracePeriodSeconds: 1
  containers:
  - name: server
    image: {image}
    args: [serve, --port, "8080"]
    ports:
    - {{containerPort: 8080, hostPort: {HOST_PORT}, protocol: TCP}}
    - {{containerPort: 8080, hostPort: {HOST_PORT}, protocol: UDP}}
---
"#,
        image = image::DEMO_V1
    )
}

fn client(name: &str, host_network: bool) -> String {
    format!(
        r#"apiVersion: v1
kind: Pod
metadata:
  name: {name}
spec:
  hostNetwork: {host_network}
  nodeSelector: {{kubernetes.io/hostname: {HERE}}}
  terminationGracePeriodSeconds: 1
  containers:
  - name: client
    image: {image}
    args: [pause]
---
"#,
        image = image::DEMO_V1
    )
}

fn service(name: &str, external_ips: &[IpAddr; 2]) -> String {
    let [v4, v6] = external_ips;
    format!(
        r#"apiVersion: v1
kind: Service
metadata:
  name: {name}
spec:
  type: LoadBalancer
  ipFamilyPolicy: RequireDualStack
  externalIPs: ["{v4}", "{v6}"]
  selector: {{app: {name}}}
  ports:
  - {{name: http, port: 80, targetPort: 8080, protocol: TCP}}
  - {{name: datagram, port: 80, targetPort: 8080, protocol: UDP}}
---
"#
    )
}

/// The first addresses of the ranges for load balancers are the pool's, later ones the `externalIPs`.
fn external_ips(cluster: &TestCluster, number: u8) -> Result<[IpAddr; 2]> {
    let [v4, v6] = cluster.load_balancer_ranges();
    let nth = |range: &str| -> Result<IpAddr> {
        let (base, _) = range.split_once('/').context("a prefix")?;
        Ok(match base.parse()? {
            IpAddr::V4(ip) => IpAddr::V4((ip.to_bits() + 8 + u32::from(number)).into()),
            IpAddr::V6(ip) => IpAddr::V6((ip.to_bits() + 8 + u128::from(number)).into()),
        })
    };
    Ok([nth(&v4)?, nth(&v6)?])
}

fn pool(cluster: &TestCluster) -> String {
    let [v4, v6] = cluster.load_balancer_ranges().map(|range| {
        // The first half of a range of 16.
        range.replace("/28", "/29").replace("/124", "/125")
    });
    format!(
        r#"apiVersion: skep.io/v1alpha1
kind: AddressPool
metadata:
  name: outside
spec:
  addresses: ["{v4}", "{v6}"]
---
"#
    )
}

fn two(value: &serde_json::Value) -> Result<[IpAddr; 2]> {
    let address = |index: usize| -> Result<IpAddr> {
        let item = &value[index];
        let text = item.as_str().or_else(|| item["ip"].as_str()).or_else(|| item["address"].as_str());
        Ok(text.with_context(|| format!("two addresses in {value}"))?.parse()?)
    };
    Ok([address(0)?, address(1)?])
}

fn target(cluster: &TestCluster, server: &'static str, node: &'static str, number: u8) -> Result<Target> {
    let kubectl = cluster.kubectl();
    let service = kubectl.json(&format!("get service {server}"))?;
    let node_port = |index: usize| {
        let port = service["spec"]["ports"][index]["nodePort"].as_u64().and_then(|port| u16::try_from(port).ok());
        port.context("a node port")
    };
    Ok(Target {
        server,
        node,
        cluster_ips: two(&service["spec"]["clusterIPs"])?,
        load_balancers: two(&service["status"]["loadBalancer"]["ingress"])?,
        external_ips: external_ips(cluster, number)?,
        node_ports: [node_port(0)?, node_port(1)?],
    })
}

fn build(cluster: &TestCluster) -> Result<World> {
    let outside = cluster.add_outside()?;
    let kubectl = cluster.kubectl();
    let mut manifests = pool(cluster);
    for (number, (name, node)) in [("server-1", HERE), ("server-2", THERE)].into_iter().enumerate() {
        manifests.push_str(&server(name, node));
        manifests.push_str(&service(name, &external_ips(cluster, u8::try_from(number)?)?));
    }
    manifests.push_str(&client("pod", false));
    manifests.push_str(&client("host-pod", true));
    kubectl.feed("apply -f -", &manifests)?;
    kubectl.run("wait --for=condition=Ready pod --all --timeout=60s")?;
    for name in ["server-1", "server-2"] {
        let line = format!("wait --for=jsonpath={{.status.loadBalancer.ingress[1].ip}} service/{name} --timeout=20s");
        kubectl.run(&line)?;
    }
    let targets = vec![target(cluster, "server-1", HERE, 0)?, target(cluster, "server-2", THERE, 1)?];
    let mut nodes = BTreeMap::new();
    for name in [HERE, THERE, ELSEWHERE] {
        let [v4, v6] = cluster.node_addresses(name)?;
        nodes.insert(name.to_owned(), [v4.parse()?, v6.parse()?]);
    }
    // Traffic to an externalIP comes to a node by means of the network's own.
    for target in &targets {
        for (address, node) in target.external_ips.iter().zip(nodes[HERE]) {
            let argv = format!("ip route add {address} via {node}");
            let done = output(&mut cluster.outside_command(&argv.split(' ').collect::<Vec<_>>()))?;
            ensure!(done.status.success(), "{argv}: {}", String::from_utf8_lossy(&done.stderr));
        }
    }
    let announcers = announcers(cluster, &targets)?;
    let pod = |name: &str| -> Result<(Client, [IpAddr; 2])> {
        let status = kubectl.json(&format!("get pod {name}"))?;
        Ok((Client::Pod(cluster.place("default", name)?), two(&status["status"]["podIPs"])?))
    };
    let (own_client, own_addresses) = pod("server-1")?;
    let (pod_client, pod_addresses) = pod("pod")?;
    let (host_pod, _) = pod("host-pod")?;
    let [v4, v6] = outside;
    let places = vec![
        Place { name: "pod", client: pod_client, addresses: pod_addresses, own: None },
        Place { name: "server pod", client: own_client, addresses: own_addresses, own: Some("server-1") },
        Place { name: "host process", client: Client::Host(HERE.to_owned()), addresses: nodes[HERE], own: None },
        Place { name: "host-network pod", client: host_pod, addresses: nodes[HERE], own: None },
        Place { name: "outside", client: Client::Outside, addresses: [v4.parse()?, v6.parse()?], own: None },
    ];
    Ok(World { nodes, targets, places, announcers })
}

/// The node that answers for each load balancer address; there must be exactly one.
fn announcers(cluster: &TestCluster, targets: &[Target]) -> Result<BTreeMap<IpAddr, String>> {
    let mut found: BTreeMap<IpAddr, String> = BTreeMap::new();
    let wanted: Vec<IpAddr> = targets.iter().flat_map(|target| target.load_balancers).collect();
    skep_tests::command::wait_until("every address is announced", Duration::from_secs(10), || {
        found.clear();
        for node in [HERE, THERE, ELSEWHERE] {
            let shown = cluster.skep(node, "maps announced -o json")?;
            let rows: serde_json::Value = serde_json::from_slice(&shown.stdout)?;
            for row in rows.as_array().context("rows")? {
                let address: IpAddr = row["address"].as_str().context("an address")?.parse()?;
                if let Some(other) = found.insert(address, node.to_owned()) {
                    anyhow::bail!("{address} is announced by {other} and {node}");
                }
            }
        }
        Ok(wanted.iter().all(|address| found.contains_key(address)))
    })?;
    Ok(found)
}

fn table(name: &str, mode: Mode) -> Result<()> {
    let mut spec = Spec::new(name, 3);
    if !mode.socket_hooks {
        spec.agent_args.push("--no-socket-lb".to_owned());
    }
    if mode.overlay {
        spec.agent_args.push("--routing=vxlan".to_owned());
    }
    TestCluster::run(spec, |cluster| {
        let world = build(cluster)?;
        let mut passed = 0;
        let mut wrong = Vec::new();
        let mut cannot_be = 0;
        for place in &world.places {
            for target in &world.targets {
                for kind in KINDS {
                    for protocol in PROTOCOLS {
                        for family in 0..2 {
                            let cell = Cell { place, target, kind, protocol, family };
                            if !cell.can_be(mode) {
                                cannot_be += 1;
                            } else if let Err(error) = cell.run(cluster, &world, mode) {
                                wrong.push(format!("{cell}: {error:#}"));
                            } else {
                                passed += 1;
                            }
                        }
                    }
                }
            }
        }
        println!("{passed} cells right, {} wrong, {cannot_be} cannot be", wrong.len());
        if !wrong.is_empty() {
            for node in world.nodes.keys() {
                println!("{node}:\n{}", String::from_utf8_lossy(&cluster.skep(node, "drops")?.stdout));
            }
        }
        ensure!(wrong.is_empty(), "wrong:\n{}", wrong.join("\n"));
        Ok(())
    })
}

#[test]
fn socket_hooks() -> Result<()> {
    table("t-traffic", Mode { socket_hooks: true, overlay: false })
}

#[test]
fn tc_alone() -> Result<()> {
    table("t-traffic-tc", Mode { socket_hooks: false, overlay: false })
}

#[test]
fn socket_hooks_overlay() -> Result<()> {
    table("t-traffic-vx", Mode { socket_hooks: true, overlay: true })
}

#[test]
fn tc_alone_overlay() -> Result<()> {
    table("t-traffic-tc-vx", Mode { socket_hooks: false, overlay: true })
}
