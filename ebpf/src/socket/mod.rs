//! Socket load balancing: a Service address is exchanged for a backend's when a socket is connected or a datagram sent,
//! once, and shown again when the program asks for its peer.
//!
//! Addresses are handled IPv4-mapped throughout, so that an IPv6 socket that talks to `::ffff:a.b.c.d` is one case with
//! the others: what `user_ip6` holds then is the key as it stands in the maps.

mod connect;
mod context;
mod datagram;
mod peer_name;
mod release;
mod translate;
