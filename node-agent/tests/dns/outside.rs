//! Name servers of the world outside of the cluster.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use domain::base::iana::{Class, Rcode, Rtype};
use domain::base::{Message, MessageBuilder, Name, Serial, Ttl};
use domain::rdata::{A, Soa};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

/// A server. Every name has the address 192.0.2.1, but for those that have a meaning; see `answers`.
pub struct Outside {
    state: Arc<State>,
    tasks: Vec<AbortHandle>,
}

struct State {
    /// Names in lower case, and whether they came over TCP.
    asked: Mutex<Vec<(String, bool)>>,
    refused: Mutex<HashSet<String>>,
    silent: Mutex<bool>,
    held: Semaphore,
}

impl Outside {
    pub async fn start(addr: &str) -> Self {
        let addr = SocketAddr::new(addr.parse().unwrap(), 53);
        let state = Arc::new(State {
            asked: Mutex::default(),
            refused: Mutex::default(),
            silent: Mutex::new(false),
            held: Semaphore::new(0),
        });
        let socket = Arc::new(UdpSocket::bind(addr).await.unwrap());
        let listener = TcpListener::bind(addr).await.unwrap();
        let own = Arc::clone(&state);
        let datagrams = tokio::spawn(async move {
            let mut buffer = vec![0; 4096];
            loop {
                let (length, client) = socket.recv_from(&mut buffer).await.unwrap();
                let message = buffer[..length].to_vec();
                let (own, socket) = (Arc::clone(&own), Arc::clone(&socket));
                tokio::spawn(async move {
                    for reply in own.answers(message, false).await {
                        socket.send_to(&reply, client).await.unwrap();
                    }
                });
            }
        });
        let own = Arc::clone(&state);
        let streams = tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let length = stream.read_u16().await.unwrap();
                let mut message = vec![0; length.into()];
                stream.read_exact(&mut message).await.unwrap();
                for reply in own.answers(message, true).await {
                    stream.write_u16(reply.len().try_into().unwrap()).await.unwrap();
                    stream.write_all(&reply).await.unwrap();
                }
            }
        });
        Self { state, tasks: vec![datagrams.abort_handle(), streams.abort_handle()] }
    }

    /// How often a name was asked for.
    pub fn times(&self, name: &str) -> usize {
        self.state.asked.lock().unwrap().iter().filter(|(asked, _)| asked == name).count()
    }

    pub fn times_over_tcp(&self, name: &str) -> usize {
        self.state.asked.lock().unwrap().iter().filter(|(asked, tcp)| asked == name && *tcp).count()
    }

    /// Whether anything was asked.
    pub fn any(&self) -> bool {
        !self.state.asked.lock().unwrap().is_empty()
    }

    /// Answers one that waits for `held.example`.
    pub fn release(&self) {
        self.state.held.add_permits(1);
    }

    /// Answers nothing from now on.
    pub fn make_silent(&self) {
        *self.state.silent.lock().unwrap() = true;
    }

    pub fn refuse(&self, name: &str) {
        self.state.refused.lock().unwrap().insert(name.to_owned());
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

impl State {
    async fn answers(&self, message: Vec<u8>, tcp: bool) -> Vec<Vec<u8>> {
        let query = Message::from_octets(message).unwrap();
        let question = query.sole_question().unwrap();
        let name = question.qname().to_string().to_lowercase();
        self.asked.lock().unwrap().push((name.clone(), tcp));
        if *self.silent.lock().unwrap() {
            return Vec::new();
        }
        if self.refused.lock().unwrap().contains(&name) {
            return vec![reply(&query, Rcode::REFUSED, 0, false)];
        }
        let good = || reply(&query, Rcode::NOERROR, 1, false);
        match name.as_str() {
            "none.example" => vec![reply(&query, Rcode::NXDOMAIN, 0, true)],
            "held.example" => {
                self.held.acquire().await.unwrap().forget();
                vec![good()]
            }
            "long.example" if tcp => vec![reply(&query, Rcode::NOERROR, 100, false)],
            "long.example" => {
                let mut cut = reply(&query, Rcode::NOERROR, 0, false);
                cut[2] |= 2;
                vec![cut]
            }
            "forged.example" => {
                let (mut other_id, mut other_name) = (good(), good());
                other_id[1] ^= 1;
                other_name[13] ^= 1;
                // Both say something else than the truth.
                for forged in [&mut other_id, &mut other_name] {
                    *forged.last_mut().unwrap() = 66;
                }
                vec![other_id, other_name, good()]
            }
            "no-edns.example" if query.opt().is_some() => vec![reply(&query, Rcode::FORMERR, 0, false)],
            "garbage.example" => {
                let mut garbage = good();
                let length = garbage.len();
                garbage.truncate(length - 2);
                vec![garbage]
            }
            _ if question.qtype() != Rtype::A => vec![reply(&query, Rcode::NOERROR, 0, true)],
            _ => vec![good()],
        }
    }
}

fn reply(query: &Message<Vec<u8>>, rcode: Rcode, addresses: u8, absent: bool) -> Vec<u8> {
    let mut builder = MessageBuilder::new_vec().start_answer(query, rcode).unwrap();
    builder.header_mut().set_ra(true);
    let name = query.sole_question().unwrap().into_qname();
    for last in 1..=addresses {
        builder.push((&name, Class::IN, 60, A::from_octets(192, 0, 2, last))).unwrap();
    }
    let mut builder = builder.authority();
    if absent {
        let host = Name::<Vec<u8>>::vec_from_str("ns.example").unwrap();
        let second = Ttl::from_secs(1);
        let soa = Soa::new(&host, &host, Serial::from(1), second, second, second, Ttl::from_secs(30));
        builder.push((&host, Class::IN, 60, soa)).unwrap();
    }
    builder.finish()
}

/// A server that asks another one, and hands on what that says.
pub async fn mirror(addr: &str, to: IpAddr) -> tokio::task::JoinHandle<()> {
    let socket = Arc::new(UdpSocket::bind(SocketAddr::new(addr.parse().unwrap(), 53)).await.unwrap());
    tokio::spawn(async move {
        let mut buffer = vec![0; 4096];
        loop {
            let (length, client) = socket.recv_from(&mut buffer).await.unwrap();
            let (message, socket) = (buffer[..length].to_vec(), Arc::clone(&socket));
            tokio::spawn(async move {
                if let Some(reply) = crate::client::raw(to, &message).await {
                    socket.send_to(&reply, client).await.unwrap();
                }
            });
        }
    })
}
