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

/// Has all threads that begin from now on take memory from one place, instead of several with free memory each. Worth it for a
/// process of which one thread at a time does most of the work.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "the allocator of C has no other door")]
pub fn share_memory() {
    // SAFETY: it takes numbers, and touches no memory that somebody has.
    let _is_shared = unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
}

/// The allocator has one place, or several.
#[cfg(not(target_env = "gnu"))]
pub fn share_memory() {}
