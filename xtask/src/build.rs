//! Builds what a cluster runs.

use anyhow::Result;
use skep_tests::workspace;

use crate::shell::{cargo, run};

/// Control service, agent, CNI plugin, `skep`, and the static demo program for the images.
pub(crate) fn all() -> Result<()> {
    run(&mut cargo([
        "build",
        "--quiet",
        "--profile",
        "cluster",
        "-p",
        "skep-control",
        "-p",
        "skep-agent",
        "-p",
        "skep-cni",
        "-p",
        "skep-cli",
    ]))?;
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let mut demo = cargo(["build", "--quiet", "--profile", "cluster", "-p", "skep-demo", "--target", &target]);
    // A directory of its own: these flags would have everything else built again.
    demo.env("RUSTFLAGS", "-C target-feature=+crt-static").env("CARGO_TARGET_DIR", workspace::target_dir());
    run(&mut demo)
}
