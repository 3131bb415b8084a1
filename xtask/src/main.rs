//! `cargo xtask`: builds, runs, tests and measures Skep.
#![allow(clippy::print_stdout, reason = "a program for people at a terminal")]

mod bench;
mod build;
mod cluster;
mod setup;
mod shell;
mod soak;
mod test;
mod verify;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", about = "Builds, runs, tests and measures Skep")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Install what is missing on this machine to build and run (up and test do this themselves)
    Setup,
    /// Build the programs that a cluster runs
    Build,
    /// Make a cluster on this machine, or complete the one that is there
    Up(cluster::Up),
    /// Remove a cluster and everything that belongs to it
    Down(cluster::Down),
    /// Run a program in a node's namespaces: `cargo xtask exec node-1 -- ip route`
    Exec(cluster::Exec),
    /// Run the tests: all, or those of one part
    Test(test::Test),
    /// Measure
    Bench(bench::Bench),
    /// Keep a cluster busy while everything in it comes and goes; says what cannot be explained
    Soak(soak::Soak),
    /// Check format, lints and dependencies; changes nothing
    Verify,
    /// Put right what `verify` can put right by itself
    Fix,
}

fn main() -> ExitCode {
    let result: Result<()> = match Arguments::parse().command {
        Command::Setup => setup::install(setup::For::Running),
        Command::Build => setup::install(setup::For::Building).and_then(|()| build::all()),
        Command::Up(up) => up.run(),
        Command::Down(down) => down.run(),
        Command::Exec(exec) => exec.run(),
        Command::Test(test) => test.run(),
        Command::Bench(bench) => bench.run(),
        Command::Soak(soak) => soak.run(),
        Command::Verify => verify::check(),
        Command::Fix => verify::fix(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
