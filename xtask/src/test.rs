//! `test`: every crate's own tests, then the end-to-end tests on clusters made for them.

use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use clap::Args;

use crate::cluster::as_root;
use crate::shell::{cargo, run};
use crate::{build, setup};

#[derive(Args)]
pub(crate) struct Test {
    /// Run only this crate (`skep-store`) or end-to-end test (`policy`)
    part: Option<String>,
    /// Passed on to the test program, a test's name for example
    #[arg(last = true)]
    arguments: Vec<String>,
}

/// End-to-end tests, in the order in which they run; each is a file in `tests/tests`.
const END_TO_END: &[&str] = &[
    "cluster",
    "workloads",
    "services",
    "traffic",
    "semantics",
    "changes",
    "many_connections",
    "names",
    "policy",
    "agent_restart",
    "node_failure",
    "control_crash",
    "bad_input",
];

impl Test {
    pub(crate) fn run(&self) -> Result<()> {
        as_root(&[])?;
        setup::install(setup::For::Testing)?;
        let begin = Instant::now();
        match self.part.as_deref() {
            None => {
                require_features()?;
                let mut crates = cargo(["test", "--quiet"]);
                crates.args(["--", "--test-threads=2"]).args(&self.arguments);
                run(&mut crates)?;
                println!("crates: {:.0} s", begin.elapsed().as_secs_f64());
                build::all()?;
                END_TO_END.iter().try_for_each(|name| self.end_to_end(name))?;
            }
            Some(name) if END_TO_END.contains(&name) => {
                build::all()?;
                self.end_to_end(name)?;
            }
            Some(name) => run(cargo(["test", "-p", name, "--"]).args(&self.arguments))?,
        }
        println!("passed in {:.0} s", begin.elapsed().as_secs_f64());
        Ok(())
    }

    /// One file of end-to-end tests. Each test makes its own cluster; two cores carry one at a time.
    fn end_to_end(&self, name: &str) -> Result<()> {
        println!("== {name}");
        let mut test = cargo(["test", "--quiet", "-p", "skep-tests", "--test", name]);
        test.args(["--", "--test-threads=1", "--nocapture"]).args(&self.arguments);
        run(&mut test)
    }
}

/// Tests skip what the kernel cannot do. On a machine that can do everything nothing may be skipped unseen, so the features are looked
/// for first, by other means than the tests'.
fn require_features() -> Result<()> {
    skep_tests::cgroup::v2_root()?;
    let filesystems = std::fs::read_to_string("/proc/filesystems").context("cannot read /proc/filesystems")?;
    if !filesystems.lines().any(|line| line.ends_with("bpf")) {
        bail!("this kernel has no BPF file system");
    }
    if !std::path::Path::new("/sys/kernel/btf/vmlinux").exists() {
        bail!("this kernel has no BTF");
    }
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").context("cannot read the kernel's version")?;
    let mut numbers = release.split(['.', '-']).map_while(|part| part.trim().parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version < (6, 6) {
        println!("skipped: attaching by TCX: this kernel is {}, TCX came with 6.6", release.trim());
    }
    Ok(())
}
