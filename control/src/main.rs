//! `skep-control`: the control service.

use std::process::ExitCode;

use clap::Parser;
use skep_control::config::{Cli, Command};
use skep_control::{pki, serve};
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    match run(cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Serve(config) => {
            config.check()?;
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
            let served = runtime.block_on(serve::run(config));
            // What is still running when the service has ended is of no use to anybody.
            runtime.shutdown_background();
            served
        }
        Command::NodeCert(config) => Ok(pki::issue_node(&config.data_dir, &config.name, &config.address, &config.out)?),
    }
}
