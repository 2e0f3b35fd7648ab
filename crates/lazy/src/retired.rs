//! Whether the arena gave its address space back.

use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Release};

static IS_RETIRED: AtomicBool = AtomicBool::new(false);
/// Whether addresses of the arena may have been given to the kernel.
static IS_SHARED: AtomicBool = AtomicBool::new(false);

/// Whether free memory of the arena is no longer mapped, and freed memory is unmapped.
pub fn is_retired() -> bool {
    IS_RETIRED.load(Acquire)
}

/// Whether addresses of the arena may have other mappings.
#[inline]
pub fn is_shared() -> bool {
    IS_SHARED.load(Acquire)
}

/// Records that addresses of the arena may have other mappings.
pub fn share() {
    IS_SHARED.store(true, Release);
}

/// From now on nothing that is free of the arena is mapped.
pub fn note_retired() {
    IS_RETIRED.store(true, Release);
    share();
}
