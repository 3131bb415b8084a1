//! What users have today, beside the cluster: two machines without Skep on the nodes' network. The first has node ports by
//! rules, the second a pod behind it.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result};
use skep_tests::command::{ip_batch, run, words};
use skep_tests::namespaces::Machine;
use skep_tests::testbed::TestCluster;
use skep_tests::workspace;

use super::super::rules;

const POD: &str = "10.250.0.2";
const GATEWAY: &str = "169.254.1.1";

pub(super) struct Plain {
    front: Machine,
    server: Child,
}

impl Plain {
    /// The machines, which go with the cluster.
    pub(super) fn start(cluster: &TestCluster) -> Result<Self> {
        let (front, back) = (cluster.add_machine("plain-1", 2)?, cluster.add_machine("plain-2", 3)?);
        let pod = format!("{}-pod", back.netns);
        run(&mut words(&format!("ip netns add {pod}")))?;
        ip_batch(
            Some(&back.netns),
            &[
                format!("link add pod0 type veth peer name eth0 netns {pod}"),
                format!("addr add {GATEWAY}/32 dev pod0 scope link"),
                "link set pod0 up".to_owned(),
                format!("route add {POD}/32 dev pod0"),
            ],
        )?;
        ip_batch(
            Some(&pod),
            &[
                "link set lo up".to_owned(),
                format!("addr add {POD}/32 dev eth0"),
                "link set eth0 up".to_owned(),
                format!("route add default via {GATEWAY} dev eth0 onlink"),
            ],
        )?;
        ip_batch(Some(&front.netns), &[format!("route add {POD}/32 via {}", back.addresses[0])])?;
        for machine in [&front, &back] {
            run(&mut machine.command(&["sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"]))?;
        }
        let program = workspace::demo_program()?;
        let server = Command::new("nsenter")
            .arg(Path::new("--net=/run/netns").join(&pod))
            .arg(program)
            .args(["serve", "--port", "8080"])
            .stdout(Stdio::null())
            .spawn()
            .context("cannot run the server")?;
        rules::load(&mut front.command(&["nft", "-f", "-"]), &rules::node_ports(POD))?;
        Ok(Self { front, server })
    }

    /// The machine with the node ports.
    pub(super) fn address(&self) -> &str {
        &self.front.addresses[0]
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        if let Err(error) = self.server.kill().and_then(|()| self.server.wait()) {
            eprintln!("the baseline's server is still there: {error}");
        }
    }
}
