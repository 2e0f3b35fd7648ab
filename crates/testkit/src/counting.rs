//! An allocator that counts what is asked of it: how often, to prove that code asks nothing, and how many
//! bytes are held at the most.
#![allow(unsafe_code, reason = "an allocator is unsafe by its nature")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

thread_local! {
    // Without a destructor and constant at its start, so that it needs no allocation itself.
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

static COUNT_OF_ALL: AtomicU64 = AtomicU64::new(0);
static HELD: AtomicUsize = AtomicUsize::new(0);
static HELD_MOST: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, counted.
pub struct Counting;

/// How often the calling thread has allocated, where the program's allocator is [`Counting`].
pub fn allocations() -> u64 {
    COUNT.get()
}

/// How often all threads have, where the program's allocator is [`Counting`].
pub fn allocations_of_all() -> u64 {
    COUNT_OF_ALL.load(Relaxed)
}

/// The most bytes that all threads held at a time while `call` ran, beyond those held before, where the
/// program's allocator is [`Counting`]. What other threads do meanwhile counts.
pub fn bytes_held_most(call: impl FnOnce()) -> usize {
    let before = HELD.load(Relaxed);
    HELD_MOST.store(before, Relaxed);
    call();
    HELD_MOST.load(Relaxed) - before
}

fn count(bytes: usize) {
    COUNT.set(COUNT.get() + 1);
    COUNT_OF_ALL.fetch_add(1, Relaxed);
    hold(bytes);
}

fn hold(bytes: usize) {
    let held = HELD.fetch_add(bytes, Relaxed) + bytes;
    HELD_MOST.fetch_max(held, Relaxed);
}

// SAFETY: everything is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    // The system moves large blocks without copying them, so the old and the new one never count at once.
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        HELD.fetch_sub(layout.size(), Relaxed);
        count(size);
        // SAFETY: as the caller promises; it came from the system's allocator.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as the caller promises; it came from the system's allocator.
        unsafe { System.dealloc(block, layout) }
    }
}
