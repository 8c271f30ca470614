//! Memory that this process has.

/// Gives back to the kernel what the allocator keeps of memory that nobody uses any more, as far as it can. Worth it after work
/// that took much more than it leaves.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "the allocator of C has no other door")]
pub fn give_back_memory() {
    // SAFETY: it takes a number, locks what it looks at, and touches no memory that somebody has.
    let _has_given = unsafe { libc::malloc_trim(0) };
}

/// The allocator gives it back by itself, or not at all.
#[cfg(not(target_env = "gnu"))]
pub fn give_back_memory() {}
