//! Results of subprograms in one register.
//!
//! The compiler is free to leave anything in the unused parts of a `Result` that holds an integer, and the verifier
//! refuses to look at what it is free to leave there. Functions that are not inlined therefore return a [`Packed`].

use skep_abi::Reason;

/// A tc action, or the reason of a drop with [`DROP`] added.
pub(crate) type Packed = u64;

const DROP: u64 = 1 << 32;

/// Packs what a subprogram returns.
#[inline(always)]
pub(crate) fn pack(result: Result<i32, Reason>) -> Packed {
    match result {
        Ok(action) => u64::from(action.cast_unsigned()),
        Err(reason) => DROP | reason as u64,
    }
}

/// Unpacks what a subprogram returned.
#[inline(always)]
pub(crate) fn unpack(packed: Packed) -> Result<i32, Reason> {
    if packed & DROP == 0 {
        Ok((packed as u32).cast_signed())
    } else {
        // SAFETY: only `pack` makes such values, out of a Reason.
        Err(unsafe { core::mem::transmute::<u8, Reason>(packed as u8) })
    }
}
