//! Lines of the logs that CRI runtimes write: `2026-01-02T03:04:05.678901234Z stdout F text`.

use jiff::Timestamp;

/// One line of a log file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LogLine<'a> {
    /// When it was written, as the runtime wrote it.
    pub stamp: &'a str,
    /// Which output it was written to.
    pub stream: LogStream,
    /// The container's line continues in the next line of the file.
    pub partial: bool,
    /// What the container wrote, without a line end.
    pub text: &'a [u8],
}

/// An output of a container.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LogStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// A line that is not in the format of CRI logs.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("not a line of a container log")]
pub struct InvalidLine;

impl<'a> LogLine<'a> {
    /// Takes a line apart; a line end is left out.
    ///
    /// # Errors
    /// The line is not in CRI's format.
    pub fn parse(line: &'a [u8]) -> Result<Self, InvalidLine> {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let mut parts = line.splitn(4, |byte| *byte == b' ');
        let mut word = || parts.next().and_then(|part| std::str::from_utf8(part).ok()).ok_or(InvalidLine);
        let stamp = word()?;
        let stream = match word()? {
            "stdout" => LogStream::Stdout,
            "stderr" => LogStream::Stderr,
            _ => return Err(InvalidLine),
        };
        // Further tags may follow the first one, after colons.
        let partial = match word()?.split(':').next() {
            Some("P") => true,
            Some("F") => false,
            _ => return Err(InvalidLine),
        };
        let text = parts.next().unwrap_or_default();
        Ok(Self { stamp, stream, partial, text })
    }

    /// When it was written.
    ///
    /// # Errors
    /// The time stamp is not one.
    pub fn time(&self) -> Result<Timestamp, InvalidLine> {
        self.stamp.parse().map_err(|_| InvalidLine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let line = LogLine::parse(b"2026-01-02T03:04:05.678901234Z stdout F hello  world\n").unwrap();
        assert_eq!((line.stream, line.partial, line.text), (LogStream::Stdout, false, b"hello  world".as_slice()));
        assert_eq!(line.time().unwrap(), "2026-01-02T03:04:05.678901234Z".parse().unwrap());
        let line = LogLine::parse(b"2026-01-02T03:04:05.6+01:00 stderr P ").unwrap();
        assert_eq!((line.stream, line.partial, line.text), (LogStream::Stderr, true, b"".as_slice()));
        assert_eq!(LogLine::parse(b"2026-01-02T03:04:05Z stdout F:x a").map(|line| line.text), Ok(b"a".as_slice()));
        for bad in [b"".as_slice(), b"hello", b"t stdin F a", b"t stdout X a", b"\xff stdout F a"] {
            assert_eq!(LogLine::parse(bad), Err(InvalidLine));
        }
    }
}
