//! Whether the program gives up rights: from then on the library makes no system call that no
//! allocator makes.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Whether the program has begun to give up privileges: a filter of system calls may follow at any time. A
/// child by `vfork` also sets it for its parent, which costs the parent some speed.
static IS_CONFINED: AtomicBool = AtomicBool::new(false);

/// Whether the library must avoid system calls that no allocator makes: reading files, and asking which
/// pages are resident.
pub fn is_confined() -> bool {
    IS_CONFINED.load(Relaxed)
}

/// The program gives up rights from now on.
pub fn confine() {
    IS_CONFINED.store(true, Relaxed);
}
