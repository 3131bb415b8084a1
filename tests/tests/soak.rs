//! Two minutes of `cargo xtask soak`.
#![allow(clippy::print_stdout, reason = "figures for whoever reads the test's output")]

use std::time::Duration;

#[test]
fn two_minutes() -> anyhow::Result<()> {
    let summary = skep_tests::soak::run(Duration::from_secs(120), 1)?;
    println!("{} requests, {} lost with a node, {:?}", summary.requests, summary.explained, summary.operations);
    Ok(())
}
