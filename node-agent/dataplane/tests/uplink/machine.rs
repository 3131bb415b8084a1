use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use nix::sched::{CloneFlags, unshare};
use nix::unistd::Pid;

type Task = Box<dyn FnOnce() + Send>;

/// A network namespace with a thread in it.
pub(crate) struct Machine {
    sender: Sender<Task>,
    /// IPv4 and IPv6.
    pub(crate) addrs: [IpAddr; 2],
}

impl Machine {
    pub(crate) fn new(addrs: [&str; 2]) -> Self {
        let (sender, tasks) = channel::<Task>();
        thread::spawn(move || {
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            while let Ok(task) = tasks.recv() {
                task();
            }
        });
        let machine = Self { sender, addrs: addrs.map(|addr| addr.parse().unwrap()) };
        machine.ip("link set lo up");
        machine
    }

    /// Runs something in the machine and waits for what it gives.
    pub(crate) fn run<T: Send + 'static>(&self, task: impl FnOnce() -> T + Send + 'static) -> T {
        let (done, result) = channel();
        self.sender.send(Box::new(move || drop(done.send(task())))).unwrap();
        result.recv().expect("the machine's thread has panicked")
    }

    pub(crate) fn thread(&self) -> Pid {
        self.run(nix::unistd::gettid)
    }

    /// Runs `ip` in the machine.
    pub(crate) fn ip(&self, args: &str) {
        let args = args.to_owned();
        self.run(move || ip(&args));
    }

    /// The way to an address as the machine knows it, with the MTU that it has learned.
    pub(crate) fn route_to(&self, addr: IpAddr) -> String {
        self.run(move || ip(&format!("route get {addr}")))
    }

    pub(crate) fn sysctl(&self, name: &'static str, value: &'static str) {
        self.run(move || std::fs::write(format!("/proc/sys/net/{name}"), value).unwrap());
    }

    pub(crate) fn ifindex(&self, name: &'static str) -> u32 {
        self.run(move || nix::net::if_::if_nametoindex(name).unwrap())
    }

    /// The address of a family.
    pub(crate) fn addr(&self, v6: bool) -> IpAddr {
        self.addrs[usize::from(v6)]
    }

    /// A TCP server that tells each client which address it is seen at, and then repeats what the client says.
    pub(crate) fn tcp_server(&self, addr: SocketAddr) -> SocketAddr {
        self.run(move || {
            let listener = TcpListener::bind(addr).unwrap();
            let local = listener.local_addr().unwrap();
            thread::spawn(move || {
                for stream in listener.incoming() {
                    let Ok(mut stream) = stream else { return };
                    thread::spawn(move || {
                        let mut line = stream.peer_addr().map(|peer| peer.to_string()).unwrap_or_default();
                        line.push('\n');
                        // The client may be gone; then nobody waits for the reply.
                        let _ = stream.write_all(line.as_bytes());
                        let mut buffer = [0; 100];
                        while let Ok(len @ 1..) = stream.read(&mut buffer) {
                            let _ = stream.write_all(&buffer[..len]);
                        }
                    });
                }
            });
            local
        })
    }

    /// A UDP server that tells each client which address it is seen at, and how much it sent.
    pub(crate) fn udp_server(&self, addr: SocketAddr) -> SocketAddr {
        self.run(move || {
            let socket = UdpSocket::bind(addr).unwrap();
            let local = socket.local_addr().unwrap();
            thread::spawn(move || {
                let mut buffer = vec![0; 65536];
                while let Ok((len, from)) = socket.recv_from(&mut buffer) {
                    let _ = socket.send_to(format!("{from} {len}").as_bytes(), from);
                }
            });
            local
        })
    }

    /// Connects: a conversation that goes on, and the address that the server sees.
    pub(crate) fn connect(&self, server: SocketAddr) -> std::io::Result<(Conversation, SocketAddr)> {
        self.run(move || {
            let stream = TcpStream::connect_timeout(&server, Duration::from_millis(900))?;
            Conversation::begin(stream)
        })
    }

    /// The address that a TCP server sees the machine at.
    pub(crate) fn ask(&self, server: SocketAddr) -> std::io::Result<IpAddr> {
        self.connect(server).map(|(_, seen)| seen.ip())
    }

    /// Sends a datagram of `len` bytes from a socket of its own: the address that the server saw, and who answered.
    pub(crate) fn send(&self, server: SocketAddr, len: usize) -> std::io::Result<(IpAddr, SocketAddr)> {
        let local = self.addr(server.is_ipv6());
        self.run(move || {
            let socket = UdpSocket::bind((local, 0))?;
            let (reply, from) = exchange(&socket, server, len)?;
            let (seen, received) = reply.split_once(' ').unwrap();
            assert_eq!(received, len.to_string());
            Ok((seen.parse::<SocketAddr>().unwrap().ip(), from))
        })
    }
}

/// A TCP connection with an echo at its end.
pub(crate) struct Conversation(TcpStream);

impl Conversation {
    pub(crate) fn begin(mut stream: TcpStream) -> std::io::Result<(Self, SocketAddr)> {
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        let mut line = Vec::new();
        let mut byte = [0];
        loop {
            stream.read_exact(&mut byte)?;
            if byte == *b"\n" {
                break;
            }
            line.push(byte[0]);
        }
        Ok((Self(stream), String::from_utf8(line).unwrap().parse().unwrap()))
    }

    /// Says something and hears it again.
    pub(crate) fn go_on(&mut self) -> std::io::Result<()> {
        self.0.write_all(b"ping")?;
        let mut echo = [0; 4];
        self.0.read_exact(&mut echo)?;
        assert_eq!(&echo, b"ping");
        Ok(())
    }
}

/// Sends a datagram and waits for the answer.
pub(crate) fn exchange(socket: &UdpSocket, server: SocketAddr, len: usize) -> std::io::Result<(String, SocketAddr)> {
    socket.set_read_timeout(Some(Duration::from_millis(900)))?;
    socket.send_to(&vec![b'x'; len], server)?;
    let mut buffer = [0; 100];
    let (len, from) = socket.recv_from(&mut buffer)?;
    Ok((String::from_utf8_lossy(&buffer[..len]).into_owned(), from))
}

/// The error that a connected datagram socket gets for a datagram.
pub(crate) fn datagram_error(machine: &Machine, server: SocketAddr) -> std::io::Error {
    machine.run(move || {
        let socket = UdpSocket::bind(if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        socket.connect(server).unwrap();
        socket.send(b"?").unwrap();
        socket.recv(&mut [0; 10]).unwrap_err()
    })
}

/// Runs `ip` in this thread's namespace and gives what it says.
fn ip(args: &str) -> String {
    let output = Command::new("ip").args(args.split(' ')).output().unwrap();
    assert!(output.status.success(), "ip {args}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
