//! `rate`, `stream`, `rr`, `pps` and `flood`: how fast something goes. Each prints one JSON object with `per_second`.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use crate::Options;

/// Datagrams under way at a time: enough to keep both sides busy, and few enough that no queue overflows.
const WINDOW: usize = 32;

/// Opens connections, each closed by the server at once, as fast as it can; prints connections per second.
pub(crate) fn rate(target: SocketAddr, options: &Options) -> io::Result<bool> {
    each_thread(options, |deadline| {
        let (mut done, mut failed) = (0_u64, 0_u64);
        while Instant::now() < deadline {
            match open_and_wait(target, options) {
                Ok(()) => done += 1,
                Err(_) => failed += 1,
            }
        }
        Ok((done, failed))
    })
}

/// Sends bytes to the sink without end; prints bytes per second.
pub(crate) fn stream(target: SocketAddr, options: &Options) -> io::Result<bool> {
    each_thread(options, |deadline| {
        let mut stream = connect(target, options)?;
        let block = vec![0_u8; 128 * 1024];
        let mut done = 0;
        while Instant::now() < deadline {
            stream.write_all(&block)?;
            done += block.len() as u64;
        }
        Ok((done, 0))
    })
}

/// One byte there and back again over one connection; prints exchanges per second.
pub(crate) fn rr(target: SocketAddr, options: &Options) -> io::Result<bool> {
    each_thread(options, |deadline| {
        let mut stream = connect(target, options)?;
        stream.set_nodelay(true)?;
        let mut done = 0;
        while Instant::now() < deadline {
            stream.write_all(b"x")?;
            stream.read_exact(&mut [0])?;
            done += 1;
        }
        Ok((done, 0))
    })
}

/// Datagrams and their answers, several under way; prints answers per second. A lost one is counted as failed.
pub(crate) fn pps(target: SocketAddr, options: &Options) -> io::Result<bool> {
    each_thread(options, |deadline| {
        let socket = UdpSocket::bind(if target.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" })?;
        socket.set_read_timeout(Some(Duration::from_millis(200)))?;
        if options.connected {
            socket.connect(target)?;
        }
        let send = || if options.connected { socket.send(b"who\n") } else { socket.send_to(b"who\n", target) };
        let mut buffer = [0; 256];
        let (mut done, mut failed) = (0, 0);
        for _ in 0..WINDOW {
            send()?;
        }
        while Instant::now() < deadline {
            match socket.recv(&mut buffer) {
                Ok(_) => {
                    done += 1;
                    send()?;
                }
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    failed += WINDOW as u64;
                    for _ in 0..WINDOW {
                        send()?;
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok((done, failed))
    })
}

/// What the counting server is asked by.
const HOW_MANY: &[u8] = b"how many";

/// Sends datagrams without waiting for anything; prints how many per second arrived.
pub(crate) fn flood(target: SocketAddr, options: &Options) -> io::Result<bool> {
    let socket = UdpSocket::bind(if target.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" })?;
    socket.connect(target)?;
    socket.set_read_timeout(Some(Duration::from_millis(200)))?;
    let before = arrived(&socket)?;
    let begin = Instant::now();
    let deadline = begin + Duration::from_secs(options.seconds.max(1));
    let mut sent = 0_u64;
    while Instant::now() < deadline {
        for _ in 0..64 {
            // A queue that is full loses it: it does not arrive.
            sent += u64::from(socket.send(&[b'x'; 18]).is_ok());
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    let done = arrived(&socket)? - before;
    println!(r#"{{"per_second":{:.1},"ok":{done},"failed":{}}}"#, done as f64 / seconds, sent.saturating_sub(done));
    Ok(done > 0)
}

/// What the server has counted, once its queue is empty.
fn arrived(socket: &UdpSocket) -> io::Result<u64> {
    const TRIES: u32 = 20;
    let mut buffer = [0; 32];
    for _ in 0..TRIES {
        socket.send(HOW_MANY)?;
        if let Ok(length) = socket.recv(&mut buffer) {
            let count = String::from_utf8_lossy(&buffer[..length]).parse();
            return count.map_err(|_| io::ErrorKind::InvalidData.into());
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

/// Counts datagrams, and tells how many there were.
pub(crate) fn count(socket: &UdpSocket) {
    let mut count = 0_u64;
    let mut buffer = [0; 64];
    loop {
        match socket.recv_from(&mut buffer) {
            Ok((length, client)) if &buffer[..length] == HOW_MANY => {
                // A lost answer is asked for again.
                let _ = socket.send_to(count.to_string().as_bytes(), client);
            }
            Ok(_) => count += 1,
            // What an earlier answer met.
            Err(_) => {}
        }
    }
}

/// Runs `work` in `--concurrency` threads for `--seconds` and prints the sum of what they did.
fn each_thread(options: &Options, work: impl Fn(Instant) -> io::Result<(u64, u64)> + Send + Sync) -> io::Result<bool> {
    let begin = Instant::now();
    let deadline = begin + Duration::from_secs(options.seconds.max(1));
    let results: Vec<io::Result<(u64, u64)>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..options.concurrency).map(|_| scope.spawn(|| work(deadline))).collect();
        workers.into_iter().filter_map(|worker| worker.join().ok()).collect()
    });
    let seconds = begin.elapsed().as_secs_f64();
    let (mut done, mut failed) = (0, 0);
    for result in results {
        let (more, lost) = result?;
        done += more;
        failed += lost;
    }
    println!(r#"{{"per_second":{:.1},"ok":{done},"failed":{failed}}}"#, done as f64 / seconds);
    Ok(failed == 0 && done > 0)
}

fn connect(target: SocketAddr, options: &Options) -> io::Result<TcpStream> {
    let timeout = Duration::from_millis(options.timeout_ms);
    let stream = TcpStream::connect_timeout(&target, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    Ok(stream)
}

/// Waits for the server's reset, so that no more connections wait in its queue than there are threads here.
fn open_and_wait(target: SocketAddr, options: &Options) -> io::Result<()> {
    let timeout = Duration::from_millis(options.timeout_ms);
    let closed = TcpStream::connect_timeout(&target, timeout).and_then(|mut stream| {
        stream.set_read_timeout(Some(timeout))?;
        stream.read(&mut [0])
    });
    match closed {
        Ok(0) => Ok(()),
        // The reset may come before connect() returns; a connection that was never made is refused instead.
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(()),
        Ok(_) => Err(io::ErrorKind::InvalidData.into()),
        Err(error) => Err(error),
    }
}

/// Takes connections and resets them, which leaves no TIME_WAIT socket behind.
pub(crate) fn close_at_once(listener: &TcpListener) {
    let linger = nix::libc::linger { l_onoff: 1, l_linger: 0 };
    for stream in listener.incoming().flatten() {
        // Without the option the connection is closed all the same.
        let _ = nix::sys::socket::setsockopt(&stream, nix::sys::socket::sockopt::Linger, &linger);
    }
}

/// Takes bytes and forgets them.
pub(crate) fn sink(listener: &TcpListener) {
    for mut stream in listener.incoming().flatten() {
        std::thread::spawn(move || {
            let mut buffer = vec![0; 256 * 1024];
            while stream.read(&mut buffer).is_ok_and(|length| length > 0) {}
        });
    }
}

/// Sends back what comes.
pub(crate) fn echo(listener: &TcpListener) {
    for mut stream in listener.incoming().flatten() {
        std::thread::spawn(move || {
            // Without the option small answers would wait for each other.
            let _ = stream.set_nodelay(true);
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = stream.read(&mut buffer) {
                if stream.write_all(&buffer[..length]).is_err() {
                    return;
                }
            }
        });
    }
}
