//! `bench`: figures as ratios within one run, against what a user would otherwise have.

mod dataplane;
mod report;
mod rules;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::cluster::as_root;
use crate::{build, setup};

#[derive(Args)]
pub(crate) struct Bench {
    #[command(subcommand)]
    what: What,
    /// Also write the figures to this file, as a JSON array of rows
    #[arg(long, global = true)]
    json: Option<PathBuf>,
}

#[derive(Subcommand)]
enum What {
    /// New connections a second: direct, through ClusterIPs, through nftables and iptables
    Dataplane(dataplane::Options),
}

impl Bench {
    pub(crate) fn run(&self) -> Result<()> {
        as_root(&[])?;
        setup::install(setup::For::Testing)?;
        build::all()?;
        let rows = match &self.what {
            What::Dataplane(options) => dataplane::run(options)?,
        };
        report::print(&rows);
        match &self.json {
            Some(file) => report::write(&rows, file),
            None => Ok(()),
        }
    }
}
