//! Pods: network namespaces with a thread in each.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nix::sched::{CloneFlags, unshare};

type Job = Box<dyn FnOnce() + Send>;

/// How long a connection may take. Packets that are dropped are not answered.
const CONNECT: Duration = Duration::from_millis(500);

/// A pod that is known by its name.
pub struct Pod {
    pub name: String,
    pub netns: String,
    pub addresses: Vec<IpAddr>,
    jobs: mpsc::Sender<Job>,
}

/// A connection to an echo server.
pub struct Connection(TcpStream);

impl Connection {
    pub fn exchange(&mut self, text: &str) -> String {
        writeln!(self.0, "{text}").unwrap();
        let mut line = String::new();
        BufReader::new(&self.0).read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}

impl Pod {
    pub fn new(name: &str) -> Self {
        let (jobs, receiver) = mpsc::channel::<Job>();
        let (ready, started) = mpsc::channel();
        thread::spawn(move || {
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            ready.send(nix::unistd::gettid()).unwrap();
            while let Ok(job) = receiver.recv() {
                job();
            }
        });
        let thread = started.recv().unwrap();
        let netns = format!("/proc/{}/task/{thread}/ns/net", std::process::id());
        Self { name: name.to_owned(), netns, addresses: Vec::new(), jobs }
    }

    pub fn uid(&self) -> String {
        format!("uid-of-{}", self.name)
    }

    /// Does it inside of the namespace.
    pub fn inside<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let (answer, answered) = mpsc::channel();
        self.jobs.send(Box::new(move || drop(answer.send(work())))).unwrap();
        answered.recv().unwrap()
    }

    /// Says its name to whoever connects, and then repeats what it hears. Gives its first address.
    pub fn serve(&self, port: u16) -> IpAddr {
        let name = self.name.clone();
        self.inside(move || serve(SocketAddr::new(IpAddr::from([0u16; 8]), port), name));
        self.addresses[0]
    }

    /// What the server at that address says.
    pub fn answer(&self, addr: IpAddr, port: u16) -> Option<String> {
        self.inside(move || answer(addr, port))
    }

    pub fn expect_answer(&self, addr: IpAddr, port: u16, expected: &str) {
        assert_eq!(self.answer(addr, port).as_deref(), Some(expected), "from {} to {addr} port {port}", self.name);
    }

    pub fn reaches(&self, addr: IpAddr, port: u16) -> bool {
        self.answer(addr, port).is_some()
    }

    /// Opens a connection that stays.
    pub fn open(&self, addr: IpAddr, port: u16) -> Connection {
        self.inside(move || {
            let stream = TcpStream::connect_timeout(&SocketAddr::new(addr, port), CONNECT).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            let mut connection = Connection(stream);
            let mut line = String::new();
            // One byte after the other: what follows belongs to the exchanges.
            let mut byte = [0];
            while connection.0.read(&mut byte).unwrap() == 1 && byte != *b"\n" {
                line.push(byte[0].into());
            }
            connection
        })
    }
}

/// Serves on `addr` in the calling thread's namespace.
pub fn serve(addr: SocketAddr, name: String) -> u16 {
    let listener = TcpListener::bind(addr).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let greeting = format!("{name} {}\n", stream.peer_addr().unwrap().ip().to_canonical());
            thread::spawn(move || {
                if stream.write_all(greeting.as_bytes()).is_ok() {
                    let mut read = BufReader::new(stream.try_clone().unwrap());
                    let mut line = String::new();
                    while read.read_line(&mut line).is_ok_and(|read| read > 0) {
                        if stream.write_all(line.as_bytes()).is_err() {
                            return;
                        }
                        line.clear();
                    }
                }
            });
        }
    });
    port
}

fn answer(addr: IpAddr, port: u16) -> Option<String> {
    greeting(addr, port).map(|(name, _)| name)
}

/// The name of the server, and the client's address as it sees it.
pub fn greeting(addr: IpAddr, port: u16) -> Option<(String, IpAddr)> {
    let stream = TcpStream::connect_timeout(&SocketAddr::new(addr, port), CONNECT).ok()?;
    stream.set_read_timeout(Some(CONNECT)).ok()?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).ok()?;
    let (name, seen) = line.trim_end().split_once(' ')?;
    Some((name.to_owned(), seen.parse().ok()?))
}
