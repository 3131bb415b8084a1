//! `many`: very many connections at a time, and the server that keeps them with one thread.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd as _, RawFd};
use std::time::{Duration, Instant};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::Options;
use crate::report::Report;

/// Opens `--connections`, keeps them all for `--seconds`, then asks once on each; reports how many were answered.
pub(crate) fn many(target: SocketAddr, options: &Options) -> io::Result<bool> {
    allow_files()?;
    let timeout = Duration::from_millis(options.timeout_ms);
    let share = options.connections.div_ceil(options.concurrency);
    let mut report = Report::default();
    let opened: Vec<Vec<io::Result<TcpStream>>> = std::thread::scope(|scope| {
        let open = move |from: usize| -> Vec<_> {
            (from..options.connections.min(from + share))
                .map(|_| TcpStream::connect_timeout(&target, timeout))
                .collect()
        };
        let workers: Vec<_> =
            (0..options.connections).step_by(share).map(|from| scope.spawn(move || open(from))).collect();
        workers.into_iter().filter_map(|worker| worker.join().ok()).collect()
    });
    // Others may still be opening theirs.
    std::thread::sleep(Duration::from_secs(options.seconds));
    for stream in opened.iter().flatten() {
        let begin = Instant::now();
        let answered = match stream {
            Ok(stream) => ask(stream, timeout),
            Err(error) => Err(error.kind().into()),
        };
        report.count(answered.map(|()| "kept".to_owned()), begin.elapsed().as_micros() as u64);
    }
    Ok(report.print())
}

fn ask(mut stream: &TcpStream, timeout: Duration) -> io::Result<()> {
    stream.set_read_timeout(Some(timeout))?;
    stream.write_all(b"x")?;
    stream.read_exact(&mut [0])
}

/// Takes connections and sends back what comes, without a thread for each.
pub(crate) fn keep(listener: &TcpListener) {
    if let Err(error) = try_keep(listener) {
        eprintln!("skep-demo: connections are not kept any more: {error}");
    }
}

fn try_keep(listener: &TcpListener) -> io::Result<()> {
    const LISTENER: u64 = u64::MAX;
    allow_files()?;
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    listener.set_nonblocking(true)?;
    epoll.add(listener, EpollEvent::new(EpollFlags::EPOLLIN, LISTENER))?;
    let mut streams: HashMap<RawFd, TcpStream> = HashMap::new();
    let mut events = [EpollEvent::empty(); 256];
    let mut buffer = [0; 4096];
    loop {
        let count = match epoll.wait(&mut events, EpollTimeout::NONE) {
            Err(nix::errno::Errno::EINTR) => continue,
            count => count?,
        };
        for event in &events[..count] {
            if event.data() == LISTENER {
                while let Ok((stream, _)) = listener.accept() {
                    stream.set_nonblocking(true)?;
                    let fd = stream.as_raw_fd();
                    epoll.add(&stream, EpollEvent::new(EpollFlags::EPOLLIN, fd as u64))?;
                    streams.insert(fd, stream);
                }
                continue;
            }
            let fd = event.data() as RawFd;
            let Some(mut stream) = streams.get(&fd) else { continue };
            let goes_on = match stream.read(&mut buffer) {
                Ok(length @ 1..) => stream.write_all(&buffer[..length]).is_ok(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => true,
                Ok(_) | Err(_) => false,
            };
            if !goes_on {
                // Closing takes it out of the set.
                streams.remove(&fd);
            }
        }
    }
}

/// Raises the limit of open files as far as this process may.
fn allow_files() -> io::Result<()> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    Ok(setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?)
}
