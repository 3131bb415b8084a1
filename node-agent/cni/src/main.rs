//! The CNI plugin: a thin client of the node agent, which does everything.
//!
//! One binary under two names, because a container runtime has a single directory for plugins and calls two of them for
//! each sandbox: `skep-cni`, and `loopback`, whose work (bringing `lo` up) the agent does along with the rest.

mod agent;
mod invocation;
mod result;

use std::env;
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::process::ExitCode;

use serde_json::Value;
use skep_cni::{Command, FAILED, Failure, INVALID_ENVIRONMENT, Response, UNDECODABLE};

use invocation::Config;

fn main() -> ExitCode {
    let mut version = "1.0.0".to_owned();
    let outcome = run(&mut version);
    let (answer, code) = match outcome {
        Ok(answer) => (answer, ExitCode::SUCCESS),
        Err(failure) => (Some(result::failed(&version, &failure)), ExitCode::FAILURE),
    };
    let written = match answer {
        Some(answer) => writeln!(io::stdout(), "{answer}"),
        None => Ok(()),
    };
    match written {
        Ok(()) => code,
        Err(error) => {
            // The runtime reads standard output only; this is for whoever runs the plugin by hand.
            let _ = writeln!(io::stderr(), "standard output: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What to print, if anything. `version` becomes that of the configuration once it is known.
fn run(version: &mut String) -> Result<Option<Value>, Failure> {
    let invalid = |message: String| Failure { code: INVALID_ENVIRONMENT, message };
    let name = env::var("CNI_COMMAND")
        .map_err(|_| invalid("CNI_COMMAND: required (this is a CNI plugin; a container runtime runs it)".to_owned()))?;
    let command = match name.as_str() {
        "VERSION" => return Ok(Some(result::versions())),
        "ADD" => Command::Add,
        "DEL" => Command::Del,
        "CHECK" => Command::Check,
        other => return Err(invalid(format!("CNI_COMMAND: {other:?} is not one of ADD, DEL, CHECK, VERSION"))),
    };
    let mut text = String::new();
    io::stdin()
        .read_to_string(&mut text)
        .map_err(|error| Failure { code: UNDECODABLE, message: format!("standard input: {error}") })?;
    let config = Config::parse(&text)?;
    version.clone_from(&config.cni_version);
    let request = invocation::request(command, |name| env::var(name).ok())?;

    let called_as = env::args_os().next().unwrap_or_default();
    if Path::new(&called_as).file_name().is_some_and(|name| name == "loopback") {
        return Ok((command == Command::Add).then(|| result::loopback(version, &request)));
    }
    config.require_paths()?;
    match agent::ask(&config, &request)? {
        Response::Added(added) if command == Command::Add => Ok(Some(result::added(version, &request, &added))),
        Response::Done if command != Command::Add => Ok(None),
        Response::Failed(failure) => Err(failure),
        Response::Added(_) | Response::Done => {
            Err(Failure { code: FAILED, message: format!("the node agent's answer does not fit {name}") })
        }
    }
}
