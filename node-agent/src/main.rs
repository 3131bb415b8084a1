//! The node agent.

use std::process::ExitCode;

use clap::Parser as _;
use skep_agent::agent::Agent;
use skep_agent::config::Config;
use tokio::signal::unix::{SignalKind, signal};
use tracing::{error, info};
use tracing_subscriber::EnvFilter;

/// Threads that run tasks. What the agent does is wait.
const WORKERS: usize = 2;
/// Threads for files and processes at most.
const BLOCKING_THREADS: usize = 16;
/// Bytes of stack a thread may grow to. Reading a Pod without optimisation takes more than half a megabyte; only what is
/// touched is resident.
const STACK: usize = 4 << 20;

fn main() -> ExitCode {
    let config = Config::parse();
    skep_agent::memory::use_few_arenas();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false).init();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .max_blocking_threads(BLOCKING_THREADS)
        .thread_stack_size(STACK)
        .enable_all()
        .build();
    let outcome = match &runtime {
        Ok(runtime) => runtime.block_on(run(config)),
        Err(problem) => Err(anyhow::anyhow!("start threads: {problem}")),
    };
    let code = match outcome {
        Ok(()) => 0,
        Err(problem) => {
            error!("{problem:#}");
            1
        }
    };
    // At once: tasks have nothing to finish, and what they made must stay.
    std::process::exit(code)
}

/// Runs until a signal says to stop.
async fn run(config: Config) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let agent = tokio::select! {
        agent = Agent::start(config) => agent?,
        _ = terminate.recv() => return Ok(()),
        _ = interrupt.recv() => return Ok(()),
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        problem = agent.failed() => return Err(problem),
    }
    info!("agent stops; pods and network go on");
    Ok(())
}
