//! Reading a container's log file as the runtime writes it.

use std::io::{self, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use skep_agent_core::pods::log_line::LogLine;
use tokio::fs::File;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncSeekExt as _, BufReader};
use tokio::sync::mpsc;

use super::options::LogOptions;

/// How soon a reader that follows sees a new line.
const POLL: Duration = Duration::from_millis(100);
/// Pieces of about this size are sent.
const CHUNK: usize = 16 << 10;

/// Sends what the options ask for; with `follow`, goes on until the container has ended (`runs` is false) and
/// everything that it wrote has been sent, or nobody listens any more.
pub(super) async fn copy(
    path: &Path,
    options: &LogOptions,
    runs: impl Fn() -> bool,
    sender: &mpsc::Sender<io::Result<Bytes>>,
) -> io::Result<()> {
    let Some(mut file) = open(path, options.follow, &runs).await? else { return Ok(()) };
    if let Some(lines) = options.tail {
        let start = tail_start(&mut file, lines).await?;
        file.seek(SeekFrom::Start(start)).await?;
    }
    let mut inode = file.metadata().await?.ino();
    let mut reader = BufReader::new(file);
    let mut form = Form { options: options.clone(), line_start: true, skipping: false, left: options.limit };
    let mut line = Vec::new();
    let mut out = BytesMut::new();
    loop {
        // What was there before the look at the container is all that an ended one wrote.
        let running = options.follow && runs();
        let end = loop {
            let read = reader.read_until(b'\n', &mut line).await?;
            if !line.ends_with(b"\n") {
                break read == 0 && line.is_empty();
            }
            let more = form.write(&line, &mut out);
            line.clear();
            let full = out.len() >= CHUNK || !more;
            if full && !out.is_empty() && sender.send(Ok(out.split().freeze())).await.is_err() || !more {
                return Ok(());
            }
        };
        if !out.is_empty() && sender.send(Ok(out.split().freeze())).await.is_err() {
            return Ok(());
        }
        if !running || sender.is_closed() {
            return Ok(());
        }
        tokio::select! {
            () = tokio::time::sleep(POLL) => {}
            () = sender.closed() => return Ok(()),
        }
        // A log that was rotated goes on in a new file of the same name.
        if end
            && let Ok(metadata) = tokio::fs::metadata(path).await
            && metadata.ino() != inode
        {
            let file = File::open(path).await?;
            inode = file.metadata().await?.ino();
            reader = BufReader::new(file);
        }
    }
}

/// The runtime makes the file when the container starts: one that follows waits for it.
async fn open(path: &Path, follow: bool, runs: impl Fn() -> bool) -> io::Result<Option<File>> {
    loop {
        match File::open(path).await {
            Ok(file) => return Ok(Some(file)),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Err(_) if follow && runs() => tokio::time::sleep(POLL).await,
            Err(_) => return Ok(None),
        }
    }
}

/// Where the last `lines` lines begin.
async fn tail_start(file: &mut File, lines: usize) -> io::Result<u64> {
    const BLOCK: u64 = 64 << 10;
    let length = file.seek(SeekFrom::End(0)).await?;
    if lines == 0 {
        return Ok(length);
    }
    let mut end = length;
    let mut found = 0;
    while end > 0 {
        let start = end.saturating_sub(BLOCK);
        file.seek(SeekFrom::Start(start)).await?;
        let mut block = Vec::new();
        (&mut *file).take(end - start).read_to_end(&mut block).await?;
        for (position, _) in block.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n') {
            let position = start + position as u64;
            // The end of the last line begins no further one.
            if position + 1 == length {
                continue;
            }
            found += 1;
            if found == lines {
                return Ok(position + 1);
            }
        }
        end = start;
    }
    Ok(0)
}

/// Lines of the file, brought into the form that is asked for.
struct Form {
    options: LogOptions,
    /// The last piece ended a line of the container.
    line_start: bool,
    /// The current line is older than what is asked for.
    skipping: bool,
    /// Bytes that may still be written.
    left: Option<u64>,
}

impl Form {
    /// Adds what is to be seen of the line; false once the limit is reached.
    fn write(&mut self, line: &[u8], out: &mut BytesMut) -> bool {
        let Ok(line) = LogLine::parse(line) else {
            // Half a line, where a node crashed.
            return true;
        };
        if self.line_start {
            let older = |since| line.time().is_ok_and(|time| time < since);
            self.skipping = self.options.since.is_some_and(older);
        }
        let starts = std::mem::replace(&mut self.line_start, !line.partial);
        if self.skipping {
            return true;
        }
        let stamp = if self.options.timestamps && starts { line.stamp.as_bytes() } else { b"" };
        let blank: &[u8] = if stamp.is_empty() { b"" } else { b" " };
        let end: &[u8] = if line.partial { b"" } else { b"\n" };
        for part in [stamp, blank, line.text, end] {
            let part = match self.left.as_mut() {
                None => part,
                Some(left) => {
                    let take = part.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                    *left -= take as u64;
                    &part[..take]
                }
            };
            out.extend_from_slice(part);
        }
        self.left != Some(0)
    }
}

#[cfg(test)]
mod tests;
