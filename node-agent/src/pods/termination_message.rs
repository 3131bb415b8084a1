//! The last message of a container: a file that it may write, else the end of its log.

use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use skep_agent_core::pods::log_line::LogLine;

/// Kubernetes' limits: bytes of a message, bytes and lines of a log that stands in for one.
const MAX_MESSAGE: u64 = 4096;
const MAX_LOG_BYTES: usize = 2048;
const MAX_LOG_LINES: usize = 80;

/// Reads the file; when it is empty and `log` is given, the end of that.
pub(super) async fn read(file: &Path, log: Option<&str>) -> String {
    let (file, log) = (file.to_owned(), log.map(PathBuf::from));
    let read = tokio::task::spawn_blocking(move || -> std::io::Result<String> {
        let message = head(&file)?;
        match log {
            Some(log) if message.is_empty() => tail(&log),
            _ => Ok(message),
        }
    });
    match read.await {
        Ok(Ok(message)) => message,
        Ok(Err(error)) => {
            tracing::warn!(%error, "cannot read a container's last message");
            String::new()
        }
        Err(_) => String::new(),
    }
}

fn open(path: &Path) -> std::io::Result<Option<std::fs::File>> {
    match std::fs::File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn head(path: &Path) -> std::io::Result<String> {
    let Some(file) = open(path)? else { return Ok(String::new()) };
    let mut bytes = Vec::new();
    file.take(MAX_MESSAGE).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn tail(path: &Path) -> std::io::Result<String> {
    // Each line carries some 40 bytes of its own.
    const WINDOW: u64 = 16 << 10;
    let Some(mut file) = open(path)? else { return Ok(String::new()) };
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(WINDOW)))?;
    let mut bytes = Vec::new();
    file.take(WINDOW).read_to_end(&mut bytes)?;
    let lines: Vec<LogLine<'_>> =
        bytes.split_inclusive(|byte| *byte == b'\n').filter_map(|line| LogLine::parse(line).ok()).collect();
    let mut text = Vec::new();
    for line in lines.iter().skip(lines.len().saturating_sub(MAX_LOG_LINES)) {
        text.extend_from_slice(line.text);
        if !line.partial {
            text.push(b'\n');
        }
    }
    let text = text.split_off(text.len().saturating_sub(MAX_LOG_BYTES));
    Ok(String::from_utf8_lossy(&text).into_owned())
}
