//! Skep's kernel object: thin hooks over `skep-verdict`.
#![no_std]
#![no_main]
#![allow(unsafe_code, reason = "kernel programs work on raw pointers")]

mod action;
mod hop;
mod interface;
mod maps;
mod mtu;
mod newcomer;
mod pod;
mod record;
mod route;
mod select;
mod skb;
mod socket;
mod translate;
mod uplink;
mod xdp;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: the verifier refuses any program in which this can be reached.
    unsafe { core::hint::unreachable_unchecked() }
}

#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 4] = *b"GPL\0";
