//! `soak`: a cluster under load while everything in it comes and goes.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Result, ensure};
use clap::Args;

use crate::cluster::as_root;
use crate::{build, setup};

#[derive(Args)]
pub(crate) struct Soak {
    /// How long
    #[arg(long, default_value_t = 30)]
    minutes: u64,
    /// What the order of events is made from; a run prints its own, so that it can be repeated
    #[arg(long)]
    seed: Option<u64>,
}

impl Soak {
    pub(crate) fn run(&self) -> Result<()> {
        ensure!((1..=1440).contains(&self.minutes), "--minutes must be between 1 and 1440");
        as_root(&[])?;
        setup::install(setup::For::Testing)?;
        build::all()?;
        let clock = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        let seed = self.seed.unwrap_or(clock);
        println!("soaking for {} minutes, --seed {seed}", self.minutes);
        let summary = skep_tests::soak::run(Duration::from_secs(self.minutes * 60), seed)?;
        println!("{} requests answered, {} lost with a node, none unexplained", summary.requests, summary.explained);
        for (what, count) in summary.operations {
            println!("{what:<28}{count:>6}");
        }
        println!("map entries are those of the beginning; no agent has grown");
        Ok(())
    }
}
