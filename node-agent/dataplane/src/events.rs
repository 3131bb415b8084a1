use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use aya::maps::{Map, MapData, RingBuf};
use skep_abi::{FlowEvent, map};

use crate::Error;

/// Reader of the `events` ring buffer.
///
/// The buffer has one read position for everybody: two readers share the events, they do not each see all of them.
/// The file descriptor becomes readable when there is an event (`tokio::io::unix::AsyncFd`); read until
/// [`next`](Self::next) gives nothing before waiting again.
pub struct Events {
    ring: RingBuf<MapData>,
}

impl Events {
    pub(crate) fn new(map: Map) -> Result<Self, Error> {
        let ring = RingBuf::try_from(map).map_err(|source| Error::Map { name: map::EVENTS, source })?;
        Ok(Self { ring })
    }

    /// The next event, when there is one. Never blocks.
    #[allow(clippy::should_implement_trait, reason = "a None is not the end: more may come")]
    pub fn next(&mut self) -> Option<FlowEvent> {
        while let Some(item) = self.ring.next() {
            if item.len() >= size_of::<FlowEvent>() {
                // SAFETY: the record is at least as long as a FlowEvent, which is plain data for which any bits are
                // valid; the read is unaligned.
                #[allow(unsafe_code, reason = "plain data out of shared memory")]
                return Some(unsafe { item.as_ptr().cast::<FlowEvent>().read_unaligned() });
            }
        }
        None
    }
}

impl AsFd for Events {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }
}

impl AsRawFd for Events {
    fn as_raw_fd(&self) -> RawFd {
        self.ring.as_raw_fd()
    }
}
