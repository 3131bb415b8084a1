//! A small server and client that runs in test pods: it shows who answered, from where, and what failed.
//!
//! One static binary and threads only, so that an image needs nothing else.

mod client;
mod hold;
mod many;
mod measure;
mod report;
mod server;

use std::process::ExitCode;

const USAGE: &str = "usage:
  skep-demo serve [--port N] [--drain SECONDS]     HTTP on TCP and datagrams on UDP, IPv4 and IPv6;
                                                   N+1 closes at once, N+2 takes bytes (counts datagrams), N+3 sends them back, N+4 too, for very many
  skep-demo load ADDR:PORT [--udp [--connected]] [--count N] [--seconds N] [--concurrency N] [--interval-ms N] [--timeout-ms N]
  skep-demo hold ADDR:PORT [--connections N] [--seconds N]
  skep-demo connect ADDR:PORT [--udp [--connected]]  one connection: prints peer, own address and the answer
  skep-demo flow ADDR:PORT [--connected] [--count N] [--interval-ms N]  one datagram socket for all requests
  skep-demo wait ADDR:PORT [--seconds N]           connects and waits for what ends the connection
  skep-demo rate ADDR:PORT [--seconds N] [--concurrency N]  to the closing port: connections per second
  skep-demo stream ADDR:PORT [--seconds N]         to N+2: bytes per second
  skep-demo rr ADDR:PORT [--seconds N]             to N+3: exchanges of one byte per second
  skep-demo flood ADDR:PORT [--seconds N]          to N+2: datagrams per second that arrive
  skep-demo pps ADDR:PORT [--connected] [--seconds N]  datagrams answered per second
  skep-demo many ADDR:PORT [--connections N] [--concurrency N]  to N+4: all at a time, then a byte there and back on each
  skep-demo pause";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some((command, rest)) = args.split_first() else { return usage("no command") };
    let options = match Options::parse(rest) {
        Ok(options) => options,
        Err(error) => return usage(&error),
    };
    let result = match (command.as_str(), options.target) {
        ("serve", None) => server::serve(&options),
        ("pause", None) => server::wait_for_termination(),
        ("load", Some(target)) => client::load(target, &options),
        ("rate", Some(target)) => measure::rate(target, &options),
        ("connect", Some(target)) => client::connect(target, &options),
        ("flow", Some(target)) => client::flow(target, &options),
        ("stream", Some(target)) => measure::stream(target, &options),
        ("rr", Some(target)) => measure::rr(target, &options),
        ("flood", Some(target)) => measure::flood(target, &options),
        ("pps", Some(target)) => measure::pps(target, &options),
        ("wait", Some(target)) => hold::wait(target, &options),
        ("many", Some(target)) => many::many(target, &options),
        ("hold", Some(target)) => hold::hold(target, &options),
        _ => return usage("unknown command, or a target address is missing"),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("skep-demo: {error}");
            ExitCode::FAILURE
        }
    }
}

fn usage(problem: &str) -> ExitCode {
    eprintln!("skep-demo: {problem}\n{USAGE}");
    ExitCode::from(2)
}

/// Command line options; one set for all commands.
pub(crate) struct Options {
    target: Option<std::net::SocketAddr>,
    port: u16,
    drain: u64,
    udp: bool,
    connected: bool,
    count: u64,
    seconds: u64,
    concurrency: usize,
    connections: usize,
    interval_ms: u64,
    timeout_ms: u64,
}

impl Options {
    fn parse(args: &[String]) -> Result<Self, String> {
        let mut options = Self {
            target: None,
            port: 8080,
            drain: 0,
            udp: false,
            connected: false,
            count: 0,
            seconds: 0,
            concurrency: 1,
            connections: 1,
            interval_ms: 0,
            timeout_ms: 2000,
        };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut number = || -> Result<u64, String> {
                let value = args.next().ok_or_else(|| format!("{arg} needs a number"))?;
                value.parse().map_err(|_| format!("{arg} needs a number, not {value:?}"))
            };
            match arg.as_str() {
                "--port" => options.port = number()?.try_into().map_err(|_| "--port is at most 65535".to_owned())?,
                "--drain" => options.drain = number()?,
                "--udp" => options.udp = true,
                "--connected" => options.connected = true,
                "--count" => options.count = number()?,
                "--seconds" => options.seconds = number()?,
                "--concurrency" => options.concurrency = number()?.clamp(1, 1024) as usize,
                "--connections" => options.connections = number()?.clamp(1, 60_000) as usize,
                "--interval-ms" => options.interval_ms = number()?,
                "--timeout-ms" => options.timeout_ms = number()?.max(1),
                _ => options.target = Some(resolve(arg)?),
            }
        }
        Ok(options)
    }
}

/// An address, or the first of those that a name has.
fn resolve(text: &str) -> Result<std::net::SocketAddr, String> {
    use std::net::ToSocketAddrs as _;
    let mut found =
        text.to_socket_addrs().map_err(|error| format!("{text:?} is neither an option nor HOST:PORT: {error}"))?;
    found.next().ok_or_else(|| format!("{text:?} has no address"))
}
