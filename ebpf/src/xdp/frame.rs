use core::mem::MaybeUninit;

use aya_ebpf::bindings::xdp_md;
use skep_verdict::packet::{Bytes, Chunk};
use skep_verdict::plain::Store;

/// Headers end long before this; the bound is for the verifier.
const FURTHEST: u32 = 0xff;

/// A frame as the driver has it.
#[derive(Clone, Copy)]
pub(super) struct Frame(pub(super) *mut xdp_md);

impl Frame {
    #[inline(always)]
    fn data(self) -> usize {
        // SAFETY: the context outlives the program.
        unsafe { (*self.0).data as usize }
    }

    #[inline(always)]
    fn end(self) -> usize {
        // SAFETY: the context outlives the program.
        unsafe { (*self.0).data_end as usize }
    }

    /// Where `len` bytes begin, if they are there.
    #[inline(always)]
    fn at(self, offset: u32, len: usize) -> Option<usize> {
        if offset > FURTHEST {
            return None;
        }
        let at = self.data() + offset as usize;
        (at + len <= self.end()).then_some(at)
    }
}

// Bytes go by words of four and a last one of two. The kernel lets programs read words from wherever they lie on machines that
// can, and refuses the program on others. Volatile, because a copy would be made byte by byte.

impl Bytes for Frame {
    #[inline(always)]
    fn load<const N: usize>(&self, offset: u32) -> Option<Chunk<N>> {
        const { assert!(N.is_multiple_of(2)) };
        let at = self.at(offset, N)?;
        let mut bytes = MaybeUninit::<Chunk<N>>::uninit();
        let to = bytes.as_mut_ptr().cast::<u8>();
        // SAFETY: N bytes are there, and every one of `bytes` is written.
        unsafe {
            for word in 0..N / 4 {
                let value = (at as *const u32).add(word).read_volatile();
                to.cast::<u32>().add(word).write(value);
            }
            if N % 4 != 0 {
                let last = N / 4 * 4;
                to.add(last).cast::<u16>().write(((at + last) as *const u16).read_volatile());
            }
            Some(bytes.assume_init())
        }
    }

    #[inline(always)]
    fn len(&self) -> u32 {
        (self.end() - self.data()) as u32
    }

    /// Without the length, which the compiler would make of halves of pointers, and the verifier refuses to see one copied.
    #[inline(always)]
    fn reaches(&self, offset: u32) -> bool {
        self.data() + offset as usize <= self.end()
    }
}

impl Store for Frame {
    #[inline(always)]
    fn store<const N: usize>(&mut self, offset: u32, bytes: &Chunk<N>) -> bool {
        const { assert!(N.is_multiple_of(2)) };
        let Some(at) = self.at(offset, N) else { return false };
        let from = bytes.0.as_ptr();
        // SAFETY: N bytes are there, and a chunk lies at a multiple of 8.
        unsafe {
            for word in 0..N / 4 {
                (at as *mut u32).add(word).write_volatile(from.cast::<u32>().add(word).read());
            }
            if N % 4 != 0 {
                let last = N / 4 * 4;
                ((at + last) as *mut u16).write_volatile(from.add(last).cast::<u16>().read());
            }
        }
        true
    }
}
