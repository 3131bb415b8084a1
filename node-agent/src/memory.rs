//! Keeps the agent small: it stays on the node for ever beside the programs that the node is there for.

/// Has the allocator use few arenas: threads that seldom allocate do not need one each. To be called before there are
/// threads.
pub fn use_few_arenas() {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: changes a setting of the allocator; no memory is touched.
        #[allow(unsafe_code, reason = "the allocator's own interface")]
        let done = unsafe { nix::libc::mallopt(nix::libc::M_ARENA_MAX, ARENAS) };
        if done == 0 {
            tracing::debug!("the allocator keeps its number of arenas");
        }
    }
}

/// Gives memory that was freed back to the kernel.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: releases free pages of the allocator; live allocations are not touched.
        #[allow(unsafe_code, reason = "the allocator's own interface")]
        unsafe {
            nix::libc::malloc_trim(0);
        }
    }
}

#[cfg(target_env = "gnu")]
const ARENAS: nix::libc::c_int = 2;
