//! Forks. After a fork every page that both processes have is copied at its next write, which costs
//! more than a fresh page, and a page that both have cannot be lazily freed. So little of the pool
//! is carried across, and the child gives back even that at its first use of the pool.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::chunks::PAGE;
use crate::helper;
use crate::pool::{POOL, perform};
use crate::{streams, system, vault};

/// Pages of the pool that a fork may carry across.
const KEPT_PAGES: u64 = (4 << 20) / PAGE as u64;

/// Whether `prepare` took the lock, which it does not in a handler that interrupted its holder.
static IS_LOCKED: AtomicBool = AtomicBool::new(false);

/// Has the three functions below called around every `fork`.
pub fn watch() {
    streams::find();
    // SAFETY: the functions live as long as the program.
    unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
}

extern "C" fn prepare() {
    give_most_back();
    streams::lock();
    if let Some(arena) = POOL.lock() {
        IS_LOCKED.store(true, Relaxed);
        std::mem::forget(arena);
    }
}

fn give_most_back() {
    let Some(mut arena) = POOL.lock() else { return };
    while arena.hot_pages() + arena.lazy_pages() > KEPT_PAGES {
        let Some(work) = arena.oldest() else { break };
        perform(work, arena.aside);
        arena.finish();
    }
}

extern "C" fn parent() {
    if IS_LOCKED.swap(false, Relaxed) {
        // SAFETY: this thread locked it in `prepare`.
        unsafe { POOL.unlock_forgotten() };
    }
    streams::unlock();
}

extern "C" fn child() {
    streams::reset();
    helper::forget();
    vault::forget();
    if IS_LOCKED.swap(false, Relaxed) {
        // SAFETY: the one thread of the child is the one that locked it in `prepare`.
        unsafe { POOL.unlock_forgotten() };
        if let Some(mut arena) = POOL.lock() {
            let now = system::now();
            arena.recover(now);
            arena.pressure(now);
        }
    }
}
