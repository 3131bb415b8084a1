//! Rule sets of the shape that kube-proxy writes, for addresses that Skep does not know: the baselines.

use std::fmt::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use skep_tests::testbed::TestCluster;

/// Address of baseline Service `number`, in a range of its own.
pub(crate) fn address(number: usize) -> String {
    format!("10.{}.{}.{}", 97 + number / 62_500, number / 250 % 250, number % 250 + 1)
}

/// The measured ports of the last Service beside TCP 80, which every one has: protocol, port, the server's port.
const MORE_PORTS: [(&str, u16, u16); 3] = [("tcp", 81, 8082), ("tcp", 82, 8083), ("udp", 80, 8080)];

/// Every Service port: number of the Service, protocol, port, the server's port.
fn ports(services: usize) -> impl Iterator<Item = (usize, &'static str, u16, u16)> {
    let more = MORE_PORTS.iter().map(move |&(protocol, port, target)| (services - 1, protocol, port, target));
    (0..services).map(|number| (number, "tcp", 80, 8081)).chain(more)
}

/// A verdict map, as kube-proxy's nftables mode writes it: one lookup leads to the Service's chain, which picks an endpoint.
pub(crate) fn nftables(services: usize, backend: &str) -> String {
    let mut text = String::from("table ip bench {\n");
    let mut elements = Vec::new();
    for (index, (number, protocol, port, target)) in ports(services).enumerate() {
        let _ = writeln!(text, " chain endpoint-{index} {{\n  meta l4proto {protocol} dnat to {backend}:{target}\n }}");
        let _ = writeln!(
            text,
            " chain service-{index} {{\n  numgen random mod 1 vmap {{ 0 : goto endpoint-{index} }}\n }}"
        );
        elements.push(format!("{} . {protocol} . {port} : goto service-{index}", address(number)));
    }
    let _ = write!(
        text,
        " map services {{\n  type ipv4_addr . inet_proto . inet_service : verdict\n  elements = {{ {} }}\n }}\n \
         chain prerouting {{\n  type nat hook prerouting priority dstnat; policy accept;\n  \
         ip daddr . meta l4proto . th dport vmap @services\n }}\n}}\n",
        elements.join(",\n  ")
    );
    text
}

/// Chains as kube-proxy's iptables mode writes them: a long list of rules, one a Service, then a chain a Service and one an endpoint.
pub(crate) fn iptables(services: usize, backend: &str) -> String {
    let mut text = String::from("*nat\n:KUBE-SERVICES - [0:0]\n");
    let count = ports(services).count();
    for index in 0..count {
        let _ = writeln!(text, ":KUBE-SVC-{index} - [0:0]\n:KUBE-SEP-{index} - [0:0]");
    }
    text.push_str("-A PREROUTING -j KUBE-SERVICES\n");
    for (index, (number, protocol, port, target)) in ports(services).enumerate() {
        let ip = address(number);
        let _ = writeln!(
            text,
            "-A KUBE-SERVICES -d {ip}/32 -p {protocol} -m {protocol} --dport {port} -j KUBE-SVC-{index}"
        );
        let _ = writeln!(text, "-A KUBE-SVC-{index} -j KUBE-SEP-{index}");
        let _ = writeln!(
            text,
            "-A KUBE-SEP-{index} -p {protocol} -m {protocol} -j DNAT --to-destination {backend}:{target}"
        );
    }
    text.push_str("COMMIT\n");
    text
}

/// Node ports of the nftables baseline, outside of the range that Kubernetes gives: connections, stream, exchanges, datagrams, packets.
pub(crate) const NODE_PORTS: [u16; 5] = [40_080, 40_081, 40_082, 40_080, 40_083];

/// Node ports as kube-proxy's nftables mode writes them: a verdict map, the endpoint's chain, masquerade of marked packets.
pub(crate) fn node_ports(backend: &str) -> String {
    let mut text = String::from("table ip bench {\n");
    let mut elements = Vec::new();
    let targets = [("tcp", 8081), ("tcp", 8082), ("tcp", 8083), ("udp", 8080), ("udp", 8082)];
    for (index, ((protocol, target), port)) in targets.into_iter().zip(NODE_PORTS).enumerate() {
        let _ = writeln!(
            text,
            " chain endpoint-{index} {{\n  meta l4proto {protocol} dnat to {backend}:{target}\n }}\n \
             chain external-{index} {{\n  mark set mark or 0x4000\n  \
             numgen random mod 1 vmap {{ 0 : goto endpoint-{index} }}\n }}"
        );
        elements.push(format!("{protocol} . {port} : goto external-{index}"));
    }
    let _ = write!(
        text,
        " map nodeports {{\n  type inet_proto . inet_service : verdict\n  elements = {{ {} }}\n }}\n \
         chain prerouting {{\n  type nat hook prerouting priority dstnat; policy accept;\n  \
         fib daddr type local meta l4proto . th dport vmap @nodeports\n }}\n \
         chain postrouting {{\n  type nat hook postrouting priority srcnat; policy accept;\n  \
         mark and 0x4000 == 0x4000 masquerade\n }}\n}}\n",
        elements.join(", ")
    );
    text
}

/// A program on a node, to be [loaded](load) with rules.
pub(crate) fn on_node(cluster: &TestCluster, node: &str, argv: &[&str]) -> Result<Command> {
    let mut command = Command::new("nsenter");
    command.args(cluster.enter(node)?).args(argv);
    Ok(command)
}

/// Feeds a program, `nft -f -` for example.
pub(crate) fn load(command: &mut Command, input: &str) -> Result<()> {
    use std::io::Write as _;
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {command:?}"))?;
    child.stdin.take().context("no standard input")?.write_all(input.as_bytes())?;
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
