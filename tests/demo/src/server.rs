//! `serve`: answers with the name of this host and the client's address as seen here.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal};

use crate::{Options, many, measure};

/// Serves until SIGTERM, and for `--drain` seconds after it.
pub(crate) fn serve(options: &Options) -> io::Result<bool> {
    // Blocked before any thread starts, so that only wait_for_termination sees it.
    termination_signals().thread_block()?;
    let name =
        std::env::var("POD_NAME").or_else(|_| nix::unistd::gethostname().map(|n| n.to_string_lossy().into_owned()));
    let name = name.unwrap_or_else(|_| "unknown".to_owned());
    let tcp = TcpListener::bind(("::", options.port))?;
    let udp = UdpSocket::bind(("::", options.port))?;
    // The ports behind the served one are for measuring.
    type Serve = fn(&TcpListener);
    let others = [(1, measure::close_at_once as Serve), (2, measure::sink), (3, measure::echo), (4, many::keep)];
    for (next, serve) in others {
        let listener = TcpListener::bind(("::", options.port.saturating_add(next)))?;
        std::thread::spawn(move || serve(&listener));
    }
    let counted = UdpSocket::bind(("::", options.port.saturating_add(2)))?;
    std::thread::spawn(move || measure::count(&counted));
    println!("serving as {name} on port {}", options.port);
    let udp_name = name.clone();
    std::thread::spawn(move || answer_datagrams(&udp, &udp_name));
    std::thread::spawn(move || {
        for stream in tcp.incoming().flatten() {
            let name = name.clone();
            std::thread::spawn(move || answer_requests(stream, &name));
        }
    });
    wait_for_termination()?;
    println!("terminating, draining for {} s", options.drain);
    std::thread::sleep(Duration::from_secs(options.drain));
    Ok(true)
}

/// Blocks until SIGTERM or SIGINT.
pub(crate) fn wait_for_termination() -> io::Result<bool> {
    let signals = termination_signals();
    signals.thread_block()?;
    signals.wait()?;
    Ok(true)
}

fn termination_signals() -> SigSet {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGTERM);
    signals.add(Signal::SIGINT);
    signals
}

fn answer_datagrams(socket: &UdpSocket, name: &str) {
    let mut buffer = [0; 2048];
    loop {
        if let Ok((_, client)) = socket.recv_from(&mut buffer) {
            // A lost answer is the client's timeout; there is nobody else to tell.
            let _ = socket.send_to(format!("{name} {client}\n").as_bytes(), client);
        }
    }
}

/// Serves HTTP/1.1 with keep-alive: `GET /anything` -> `<name> <client address>`.
fn answer_requests(stream: TcpStream, name: &str) -> Option<()> {
    let client = stream.peer_addr().ok()?;
    let mut writer = stream.try_clone().ok()?;
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    loop {
        line.clear();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let close = line.trim_end().ends_with("HTTP/1.0");
        while line.trim_end() != "" {
            line.clear();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
        }
        let body = format!("{name} {client}\n");
        let connection = if close { "close" } else { "keep-alive" };
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: {connection}\r\n\r\n{body}",
            body.len()
        );
        writer.write_all(answer.as_bytes()).ok()?;
        if close {
            return None;
        }
    }
}
