//! Rule sets of the shape that kube-proxy writes, for addresses that Skep does not know: the baselines.

use std::fmt::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use skep_tests::testbed::TestCluster;

/// Address of baseline Service `number`, in a range of its own.
pub(crate) fn address(number: usize) -> String {
    format!("10.97.{}.{}", number / 250, number % 250 + 1)
}

/// A verdict map, as kube-proxy's nftables mode writes it: one lookup leads to the Service's chain, which picks an endpoint.
pub(crate) fn nftables(services: usize, backend: &str) -> String {
    let mut text = String::from("table ip bench {\n");
    let mut map = String::new();
    for number in 0..services {
        let _ = writeln!(text, " chain endpoint-{number} {{\n  meta l4proto tcp dnat to {backend}:8081\n }}");
        let _ = writeln!(
            text,
            " chain service-{number} {{\n  numgen random mod 1 vmap {{ 0 : goto endpoint-{number} }}\n }}"
        );
        let _ = write!(
            map,
            "{}{} . tcp . 80 : goto service-{number}",
            if number == 0 { "" } else { ",\n  " },
            address(number)
        );
    }
    let _ = write!(
        text,
        " map services {{\n  type ipv4_addr . inet_proto . inet_service : verdict\n  elements = {{ {map} }}\n }}\n \
         chain prerouting {{\n  type nat hook prerouting priority dstnat; policy accept;\n  \
         ip daddr . meta l4proto . th dport vmap @services\n }}\n}}\n"
    );
    text
}

/// Chains as kube-proxy's iptables mode writes them: a long list of rules, one a Service, then a chain a Service and one an endpoint.
pub(crate) fn iptables(services: usize, backend: &str) -> String {
    let mut text = String::from("*nat\n:KUBE-SERVICES - [0:0]\n");
    for number in 0..services {
        let _ = writeln!(text, ":KUBE-SVC-{number} - [0:0]\n:KUBE-SEP-{number} - [0:0]");
    }
    text.push_str("-A PREROUTING -j KUBE-SERVICES\n");
    for number in 0..services {
        let ip = address(number);
        let _ = writeln!(text, "-A KUBE-SERVICES -d {ip}/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-{number}");
        let _ = writeln!(text, "-A KUBE-SVC-{number} -j KUBE-SEP-{number}");
        let _ = writeln!(text, "-A KUBE-SEP-{number} -p tcp -m tcp -j DNAT --to-destination {backend}:8081");
    }
    text.push_str("COMMIT\n");
    text
}

/// Feeds a program on a node, `nft -f -` for example.
pub(crate) fn load(cluster: &TestCluster, node: &str, argv: &[&str], input: &str) -> Result<()> {
    use std::io::Write as _;
    let mut child = Command::new("nsenter")
        .args(cluster.enter(node)?)
        .args(argv)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot run nsenter")?;
    child.stdin.take().context("no standard input")?.write_all(input.as_bytes())?;
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!("{argv:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
