//! Counts how many bytes are looked at, in tests only: speed is tested as work, not as time.

#[cfg(test)]
thread_local! {
    static DONE: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// So many bytes were looked at.
#[cfg(test)]
pub(super) fn note(bytes: usize) {
    DONE.set(DONE.get() + bytes);
}

/// So many bytes were looked at.
#[cfg(not(test))]
#[inline(always)]
pub(super) fn note(_: usize) {}

/// How many bytes this thread has looked at since it was last asked.
#[cfg(test)]
pub(super) fn taken() -> usize {
    DONE.take()
}
