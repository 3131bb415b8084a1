//! The test bed itself: a cluster comes up, stays as it is when asked again, and goes without a trace.

use std::time::Duration;

use anyhow::{Result, ensure};
use skep_tests::namespaces::NamespaceCluster;
use skep_tests::testbed::TestCluster;
use skep_tests::{Cluster as _, Member, Spec, image, kind, manifest};

#[test]
fn comes_up_and_goes_without_a_trace() -> Result<()> {
    let spec = Spec::new("t-cluster", 2);
    TestCluster::run(spec.clone(), |cluster| {
        let members = [Member::Control, Member::Agent("node-1"), Member::Runtime("node-2")];
        let pids = members.map(|member| cluster.pid(member));
        ensure!(pids.iter().all(Option::is_some), "{pids:?}");

        let again = NamespaceCluster::up(spec, &mut |_, _| {})?;
        ensure!(members.map(|member| again.pid(member)) == pids, "a second `up` restarted something");

        // Something to leave behind: pods with mounts, links, cgroups and pins.
        let kubectl = cluster.kubectl();
        kubectl.feed("apply -f -", &manifest::deployment("web", 3))?;
        kubectl.run("rollout status deployment/web --timeout=60s")?;
        cluster.destroy()?;
        let remains = NamespaceCluster::remains("t-cluster")?;
        ensure!(remains.is_empty(), "left behind: {remains:?}");
        Ok(())
    })
}

#[test]
fn two_clusters_side_by_side() -> Result<()> {
    let clusters = [TestCluster::up(Spec::new("t-left", 1))?, TestCluster::up(Spec::new("t-right", 1))?];
    for cluster in &clusters {
        let kubectl = cluster.kubectl();
        kubectl.feed("apply -f -", &manifest::client("alone", "node-1", "app: alone"))?;
        kubectl.run("wait --for=condition=Ready pod/alone --timeout=60s")?;
    }
    let [left, right] = clusters;
    drop(left);
    right.wait_for(&right.kubectl(), "get pod alone -o jsonpath={.status.phase}", "Running", Duration::from_secs(5))
}

#[test]
fn images_are_there() -> Result<()> {
    TestCluster::run(Spec::new("t-images", 1), |cluster| {
        let listed = cluster.run_on_node("node-1", &["ctr", "--namespace", "k8s.io", "images", "list", "--quiet"])?;
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        for name in [image::PAUSE, image::BUSYBOX, image::DEMO_V1, image::DEMO_V2] {
            ensure!(listed.contains(name), "{name} is not in {listed}");
        }
        Ok(())
    })
}

/// The same cluster on kind, where kind can run at all.
#[test]
fn on_kind() {
    match kind::missing() {
        Some(reason) => println!("skipped: kind backend: {reason}"),
        None => println!("kind is here, and the backend for it is not part of this version"),
    }
}
