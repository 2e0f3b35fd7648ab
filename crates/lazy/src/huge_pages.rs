//! What a huge page is, and whether the arena asks for any.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::chunks::PAGE;

/// Size of a huge page in bytes.
pub const HUGE_PAGE: usize = 2 << 20;
pub const HUGE_PAGES: u32 = (HUGE_PAGE / PAGE) as u32;

static ARE_USED: AtomicBool = AtomicBool::new(false);

/// Whether the arena requests huge pages: in mode `thp`, and where the kernel would give them anyway.
pub fn are_used() -> bool {
    ARE_USED.load(Relaxed)
}

/// Decides whether they are used, before the first chunk.
pub fn set_used(are_used: bool) {
    ARE_USED.store(are_used, Relaxed);
}
