//! What a pod's resolver does.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use domain::base::iana::{Rcode, Rtype};
use domain::base::{Message, MessageBuilder, Name, ParsedName};
use domain::rdata::AllRecordData;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

/// How long a server that answers may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long one is waited for that must not answer.
const SILENCE: Duration = Duration::from_millis(200);

/// An answer.
#[derive(Clone, Debug)]
pub struct Answer {
    pub rcode: Rcode,
    pub authoritative: bool,
    pub truncated: bool,
    /// Owner, seconds, data.
    pub answers: Vec<(String, u32, String)>,
    /// Records in the authority section.
    pub authority: u16,
    /// The server's payload size.
    pub edns: Option<u16>,
    /// Bytes of the message.
    pub length: usize,
}

impl PartialEq for Answer {
    fn eq(&self, other: &Self) -> bool {
        (self.rcode, &self.answers, self.authority) == (other.rcode, &other.answers, other.authority)
    }
}

impl Answer {
    fn read(bytes: Vec<u8>, id: u16, name: &str, rtype: Rtype) -> Self {
        let length = bytes.len();
        let message = Message::from_octets(bytes).unwrap();
        let header = message.header();
        assert!(header.id() == id && header.qr() && header.ra());
        let question = message.sole_question().unwrap();
        assert_eq!((question.qname().to_string().as_str(), question.qtype()), (name, rtype));
        let answers = message.answer().unwrap().map(|record| {
            let record = record.unwrap();
            let record = record.to_any_record::<AllRecordData<_, ParsedName<_>>>().unwrap();
            (record.owner().to_string(), record.ttl().as_secs(), record.data().to_string())
        });
        Self {
            rcode: header.rcode(),
            authoritative: header.aa(),
            truncated: header.tc(),
            answers: answers.collect(),
            authority: message.header_counts().nscount(),
            edns: message.opt().map(|opt| opt.udp_payload_size()),
            length,
        }
    }

    pub fn data(&self) -> Vec<String> {
        self.answers.iter().map(|(_, _, data)| data.clone()).collect()
    }

    pub fn ttl(&self) -> u32 {
        self.answers.iter().map(|&(_, ttl, _)| ttl).min().unwrap()
    }
}

fn question(id: u16, name: &str, rtype: Rtype, edns: Option<u16>) -> Vec<u8> {
    let mut builder = MessageBuilder::new_vec().question();
    builder.header_mut().set_id(id);
    builder.header_mut().set_rd(true);
    builder.push((Name::<Vec<u8>>::vec_from_str(name).unwrap(), rtype)).unwrap();
    let mut builder = builder.additional();
    if let Some(size) = edns {
        builder
            .opt(|opt| {
                opt.set_udp_payload_size(size);
                Ok(())
            })
            .unwrap();
    }
    builder.finish()
}

/// Sends bytes over UDP; `None` when nothing comes back.
pub async fn raw(server: IpAddr, message: &[u8]) -> Option<Vec<u8>> {
    exchange(server, message, SILENCE).await
}

async fn exchange(server: IpAddr, message: &[u8], patience: Duration) -> Option<Vec<u8>> {
    let any: IpAddr = if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0)).await.unwrap();
    // Only an answer from the address that was asked counts.
    socket.connect(SocketAddr::new(server, 53)).await.unwrap();
    socket.send(message).await.unwrap();
    let mut buffer = vec![0; 65_536];
    let length = timeout(patience, socket.recv(&mut buffer)).await.ok()?.unwrap();
    buffer.truncate(length);
    Some(buffer)
}

/// Asks over UDP.
pub async fn ask(server: IpAddr, name: &str, rtype: Rtype, edns: Option<u16>) -> Option<Answer> {
    let reply = exchange(server, &question(0x4242, name, rtype, edns), PATIENCE).await?;
    Some(Answer::read(reply, 0x4242, name, rtype))
}

/// Asks over TCP.
pub async fn ask_over_tcp(server: IpAddr, name: &str, rtype: Rtype) -> Option<Answer> {
    pipelined(server, &[(name, rtype)]).await.pop()
}

/// Asks all at once over one connection; gives the answers in the order of the questions.
pub async fn pipelined(server: IpAddr, questions: &[(&str, Rtype)]) -> Vec<Answer> {
    let mut stream = TcpStream::connect(SocketAddr::new(server, 53)).await.unwrap();
    let mut all = Vec::new();
    for (id, (name, rtype)) in (0..).zip(questions) {
        let message = question(id, name, *rtype, None);
        all.extend(u16::try_from(message.len()).unwrap().to_be_bytes());
        all.extend(message);
    }
    stream.write_all(&all).await.unwrap();
    let mut replies = Vec::new();
    for _ in questions {
        let length = timeout(PATIENCE, stream.read_u16()).await.unwrap().unwrap();
        let mut reply = vec![0; length.into()];
        stream.read_exact(&mut reply).await.unwrap();
        replies.push(reply);
    }
    replies.sort_by_key(|reply| u16::from_be_bytes([reply[0], reply[1]]));
    let answers = (0..).zip(replies).zip(questions);
    answers.map(|((id, reply), (name, rtype))| Answer::read(reply, id, name, *rtype)).collect()
}

/// Sends what is no DNS over TCP, and sees the connection end.
pub async fn garbage_over_tcp(server: IpAddr) {
    let mut stream = TcpStream::connect(SocketAddr::new(server, 53)).await.unwrap();
    stream.write_all(b"\x00\x05hello").await.unwrap();
    let mut rest = Vec::new();
    // It may be reset, too.
    let _ended = timeout(PATIENCE, stream.read_to_end(&mut rest)).await.unwrap();
    assert!(rest.is_empty());
}
