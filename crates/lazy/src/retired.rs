//! Whether the arena gave its address space back.

use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Release};

static IS_RETIRED: AtomicBool = AtomicBool::new(false);
/// Whether the kernel may have been given addresses of the arena.
static IS_SHARED: AtomicBool = AtomicBool::new(false);

/// Whether what is free of the arena is no longer mapped, and what becomes free is unmapped.
pub fn is_retired() -> bool {
    IS_RETIRED.load(Acquire)
}

/// Whether something else may lie at addresses of the arena.
#[inline]
pub fn is_shared() -> bool {
    IS_SHARED.load(Acquire)
}

/// From now on something else may lie at addresses of the arena.
pub fn share() {
    IS_SHARED.store(true, Release);
}

/// From now on nothing that is free of the arena is mapped.
pub fn note_retired() {
    IS_RETIRED.store(true, Release);
    share();
}
