use std::io;
use std::path::Path;
use std::time::Duration;

use skep_cni::{Failure, Request, Response, UNDECODABLE};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tracing::warn;

use super::Endpoints;
use crate::sockets::bind;

/// Longest request, bytes.
const LONGEST: u64 = 64 * 1024;
/// A plugin sends its request at once.
const PATIENCE: Duration = Duration::from_secs(10);

/// Listens on `socket` and carries requests out, for ever.
///
/// # Errors
/// The socket cannot be made.
pub fn serve(socket: &Path, endpoints: Endpoints) -> io::Result<()> {
    let listener = bind(socket)?;
    tokio::spawn(async move {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let endpoints = endpoints.clone();
                    tokio::spawn(async move {
                        if let Err(problem) = answer(stream, &endpoints).await {
                            warn!(%problem, "CNI plugin");
                        }
                    });
                }
                Err(problem) => {
                    warn!(%problem, "CNI socket");
                    // Out of descriptors, as a rule: passes.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    });
    Ok(())
}

async fn answer(mut stream: UnixStream, endpoints: &Endpoints) -> io::Result<()> {
    let mut line = Vec::new();
    let (read, mut write) = stream.split();
    let mut read = BufReader::new(read.take(LONGEST));
    tokio::time::timeout(PATIENCE, read.read_until(b'\n', &mut line)).await??;
    let response = match serde_json::from_slice::<Request>(&line) {
        // In a task of its own: a plugin that is killed must not leave half of the work done.
        Ok(request) => {
            let endpoints = endpoints.clone();
            tokio::spawn(async move { endpoints.handle(request).await }).await.map_err(io::Error::other)?
        }
        Err(error) => Response::Failed(Failure { code: UNDECODABLE, message: format!("request: {error}") }),
    };
    let mut text = serde_json::to_vec(&response)?;
    text.push(b'\n');
    write.write_all(&text).await
}
