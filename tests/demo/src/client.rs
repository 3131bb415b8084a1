//! `load`, `connect` and `flow`: one new connection (or connected datagram socket) for each request.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::Options;
use crate::report::Report;

/// Sends `--count` requests, or as many as fit in `--seconds`, and reports who answered.
pub(crate) fn load(target: SocketAddr, options: &Options) -> io::Result<bool> {
    let next = AtomicU64::new(0);
    let count = if options.count == 0 && options.seconds == 0 { 1 } else { options.count };
    let deadline = (options.seconds > 0).then(|| Instant::now() + Duration::from_secs(options.seconds));
    let mut total = Report::default();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..options.concurrency)
            .map(|_| {
                scope.spawn(|| {
                    let mut report = Report::default();
                    while (count == 0 || next.fetch_add(1, Ordering::Relaxed) < count)
                        && deadline.is_none_or(|deadline| Instant::now() < deadline)
                    {
                        let begin = Instant::now();
                        let result = if options.udp { datagram(target, options) } else { request(target, options) };
                        report.count(result, begin.elapsed().as_micros() as u64);
                        std::thread::sleep(Duration::from_millis(options.interval_ms));
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

/// One connection, or one datagram: prints what getpeername and getsockname say, and the answer.
pub(crate) fn connect(target: SocketAddr, options: &Options) -> io::Result<bool> {
    if options.udp {
        let (peer, local, answer) = converse(target, options)?;
        println!(r#"{{"peer":"{peer}","local":"{local}","answer":"{}"}}"#, answer.trim_end());
        return Ok(true);
    }
    let mut stream = TcpStream::connect_timeout(&target, Duration::from_millis(options.timeout_ms))?;
    stream.set_read_timeout(Some(Duration::from_millis(options.timeout_ms)))?;
    let (peer, local) = (stream.peer_addr()?, stream.local_addr()?);
    let answer = exchange(&mut stream)?;
    println!(r#"{{"peer":"{peer}","local":"{local}","answer":"{}"}}"#, answer.trim_end());
    Ok(true)
}

/// Sends `--count` datagrams from one socket, whatever becomes of each.
pub(crate) fn flow(target: SocketAddr, options: &Options) -> io::Result<bool> {
    let socket = UdpSocket::bind(if target.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" })?;
    socket.set_read_timeout(Some(Duration::from_millis(options.timeout_ms)))?;
    if options.connected {
        socket.connect(target)?;
    }
    let mut report = Report::default();
    for _ in 0..options.count.max(1) {
        let begin = Instant::now();
        report.count(ask(&socket, target, options), begin.elapsed().as_micros() as u64);
        std::thread::sleep(Duration::from_millis(options.interval_ms));
    }
    Ok(report.print())
}

fn ask(socket: &UdpSocket, target: SocketAddr, options: &Options) -> io::Result<String> {
    let mut buffer = [0; 2048];
    let length = if options.connected {
        socket.send(b"who\n")?;
        socket.recv(&mut buffer)?
    } else {
        socket.send_to(b"who\n", target)?;
        let (length, from) = socket.recv_from(&mut buffer)?;
        if from != target {
            return Err(io::ErrorKind::AddrNotAvailable.into());
        }
        length
    };
    Ok(String::from_utf8_lossy(&buffer[..length]).into_owned())
}

fn request(target: SocketAddr, options: &Options) -> io::Result<String> {
    let timeout = Duration::from_millis(options.timeout_ms);
    let mut stream = TcpStream::connect_timeout(&target, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_nodelay(true)?;
    exchange(&mut stream)
}

fn exchange(stream: &mut TcpStream) -> io::Result<String> {
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    match answer.split_once("\r\n\r\n") {
        Some((head, body)) if head.contains(" 200 ") => Ok(body.to_owned()),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

fn datagram(target: SocketAddr, options: &Options) -> io::Result<String> {
    converse(target, options).map(|(_, _, answer)| answer)
}

/// A question and its answer in datagrams: the other side as it seems from here, the socket's own address, the answer.
fn converse(target: SocketAddr, options: &Options) -> io::Result<(SocketAddr, SocketAddr, String)> {
    let any = if target.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any)?;
    socket.set_read_timeout(Some(Duration::from_millis(options.timeout_ms)))?;
    let mut buffer = [0; 2048];
    if options.connected {
        // The kernel itself lets only the peer's datagrams and errors through.
        socket.connect(target)?;
        socket.send(b"who\n")?;
        let length = socket.recv(&mut buffer)?;
        let answer = String::from_utf8_lossy(&buffer[..length]).into_owned();
        return Ok((socket.peer_addr()?, socket.local_addr()?, answer));
    }
    socket.send_to(b"who\n", target)?;
    let (length, from) = socket.recv_from(&mut buffer)?;
    // The answer must seem to come from where the question went, or a resolver would throw it away.
    if from != target {
        return Err(io::ErrorKind::AddrNotAvailable.into());
    }
    Ok((from, socket.local_addr()?, String::from_utf8_lossy(&buffer[..length]).into_owned()))
}
