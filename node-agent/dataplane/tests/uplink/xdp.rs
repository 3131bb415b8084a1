//! XDP does what tc would have done, or leaves it to tc.

mod parity;
mod traffic;
mod withheld;
mod world;
