//! Cluster DNS as programs in pods see it: by busybox' own resolver, and by glibc's in what asks for an address.
#![allow(clippy::print_stdout, reason = "figures for whoever reads the test's output")]

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use skep_tests::testbed::{PodPlace, TestCluster};
use skep_tests::{Cluster as _, Member, Spec, manifest};

struct Stage<'a> {
    cluster: &'a TestCluster,
    client: PodPlace,
}

impl Stage<'_> {
    /// What busybox' nslookup prints for a whole name.
    fn lookup(&self, kind: &str, name: &str) -> Result<String> {
        let output = self.cluster.run_in_pod(&self.client, &["nslookup", &format!("-type={kind}"), name])?;
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.push_str(&String::from_utf8_lossy(&output.stderr));
        // The server's own address comes first.
        Ok(text.split_once("\n\n").map_or(text.clone(), |(_, answer)| answer.to_owned()))
    }

    fn expect(&self, kind: &str, name: &str, wanted: &[&str]) -> Result<()> {
        let mut answer = String::new();
        let found = skep_tests::command::wait_until(&format!("{kind} {name}"), Duration::from_secs(5), || {
            answer = self.lookup(kind, name)?;
            Ok(wanted.iter().all(|wanted| answer.contains(wanted)))
        });
        found.with_context(|| format!("wanted {wanted:?}, got: {answer}"))
    }

    /// The name of an address: nslookup turns it around itself when no type is given.
    fn expect_name(&self, address: &str, name: &str) -> Result<()> {
        let output = self.cluster.run_in_pod(&self.client, &["nslookup", address])?;
        let text = String::from_utf8_lossy(&output.stdout);
        ensure!(text.contains(&format!("name = {name}")), "{address}: {text}");
        Ok(())
    }

    /// What a server says that is asked for by name, through glibc and the search path.
    fn page(&self, host: &str) -> Result<String> {
        let port = if host.contains(':') { "" } else { ":80" };
        Ok(self.cluster.demo(&self.client, &format!("connect {host}{port} --timeout-ms 1000"))?.answer)
    }

    fn apply(&self, object: &Value) -> Result<()> {
        self.cluster.kubectl().feed("apply -f -", &object.to_string()).map(drop)
    }
}

fn service(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec})
}

fn start(cluster: &TestCluster) -> Result<Stage<'_>> {
    let kubectl = cluster.kubectl();
    let member = |name: &str, node: &str| {
        manifest::server(name, node)
            .replace("spec:\n", &format!("spec:\n  hostname: {name}\n  subdomain: members\n"))
            .replace("labels: {", "labels: {group: members, ")
    };
    let manifests = manifest::join([
        manifest::client("client", "node-1", "role: client"),
        manifest::service("one").replace("targetPort: http", "targetPort: 8080"),
        member("one", "node-1"),
        member("two", "node-2"),
        service(
            "members",
            &json!({"clusterIP": "None", "selector": {"group": "members"}, "ports": [{"name": "http", "port": 8080}]}),
        )
        .to_string(),
        service("alias", &json!({"type": "ExternalName", "externalName": "one.default.svc.cluster.local"})).to_string(),
        service("v4", &json!({"ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv4"], "ports": [{"port": 80}]}))
            .to_string(),
    ]);
    kubectl.feed("apply -f -", &manifests)?;
    kubectl.run("wait --for=condition=Ready pod --all --timeout=60s")?;
    Ok(Stage { cluster, client: cluster.place("default", "client")? })
}

#[test]
fn every_kind_of_record() -> Result<()> {
    TestCluster::run(Spec::new("t-names", 2), |cluster| {
        let stage = start(cluster)?;
        let kubectl = cluster.kubectl();
        let one = kubectl.json("get service one")?;
        let ip = |index: usize| one["spec"]["clusterIPs"][index].as_str().context("two cluster IPs");
        let (v4, v6) = (ip(0)?, ip(1)?);
        stage.expect("a", "one.default.svc.cluster.local", &[v4])?;
        stage.expect("aaaa", "one.default.svc.cluster.local", &[v6])?;
        stage.expect("srv", "_http._tcp.one.default.svc.cluster.local", &[" 80 one.default.svc.cluster.local"])?;
        stage.expect("srv", "_datagram._udp.one.default.svc.cluster.local", &[" 80 one.default.svc.cluster.local"])?;
        stage.expect_name(v4, "one.default.svc.cluster.local")?;
        stage.expect_name(v6, "one.default.svc.cluster.local")?;
        stage.expect("cname", "alias.default.svc.cluster.local", &["one.default.svc.cluster.local"])?;
        stage.expect("a", "alias.default.svc.cluster.local", &[v4])?;
        let servers = [cluster.place("default", "one")?, cluster.place("default", "two")?];
        let addresses: Vec<&str> = servers.iter().map(|server| server.address.as_str()).collect();
        stage.expect("a", "members.default.svc.cluster.local", &addresses)?;
        stage.expect("a", "two.members.default.svc.cluster.local", &[addresses[1]])?;
        stage.expect(
            "srv",
            "_http._tcp.members.default.svc.cluster.local",
            &["8080 one.members.default.svc.cluster.local", "8080 two.members.default.svc.cluster.local"],
        )?;
        stage.expect_name(addresses[1], "two.members.default.svc.cluster.local")?;
        let dashed = addresses[0].replace('.', "-");
        stage.expect("a", &format!("{dashed}.default.pod.cluster.local"), &[addresses[0]])?;
        stage.expect("a", "kubernetes.default.svc.cluster.local", &["10.96.0.1"])?;
        stage.expect("a", "kube-dns.kube-system.svc.cluster.local", &["10.96.0.10"])?;
        // What is not there: no such name, or no record of that kind.
        stage.expect("a", "nobody.default.svc.cluster.local", &["NXDOMAIN"])?;
        let none = stage.lookup("aaaa", "v4.default.svc.cluster.local")?;
        ensure!(!none.contains("NXDOMAIN") && !none.contains("Address:"), "a name without IPv6: {none}");
        Ok(())
    })
}

#[test]
fn programs_find_services_by_short_names_and_see_changes_at_once() -> Result<()> {
    TestCluster::run(Spec::new("t-search", 2), |cluster| {
        let stage = start(cluster)?;
        for host in ["one", "one.default", "one.default.svc", "one.default.svc.cluster.local", "alias"] {
            let page = stage.page(host)?;
            ensure!(page.starts_with("one "), "{host}: {page}");
        }
        ensure!(stage.page("members:8080")?.contains(' '), "a headless Service has no address");
        // A Service is known as soon as its maps are written.
        for turn in 0..10 {
            let name = format!("fresh-{turn}");
            let spec = json!({"selector": {"app": "two"}, "ports": [{"port": 80, "targetPort": 8080}]});
            stage.apply(&service(&name, &spec))?;
            let begin = std::time::Instant::now();
            skep_tests::command::wait_until(&format!("{name} is known"), Duration::from_secs(5), || {
                Ok(stage.page(&name).is_ok_and(|page| page.starts_with("two ")))
            })?;
            println!("{name}: found and answered {} ms after the API's word", begin.elapsed().as_millis());
            cluster.kubectl().run(&format!("delete service {name}"))?;
            stage.expect("a", &format!("{name}.default.svc.cluster.local"), &["NXDOMAIN"])?;
        }
        // Names go on while the control service is away, and are back soon after an agent is.
        cluster.kill(Member::Control)?;
        ensure!(stage.page("one")?.starts_with("one "), "without the control service");
        cluster.start(Member::Control)?;
        cluster.kill(Member::Agent("node-1"))?;
        cluster.start(Member::Agent("node-1"))?;
        skep_tests::command::wait_until("names are back", Duration::from_secs(10), || {
            Ok(stage.page("one").is_ok_and(|page| page.starts_with("one ")))
        })
    })
}
