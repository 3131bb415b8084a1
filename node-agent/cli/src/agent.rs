//! The running agent's local socket.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

/// An agent that does not answer in this time does not answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// A name may have to be searched for, and each try be asked of servers that do not answer.
const LOOKUP_PATIENCE: Duration = Duration::from_secs(60);

/// What the agent says of itself.
pub(crate) fn status(socket: &Path) -> Result<Value> {
    let mut body = String::new();
    let mut response = get(socket, "/status")?;
    response.get_ref().set_read_timeout(Some(PATIENCE))?;
    response.read_to_string(&mut body).context("read the agent's status")?;
    serde_json::from_str(&body).context("the agent's status is not JSON")
}

/// What a pod finds under a name. Other servers may have to be asked, so the agent is given more time than otherwise.
pub(crate) fn look_up(socket: &Path, name: &str, rtype: Option<&str>, namespace: &str) -> Result<Value> {
    let mut path = format!("/dns?name={}&namespace={}", escaped(name), escaped(namespace));
    if let Some(rtype) = rtype {
        path.push_str("&type=");
        path.push_str(&escaped(rtype));
    }
    let mut stream = ask(socket, &path, LOOKUP_PATIENCE)?;
    let (code, line) = status_line(&mut stream)?;
    let mut body = String::new();
    stream.read_to_string(&mut body).context("read the agent's answer")?;
    match code.as_str() {
        "200" => serde_json::from_str(&body).context("the agent's answer is not JSON"),
        // It says what is wrong with the question.
        "400" => bail!("{}", body.trim_end()),
        _ => bail!("the agent answers {path} with {line:?}"),
    }
}

/// Percent-encoded, but for letters and digits (RFC 3986, 2.1).
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' => escaped.push(char::from(byte)),
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

/// The agent's flow records, line by line, until it ends.
pub(crate) fn flows(socket: &Path) -> Result<impl Iterator<Item = std::io::Result<String>>> {
    let response = get(socket, "/flows")?;
    response.get_ref().set_read_timeout(None)?;
    Ok(response.lines())
}

/// Asks in HTTP 1.0, so that the answer comes unchunked and ends with the connection; gives what follows its head.
fn get(socket: &Path, path: &str) -> Result<BufReader<UnixStream>> {
    let mut reader = ask(socket, path, PATIENCE)?;
    let (code, line) = status_line(&mut reader)?;
    if code != "200" {
        bail!("the agent answers {path} with {line:?}");
    }
    Ok(reader)
}

fn ask(socket: &Path, path: &str, patience: Duration) -> Result<BufReader<UnixStream>> {
    let mut stream =
        UnixStream::connect(socket).with_context(|| format!("the agent does not answer at {}", socket.display()))?;
    stream.set_read_timeout(Some(patience))?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\nhost: agent\r\n\r\n").as_bytes())?;
    Ok(BufReader::new(stream))
}

/// The code, and all of its line; the rest of the head is skipped.
fn status_line(reader: &mut BufReader<UnixStream>) -> Result<(String, String)> {
    let mut status = String::new();
    reader.read_line(&mut status).context("read the agent's answer")?;
    let code = status.split(' ').nth(1).unwrap_or_default().to_owned();
    loop {
        let mut header = String::new();
        let read = reader.read_line(&mut header).context("read the agent's answer")?;
        if read == 0 || header.trim_end().is_empty() {
            return Ok((code, status.trim_end().to_owned()));
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
    fn a_lookup_says_what_is_wrong_with_it() {
        let path = serve("lookup", "HTTP/1.0 200 OK\r\n\r\n{\"found\":true}");
        let answer = look_up(&path, "web.shop", Some("a"), "x").unwrap();
        std::fs::remove_file(path).unwrap();
        assert_eq!(answer["found"], true);
        let path = serve("lookup-bad", "HTTP/1.0 400 Bad Request\r\n\r\n\"a..b\" is no DNS name\n");
        assert_eq!(look_up(&path, "a..b", None, "x").unwrap_err().to_string(), "\"a..b\" is no DNS name");
        std::fs::remove_file(path).unwrap();
        assert_eq!(escaped("a b&c=%\u{e9}_1.x-y"), "a%20b%26c%3D%25%C3%A9_1.x-y");
    }

    #[test]
    fn refusals_and_absence_are_errors() {
        let path = serve("bad", "HTTP/1.0 404 Not Found\r\n\r\n");
        assert!(status(&path).unwrap_err().to_string().contains("404"));
        std::fs::remove_file(&path).unwrap();
        assert!(status(&path).unwrap_err().to_string().contains("does not answer"));
    }
}
