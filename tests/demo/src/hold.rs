//! `hold`: connections that stay open and are used all the time; shows whether any was reset.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::Options;
use crate::report::Report;

/// Holds `--connections` for `--seconds`, a request every 50 ms on each, and reports.
pub(crate) fn hold(target: SocketAddr, options: &Options) -> io::Result<bool> {
    let deadline = Instant::now() + Duration::from_secs(options.seconds.max(1));
    let timeout = Duration::from_millis(options.timeout_ms);
    let mut total = Report::default();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..options.connections)
            .map(|_| {
                scope.spawn(move || {
                    let mut report = Report::default();
                    match TcpStream::connect_timeout(&target, timeout) {
                        Ok(stream) => use_until(deadline, stream, timeout, &mut report),
                        Err(error) => report.count(Err(error), 0),
                    }
                    report
                })
            })
            .collect();
        for worker in workers {
            if let Ok(report) = worker.join() {
                total.merge(report);
            }
        }
    });
    Ok(total.print())
}

/// Connects, asks once, and waits for at most `--seconds` without saying a word; prints what ended the connection:
/// `Closed`, the kind of an error, or `Open` when nothing did.
pub(crate) fn wait(target: SocketAddr, options: &Options) -> io::Result<bool> {
    let timeout = Duration::from_millis(options.timeout_ms);
    let stream = TcpStream::connect_timeout(&target, timeout)?;
    let mut writer = stream.try_clone()?;
    let mut reader = BufReader::new(stream);
    let answer = exchange(&mut writer, &mut reader)?;
    writer.set_read_timeout(Some(Duration::from_secs(options.seconds.max(1))))?;
    let end = match reader.read(&mut [0]) {
        Ok(0) => "Closed".to_owned(),
        Ok(_) => return Err(io::ErrorKind::InvalidData.into()),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => "Open".to_owned(),
        Err(error) => format!("{:?}", error.kind()),
    };
    println!(r#"{{"answer":"{}","end":"{end}"}}"#, answer.trim_end());
    Ok(true)
}

fn use_until(deadline: Instant, stream: TcpStream, timeout: Duration, report: &mut Report) {
    let mut writer = match stream.set_read_timeout(Some(timeout)).and_then(|()| stream.try_clone()) {
        Ok(writer) => writer,
        Err(error) => return report.count(Err(error), 0),
    };
    let mut reader = BufReader::new(stream);
    while Instant::now() < deadline {
        let begin = Instant::now();
        let result = exchange(&mut writer, &mut reader);
        let failed = result.is_err();
        report.count(result, begin.elapsed().as_micros() as u64);
        if failed {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn exchange(writer: &mut TcpStream, reader: &mut BufReader<TcpStream>) -> io::Result<String> {
    writer.write_all(b"GET / HTTP/1.1\r\nHost: demo\r\n\r\n")?;
    let mut line = String::new();
    let mut length = 0;
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if let Some(value) = line.strip_prefix("Content-Length: ") {
            length = value.trim().parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
        }
        if line.trim_end().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(String::from_utf8_lossy(&body).into_owned())
}
