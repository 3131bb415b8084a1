use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

/// Shows what the dataplane of this node holds. Reads the pinned maps; changes nothing.
#[derive(Debug, Parser)]
#[command(name = "skep", version, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) source: Source,
    /// How to print.
    #[arg(short, long, global = true, value_enum, default_value_t = Output::Table)]
    pub(crate) output: Output,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Where things are.
#[derive(Debug, clap::Args)]
pub(crate) struct Source {
    /// Directory of the pinned maps and links.
    #[arg(long, global = true, value_name = "DIR", default_value = "/sys/fs/bpf/skep")]
    pub(crate) bpf_dir: PathBuf,
    /// The agent's directory of sockets and names.
    #[arg(long, global = true, value_name = "DIR", default_value = "/run/skep")]
    pub(crate) run_dir: PathBuf,
    /// File that says what the numbers in the maps stand for [default: names.json in the run directory].
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) names: Option<PathBuf>,
}

impl Source {
    pub(crate) fn names(&self) -> PathBuf {
        self.names.clone().unwrap_or_else(|| self.run_dir.join("names.json"))
    }
}

/// How to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// Aligned columns.
    Table,
    /// JSON.
    Json,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Shows whether the dataplane is there, and how full its maps are. Exit code 1 when one of them is nearly full.
    Status,
    /// Lists the maps, or shows the entries of one.
    Maps {
        /// Name of a map, as bpftool shows it.
        name: Option<String>,
        /// Follow what comes (+) and goes (-), until interrupted. A row that changes goes and comes.
        #[arg(long, requires = "name")]
        watch: bool,
    },
    /// Shows the Services and the backends behind each of their addresses.
    Services,
    /// Shows the connections of the pods of this node.
    Conntrack,
    /// Shows the pods of this node.
    Endpoints,
    /// Shows the compiled rules of a pod.
    Policy {
        /// The pod, as NAMESPACE/NAME, or NAME for the Namespace `default`.
        pod: String,
    },
    /// Shows what was dropped or refused, by reason and direction.
    Drops {
        /// Reasons that did not occur too.
        #[arg(long)]
        all: bool,
    },
    /// Looks a name up as a pod would, and shows each question, its answer and where that comes from. Exit code 1 when
    /// nothing is found.
    Dns {
        /// The name as a program gives it; one with a dot at its end is not searched for. Of an address, its name is shown.
        query: String,
        /// Type of the records [default: A and AAAA, of an address PTR].
        #[arg(value_name = "TYPE")]
        rtype: Option<String>,
        /// The pod's Namespace.
        #[arg(short, long, default_value = "default")]
        namespace: String,
    },
    /// Follows the flow records of the running agent, until interrupted.
    Observe {
        /// Only what was dropped or refused.
        #[arg(long)]
        dropped: bool,
        /// Only flows of or to this pod, as NAMESPACE/NAME.
        #[arg(long, value_name = "POD")]
        pod: Option<String>,
    },
}
