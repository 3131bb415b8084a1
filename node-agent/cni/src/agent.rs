use std::fs;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use skep_cni::{Command, FAILED, Failure, MISSED_DELETES, Request, Response, TRY_AGAIN, UNDECODABLE};

use crate::invocation::Config;

/// The agent answers within milliseconds; a runtime gives up on its plugins after minutes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Has the agent do it. With the agent away a DEL is written down for it and counts as done: a runtime must be able to
/// remove a sandbox whatever the state of the node.
pub(crate) fn ask(config: &Config, request: &Request) -> Result<Response, Failure> {
    match exchange(&config.socket, request) {
        Ok(line) => serde_json::from_str(&line)
            .map_err(|error| Failure { code: UNDECODABLE, message: format!("the node agent's answer: {error}") }),
        Err(away) if request.command == Command::Del => {
            remember(&config.state_dir, request).map(|()| Response::Done).map_err(|error| Failure {
                code: FAILED,
                message: format!("the node agent is away ({away}), and the request cannot be kept for it: {error}"),
            })
        }
        Err(away) => {
            let message = format!("the node agent does not answer on {}: {away}", config.socket.display());
            Err(Failure { code: TRY_AGAIN, message })
        }
    }
}

fn exchange(socket: &Path, request: &Request) -> io::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer)?;
    if answer.ends_with('\n') { Ok(answer) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// By rename, so that the agent never reads half a request.
fn remember(state_dir: &Path, request: &Request) -> io::Result<()> {
    let dir = state_dir.join(MISSED_DELETES);
    fs::create_dir_all(&dir)?;
    let temporary = dir.join(format!(".{}.{}", request.container, std::process::id()));
    fs::write(&temporary, serde_json::to_vec(request)?)?;
    fs::rename(&temporary, dir.join(&request.container))
}
