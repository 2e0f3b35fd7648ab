//! An allocator that counts what each thread asks of it, to prove that code asks nothing.
#![allow(unsafe_code, reason = "an allocator is unsafe by its nature")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

thread_local! {
    // Without a destructor and constant at its start, so that it needs no allocation itself.
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

static COUNT_OF_ALL: AtomicU64 = AtomicU64::new(0);

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

// SAFETY: everything is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        COUNT_OF_ALL.fetch_add(1, Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises; it came from the system's allocator.
        unsafe { System.dealloc(block, layout) }
    }
}
