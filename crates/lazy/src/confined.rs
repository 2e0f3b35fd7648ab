//! Whether the program gives up rights: from then on the library makes no system call that no
//! allocator makes.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Whether the program has begun to give up rights: a filter of system calls may follow at any time. A
/// child by `vfork` says so for its parent, too, which costs that one some speed.
static IS_CONFINED: AtomicBool = AtomicBool::new(false);

/// Whether system calls must be spared that no allocator makes: reading files, and looking at which
/// pages are there.
pub fn is_confined() -> bool {
    IS_CONFINED.load(Relaxed)
}

/// The program gives up rights from now on.
pub fn confine() {
    IS_CONFINED.store(true, Relaxed);
}
