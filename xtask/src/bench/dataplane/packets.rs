//! What each program costs a packet, by `BPF_PROG_TEST_RUN`: the test `cost_of_a_packet` prints it.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::super::report::{Aim, Row};
use super::BENCH;

/// A packet that a program only lets pass: what every run costs, and is subtracted.
const EMPTY: &str = "ARP, only the program's entry";

pub(super) fn run() -> Result<Vec<Row>> {
    println!("nanoseconds of each program...");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["test", "--quiet", "--package", "skep-dataplane", "--test", "packets", "cost_of_a_packet"]);
    cargo.args(["--", "--nocapture"]);
    let output = cargo.output().context("cannot run cargo")?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    // `IPv4, established, from pod: 123 ns (Pass)`
    let mut costs = Vec::new();
    for line in text.lines() {
        let Some((what, rest)) = line.split_once(": ") else { continue };
        let Some((nanoseconds, _)) = rest.split_once(" ns ") else { continue };
        costs.push((what.to_owned(), nanoseconds.parse::<f64>().with_context(|| format!("in {line:?}"))?));
    }
    let empty = costs.iter().find(|(what, _)| what == EMPTY).context("no cost of an empty run")?.1;
    let row = |(what, cost): &(String, f64)| Row::new(BENCH, what, "a packet", cost - empty, "ns", Aim::None);
    Ok(costs.iter().filter(|(what, _)| what != EMPTY).map(row).collect())
}
