//! `verify` only reads; `fix` is its writing twin.

use anyhow::Result;

use crate::setup;
use crate::shell::{cargo, find, run};

/// Format, lints, dependencies.
pub(crate) fn check() -> Result<()> {
    setup::install(setup::For::Building)?;
    run(&mut cargo(["fmt", "--all", "--check"]))?;
    run(&mut cargo(["clippy", "--quiet", "--all-targets", "--", "--deny", "warnings"]))?;
    run(&mut cargo([
        "clippy",
        "--quiet",
        "--all-targets",
        "-p",
        "skep-tests",
        "-p",
        "skep-demo",
        "--",
        "--deny",
        "warnings",
    ]))?;
    deny()
}

/// Licences, bans and sources of every dependency; the database of advisories is asked where it can be reached.
fn deny() -> Result<()> {
    if find("cargo-deny").is_none() {
        println!("missing: cargo-deny (checks licences and sources of dependencies); building it takes some minutes");
        run(&mut cargo(["install", "cargo-deny", "--locked"]))?;
    }
    run(&mut cargo(["deny", "--offline", "--config", ".deny.toml", "check", "bans", "licenses", "sources"]))
}

/// Formats, and applies what the lints suggest.
pub(crate) fn fix() -> Result<()> {
    run(&mut cargo(["fmt", "--all"]))?;
    run(&mut cargo(["clippy", "--fix", "--allow-dirty", "--allow-staged", "--all-targets"]))?;
    run(&mut cargo(["fmt", "--all"]))
}
