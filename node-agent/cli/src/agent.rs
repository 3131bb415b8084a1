//! The running agent's local socket.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

/// An agent that does not answer in this time does not answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// What the agent says of itself.
pub(crate) fn status(socket: &Path) -> Result<Value> {
    let mut body = String::new();
    let mut response = get(socket, "/status")?;
    response.get_ref().set_read_timeout(Some(PATIENCE))?;
    response.read_to_string(&mut body).context("read the agent's status")?;
    serde_json::from_str(&body).context("the agent's status is not JSON")
}

/// The agent's flow records, line by line, until it ends.
pub(crate) fn flows(socket: &Path) -> Result<impl Iterator<Item = std::io::Result<String>>> {
    let response = get(socket, "/flows")?;
    response.get_ref().set_read_timeout(None)?;
    Ok(response.lines())
}

/// Asks in HTTP 1.0, so that the answer comes unchunked and ends with the connection; gives what follows its head.
fn get(socket: &Path, path: &str) -> Result<BufReader<UnixStream>> {
    let mut stream =
        UnixStream::connect(socket).with_context(|| format!("the agent does not answer at {}", socket.display()))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\nhost: agent\r\n\r\n").as_bytes())?;
    let mut reader = BufReader::new(stream);
    let mut status = String::new();
    reader.read_line(&mut status).context("read the agent's answer")?;
    if status.split(' ').nth(1) != Some("200") {
        bail!("the agent answers {path} with {:?}", status.trim_end());
    }
    loop {
        let mut header = String::new();
        let read = reader.read_line(&mut header).context("read the agent's answer")?;
        if read == 0 || header.trim_end().is_empty() {
            return Ok(reader);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::path::PathBuf;

    use super::*;

    fn serve(name: &str, answer: &'static str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("skep-cli-{name}-{}.sock", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 512];
            let _ = stream.read(&mut request).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
        });
        path
    }

    #[test]
    fn the_body_follows_the_head() {
        let path = serve("good", "HTTP/1.0 200 OK\r\ncontent-type: x\r\n\r\n{\"pid\":1}\n{}\n");
        let lines: Vec<_> = flows(&path).unwrap().map(Result::unwrap).collect();
        std::fs::remove_file(path).unwrap();
        assert_eq!(lines, ["{\"pid\":1}", "{}"]);
    }

    #[test]
    fn refusals_and_absence_are_errors() {
        let path = serve("bad", "HTTP/1.0 404 Not Found\r\n\r\n");
        assert!(status(&path).unwrap_err().to_string().contains("404"));
        std::fs::remove_file(&path).unwrap();
        assert!(status(&path).unwrap_err().to_string().contains("does not answer"));
    }
}
