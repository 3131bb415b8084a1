//! Raw HTTP to the API server, for what kubectl itself would not send: through `kubectl proxy`, which brings the credentials.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::kubectl::Kubectl;

/// A running `kubectl proxy`; ends when dropped.
#[derive(Debug)]
pub struct Proxy {
    child: Child,
    address: String,
}

/// Status code and body of an answer.
#[derive(Debug)]
pub struct Answer {
    /// HTTP status code.
    pub code: u16,
    /// The body.
    pub body: Vec<u8>,
}

impl Answer {
    /// The body as JSON; `null` if it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }
}

impl Proxy {
    /// Starts it on a free port of the loopback interface.
    pub fn start(kubectl: &Kubectl) -> Result<Self> {
        let mut command = kubectl.command("proxy --port=0");
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().context("cannot run kubectl proxy")?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no standard output")?).read_line(&mut line)?;
        let Some(address) = line.trim().strip_prefix("Starting to serve on ") else {
            child.kill()?;
            bail!("kubectl proxy said {line:?}");
        };
        Ok(Self { address: address.to_owned(), child })
    }

    /// One request on a connection of its own. HTTP/1.0, so that the answer ends with the connection.
    pub fn request(&self, method: &str, path: &str, content_type: &str, body: &[u8]) -> Result<Answer> {
        let mut stream = TcpStream::connect(&self.address)?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.0\r\nHost: localhost\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n"
        );
        stream.write_all(head.as_bytes())?;
        // A server that refuses a body may answer before it has read it all.
        let sent = stream.write_all(body);
        let mut answer = Vec::new();
        if let Err(error) = stream.read_to_end(&mut answer) {
            sent.and(Err(error)).context("no answer")?;
        }
        let split = answer.windows(4).position(|window| window == b"\r\n\r\n").context("no HTTP answer")?;
        let head = String::from_utf8_lossy(&answer[..split]);
        let code = head.split_whitespace().nth(1).and_then(|code| code.parse().ok()).context("no status code")?;
        Ok(Answer { code, body: answer.split_off(split + 4) })
    }

    /// GET.
    pub fn get(&self, path: &str) -> Result<Answer> {
        self.request("GET", path, "application/json", b"")
    }

    /// POST of JSON.
    pub fn post(&self, path: &str, object: &Value) -> Result<Answer> {
        self.request("POST", path, "application/json", object.to_string().as_bytes())
    }

    /// PUT of JSON.
    pub fn put(&self, path: &str, object: &Value) -> Result<Answer> {
        self.request("PUT", path, "application/json", object.to_string().as_bytes())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
