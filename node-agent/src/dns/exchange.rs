use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use skep_agent_core::dns::{BadReply, Reply, Topic};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

/// Nothing longer is asked for over UDP; whoever sends more all the same is cut by the kernel, and read as malformed.
const UDP_BUFFER: usize = 4096;

/// Why a server gave no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum ExchangeError {
    /// Nothing came in time.
    #[error("no answer in {0:?}")]
    Timeout(Duration),
    /// The network, or the server's machine.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// What came is of no use.
    #[error(transparent)]
    Bad(#[from] BadReply),
    /// There is no randomness to be had.
    #[error("no random number: {0}")]
    Random(getrandom::Error),
}

/// Asks one server, over TCP when the answer is too long for UDP.
pub(super) async fn exchange(
    server: SocketAddr,
    topic: &Topic,
    edns: bool,
    patience: Duration,
) -> Result<Reply, ExchangeError> {
    let limited = |result: Result<Result<Reply, ExchangeError>, _>| match result {
        Ok(result) => result,
        Err(_elapsed) => Err(ExchangeError::Timeout(patience)),
    };
    match limited(timeout(patience, over_udp(server, topic, edns)).await) {
        Err(ExchangeError::Bad(BadReply::Truncated)) => limited(timeout(patience, over_tcp(server, topic, edns)).await),
        result => result,
    }
}

/// A number that nobody else can guess (RFC 5452, 4.3 and 9).
pub(super) fn random<const N: usize>() -> Result<[u8; N], ExchangeError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(ExchangeError::Random)?;
    Ok(bytes)
}

fn message(topic: &Topic, id: u16, edns: bool) -> Result<Vec<u8>, ExchangeError> {
    topic.write(id, edns).ok_or(ExchangeError::Bad(BadReply::Malformed))
}

async fn over_udp(server: SocketAddr, topic: &Topic, edns: bool) -> Result<Reply, ExchangeError> {
    let id = u16::from_ne_bytes(random()?);
    let any: IpAddr = if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    // A socket, and so a port, of its own for each question: the port is half of what a forger has to guess.
    let socket = UdpSocket::bind(SocketAddr::new(any, 0)).await?;
    // Connected, so that only this server is heard, and that a closed port is an error at once.
    socket.connect(server).await?;
    socket.send(&message(topic, id, edns)?).await?;
    let mut buffer = vec![0; UDP_BUFFER];
    loop {
        let length = socket.recv(&mut buffer).await?;
        match Reply::read(Bytes::copy_from_slice(&buffer[..length]), id, &topic.name, topic.rtype) {
            // Late or forged: the right one may come yet.
            Err(BadReply::Other) => {}
            result => return Ok(result?),
        }
    }
}

async fn over_tcp(server: SocketAddr, topic: &Topic, edns: bool) -> Result<Reply, ExchangeError> {
    let id = u16::from_ne_bytes(random()?);
    let mut stream = TcpStream::connect(server).await?;
    stream.set_nodelay(true)?;
    stream.write_all(&framed(&message(topic, id, edns)?)).await?;
    let mut length = [0; 2];
    stream.read_exact(&mut length).await?;
    let mut buffer = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut buffer).await?;
    Ok(Reply::read(buffer.into(), id, &topic.name, topic.rtype)?)
}

/// A message with its length before it (RFC 1035, 4.2.2), to be sent in one segment (RFC 7766, 8).
pub(super) fn framed(message: &[u8]) -> Vec<u8> {
    // Messages are limited to what the length can say.
    let length = u16::try_from(message.len()).unwrap_or(u16::MAX);
    let mut framed = Vec::with_capacity(message.len() + 2);
    framed.extend(length.to_be_bytes());
    framed.extend(&message[..length.into()]);
    framed
}
