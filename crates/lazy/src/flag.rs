//! Flags that are written around a fork.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Clears a flag and returns whether it was set. A clear flag is not written: its page need not be copied.
pub fn take(flag: &AtomicBool) -> bool {
    flag.load(Relaxed) && flag.swap(false, Relaxed)
}
