//! `skep`: shows what the dataplane of this node holds.
//!
//! Reads the pinned maps and the agent's names; changes nothing. Exit code 0 when it could show what was asked for, 1 when
//! not, or when it shows a map that is nearly full, 2 for a wrong command line.

mod agent;
mod args;
mod commands;
mod show;
mod source;
mod table;
mod view;
mod watch;

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    let args = args::Args::parse();
    let mut stdout = io::stdout().lock();
    match commands::run(&args, &mut stdout).and_then(|found| Ok(stdout.flush().map(|()| found)?)) {
        Ok(commands::Found::Yes) => ExitCode::SUCCESS,
        Ok(commands::Found::No) => ExitCode::from(1),
        // The reader has seen enough, as `skep maps | head` does.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("skep: {error:#}");
            ExitCode::from(1)
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
