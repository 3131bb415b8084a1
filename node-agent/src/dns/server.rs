//! Sockets, and the tasks that serve them.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::{Mutex, Semaphore};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::{debug, warn};

use super::exchange::framed;
use super::responder::{Handled, Responder, Transport};

/// Sockets for one address over UDP; the kernel spreads clients over them.
const UDP_SOCKETS: usize = 2;
/// Datagrams are kept while all are busy; bytes.
const UDP_QUEUE: usize = 1 << 20;
/// Connections at one time.
const CONNECTIONS: usize = 512;
/// How long a connection may be silent (RFC 7766, 6.2.3: a few seconds).
const IDLE: Duration = Duration::from_secs(10);
/// Connections that wait to be accepted.
const BACKLOG: i32 = 256;

/// Serves some addresses, until it is dropped.
#[derive(Debug)]
pub(super) struct Server {
    _tasks: JoinSet<()>,
}

impl Server {
    /// Listens on all of `addrs`, over UDP and TCP. Must be called inside a tokio runtime.
    pub(super) fn start(responder: &Arc<Responder>, addrs: &[SocketAddr]) -> io::Result<Self> {
        let mut tasks = JoinSet::new();
        for &addr in addrs {
            for _ in 0..UDP_SOCKETS {
                let socket = socket(addr, Type::DGRAM, Protocol::UDP)?;
                // The kernel gives what it has.
                if let Err(problem) = socket.set_recv_buffer_size(UDP_QUEUE) {
                    debug!(%problem, "a short queue for datagrams");
                }
                let socket = Arc::new(UdpSocket::from_std(socket.into())?);
                tasks.spawn(serve_datagrams(socket, Arc::clone(responder)));
            }
            let socket = socket(addr, Type::STREAM, Protocol::TCP)?;
            socket.listen(BACKLOG)?;
            let listener = TcpListener::from_std(socket.into())?;
            tasks.spawn(accept(listener, Arc::clone(responder)));
        }
        Ok(Self { _tasks: tasks })
    }
}

fn socket(addr: SocketAddr, kind: Type, protocol: Protocol) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(addr), kind, Some(protocol))?;
    if kind == Type::DGRAM {
        socket.set_reuse_port(true)?;
    } else {
        // Connections of the agent before may still be closing.
        socket.set_reuse_address(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&addr.into())?;
    Ok(socket)
}

async fn serve_datagrams(socket: Arc<UdpSocket>, responder: Arc<Responder>) {
    // No question is longer than what is offered to take; a longer one is cut, and so malformed.
    let mut buffer = vec![0; 4096];
    loop {
        let (length, client) = match socket.recv_from(&mut buffer).await {
            Ok(received) => received,
            Err(problem) => {
                // Reports of clients that are gone come back this way, too.
                debug!(%problem, "DNS over UDP");
                tokio::task::yield_now().await;
                continue;
            }
        };
        match responder.handle(&buffer[..length], Transport::Udp) {
            Handled::Reply(reply) => send(&socket, &reply, client).await,
            Handled::Later(later) => {
                let (socket, responder) = (Arc::clone(&socket), Arc::clone(&responder));
                tokio::spawn(async move { send(&socket, &responder.finish(later).await, client).await });
            }
            Handled::Silence => {}
        }
    }
}

async fn send(socket: &UdpSocket, reply: &[u8], client: SocketAddr) {
    if let Err(problem) = socket.send_to(reply, client).await {
        debug!(%client, %problem, "a DNS answer was not sent");
    }
}

async fn accept(listener: TcpListener, responder: Arc<Responder>) {
    let free = Arc::new(Semaphore::new(CONNECTIONS));
    // Connections end with the listener.
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        // Never closed.
        let Ok(permit) = Arc::clone(&free).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, client)) => {
                let responder = Arc::clone(&responder);
                connections.spawn(async move {
                    if let Err(problem) = serve_stream(stream, responder).await {
                        debug!(%client, %problem, "DNS over TCP");
                    }
                    drop(permit);
                });
            }
            Err(problem) => {
                warn!(%problem, "DNS over TCP");
                // Out of descriptors, as a rule: passes.
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn serve_stream(stream: TcpStream, responder: Arc<Responder>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut reader, writer) = stream.into_split();
    let writer = Arc::new(Mutex::new(writer));
    // Questions that wait for others end with the connection.
    let mut waiting = JoinSet::new();
    loop {
        while waiting.try_join_next().is_some() {}
        let message = match timeout(IDLE, next(&mut reader)).await {
            Ok(Ok(Some(message))) => message,
            Ok(Ok(None)) | Err(_) if waiting.is_empty() => return Ok(()),
            // The client may close its side before the answers have come.
            Ok(Ok(None)) | Err(_) => {
                while waiting.join_next().await.is_some() {}
                return Ok(());
            }
            Ok(Err(problem)) => return Err(problem),
        };
        match responder.handle(&message, Transport::Tcp) {
            Handled::Reply(reply) => write(&writer, &reply).await?,
            Handled::Later(later) => {
                let (writer, responder) = (Arc::clone(&writer), Arc::clone(&responder));
                waiting.spawn(async move {
                    let reply = responder.finish(later).await;
                    if let Err(problem) = write(&writer, &reply).await {
                        debug!(%problem, "a DNS answer was not sent");
                    }
                });
            }
            // Not DNS: nothing that follows would be understood.
            Handled::Silence => return Ok(()),
        }
    }
}

/// The next message; `None` at the end.
async fn next(reader: &mut OwnedReadHalf) -> io::Result<Option<Vec<u8>>> {
    let length = match reader.read_u16().await {
        Ok(length) => length,
        Err(problem) if problem.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(problem) => return Err(problem),
    };
    let mut message = vec![0; length.into()];
    reader.read_exact(&mut message).await?;
    Ok(Some(message))
}

async fn write(writer: &Mutex<OwnedWriteHalf>, reply: &[u8]) -> io::Result<()> {
    let sent = timeout(IDLE, async { writer.lock().await.write_all(&framed(reply)).await }).await;
    sent.unwrap_or_else(|_elapsed| Err(io::ErrorKind::TimedOut.into()))
}
