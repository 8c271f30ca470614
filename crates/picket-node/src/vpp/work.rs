//! How much is looked at to follow a change, which tests hold against how many pods there are.

#[cfg(test)]
thread_local! {
    static LOOKED_AT: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
    static EDITS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// So many pods, interfaces or tables more have been looked at. Nothing is counted but in tests.
#[inline]
pub(super) fn looked_at(count: usize) {
    #[cfg(test)]
    LOOKED_AT.set(LOOKED_AT.get() + count);
    #[cfg(not(test))]
    let _ = count;
}

/// A plan was made of what a table loses and gets. Nothing is counted but in tests.
#[inline]
pub(super) fn planned_an_edit() {
    #[cfg(test)]
    EDITS.set(EDITS.get() + 1);
}

/// Of how many edits plans have been made so far.
#[cfg(test)]
pub(super) fn edits() -> usize {
    EDITS.get()
}

/// How many have been looked at so far.
#[cfg(test)]
pub(super) fn count() -> usize {
    LOOKED_AT.get()
}
