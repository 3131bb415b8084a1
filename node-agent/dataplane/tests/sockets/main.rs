//! The socket hooks, tried with real sockets: each test has a network namespace, a BPF file system and a cgroup of its own.

mod adoption;
mod datagram;
mod programs;
mod stream;
mod world;
