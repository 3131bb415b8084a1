//! Cluster DNS of the agent as a whole: pods ask it over their own interface, it follows the dataplane stream, and it is
//! there again after the agent was killed.
//!
//! Needs root and unshare; skipped, with the reason printed, where these are missing.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test that cannot go on fails"
)]

#[allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "nothing of a test is public, and another one uses the rest"
)]
mod node {
    pub mod plugin;
    pub mod pods;
    pub mod world;
}
mod support;

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use domain::base::iana::{Rcode, Rtype};
use domain::base::{Message, MessageBuilder, Name, ParsedName};
use domain::rdata::AllRecordData;
use node::plugin::Plugin;
use node::pods::Pod;
use node::world::{World, enter};
use serde_json::Value;
use skep_proto::dataplane::v1 as dp;
use skep_proto::dataplane::v1::watch_event::Event as Wire;
use support::eventually;

const SERVERS: [&str; 2] = ["10.96.0.53", "fd00:96::53"];
const ARGS: [&str; 5] =
    ["--no-socket-lb", "--cluster-dns", "10.96.0.53,fd00:96::53", "--cluster-domain", "cluster.local"];
const WEB: &str = "web.shop.svc.cluster.local";

fn at(revision: u64, event: Wire) -> dp::WatchEvent {
    dp::WatchEvent { revision, event: Some(event), ..Default::default() }
}

fn service(ip: &str) -> Wire {
    Wire::Service(dp::Service {
        namespace: "shop".to_owned(),
        name: "web".to_owned(),
        uid: "service-uid".to_owned(),
        cluster_ips: vec![ip.to_owned()],
        ports: vec![dp::ServicePort {
            name: "http".to_owned(),
            protocol: dp::Protocol::Tcp.into(),
            port: 80,
            node_port: 0,
        }],
        r#type: dp::ServiceType::ClusterIp.into(),
        ..Default::default()
    })
}

/// The code and the data of the answer; `None` when there is none.
fn ask(server: IpAddr, name: &str) -> Option<(Rcode, Vec<String>)> {
    let mut builder = MessageBuilder::new_vec().question();
    builder.header_mut().set_rd(true);
    builder.push((Name::<Vec<u8>>::vec_from_str(name).unwrap(), Rtype::A)).unwrap();
    let any = if server.is_ipv4() { IpAddr::from([0, 0, 0, 0]) } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0)).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    socket.connect(SocketAddr::new(server, 53)).ok()?;
    socket.send(&builder.finish()).ok()?;
    let mut buffer = [0; 1500];
    let length = socket.recv(&mut buffer).ok()?;
    let message = Message::from_octets(&buffer[..length]).unwrap();
    let data = message
        .answer()
        .unwrap()
        .map(|record| record.unwrap().to_any_record::<AllRecordData<_, ParsedName<_>>>().unwrap().data().to_string());
    Some((message.header().rcode(), data.collect()))
}

fn found(ip: &str) -> Option<(Rcode, Vec<String>)> {
    Some((Rcode::NOERROR, vec![ip.to_owned()]))
}

/// As the command line's program asks.
fn explain(world: &World, query: &str) -> Value {
    let mut stream = UnixStream::connect(world.run_dir().join("agent.sock")).unwrap();
    write!(stream, "GET /dns?{query} HTTP/1.0\r\nhost: agent\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(" 200 "), "{answer}");
    serde_json::from_str(body).unwrap()
}

#[test]
fn pods_resolve_names_through_the_agent() {
    if !enter("pods_resolve_names_through_the_agent") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let mut world = World::new().await;
        story(&mut world).await;
    });
}

async fn story(world: &mut World) {
    let mut agent = world.start_agent(&ARGS);
    let plugin = Plugin::new(world);
    eventually("conflist", async || world.conflist().exists().then_some(())).await;
    let stream = world.peer.next_dataplane().await;
    let servers = SERVERS.map(|server| server.parse::<IpAddr>().unwrap());
    eventually("listening", async || {
        (world.status().await?["dns"]["listening"].as_array()?.len() == servers.len()).then_some(())
    })
    .await;
    assert_eq!(ask(servers[0], WEB), Some((Rcode::SERVFAIL, Vec::new())), "before the state is complete");
    stream.send(at(9, Wire::SnapshotBegin(dp::SnapshotBegin {}))).await;
    let shop = dp::Namespace { name: "shop".to_owned(), ..dp::Namespace::default() };
    stream.send(at(9, Wire::Namespace(shop.clone()))).await;
    stream.send(at(9, service("10.96.0.20"))).await;
    stream.send(at(9, Wire::Synced(dp::Synced {}))).await;
    eventually("synced", async || (world.status().await?["dataplane"]["synced"] == true).then_some(())).await;

    let mut pod = Pod::new("client");
    plugin.add(&mut pod, "1.0.0");
    for server in servers {
        assert_eq!(pod.inside(move || ask(server, WEB)), found("10.96.0.20"), "from a pod to {server}");
        assert_eq!(ask(server, WEB), found("10.96.0.20"), "from the node to {server}");
    }
    let explained = explain(world, "name=web&namespace=shop&type=A");
    assert_eq!(explained["found"], true);
    assert_eq!(explained["steps"][0]["origin"]["objects"][0], "Service shop/web");

    stream.send(at(10, service("10.96.0.21"))).await;
    eventually("the new address", async || {
        (pod.inside(move || ask(servers[0], WEB)) == found("10.96.0.21")).then_some(())
    })
    .await;
    let status = world.status().await.unwrap();
    assert_eq!((&status["dns"]["revision"], &status["dns"]["services"]), (&10.into(), &1.into()));
    assert!(status["dns"]["queries"]["A"].as_u64().unwrap() >= 6, "{}", status["dns"]);

    let index = |links: &str| {
        let line = links.lines().find(|line| line.starts_with("skep-dns")).unwrap_or_else(|| panic!("{links}"));
        line.to_owned()
    };
    let before = index(&world.links());
    agent.kill();
    drop(stream);
    assert_eq!(index(&world.links()), before, "the interface outlives the agent");
    let again = world.start_agent(&ARGS);
    let stream = world.peer.next_dataplane().await;
    stream.send(at(20, Wire::SnapshotBegin(dp::SnapshotBegin {}))).await;
    stream.send(at(20, Wire::Namespace(shop))).await;
    stream.send(at(20, service("10.96.0.22"))).await;
    stream.send(at(20, Wire::Synced(dp::Synced {}))).await;
    eventually("names again", async || (pod.inside(move || ask(servers[1], WEB)) == found("10.96.0.22")).then_some(()))
        .await;
    plugin.delete(&pod);
    again.stop_cleanly();

    let without = world.start_agent(&["--no-socket-lb", "--no-cluster-dns"]);
    eventually("no interface", async || (!world.links().contains("skep-dns")).then_some(())).await;
    without.stop_cleanly();
}
