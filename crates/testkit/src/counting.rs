//! An allocator that counts allocations, to prove that code does not allocate, and the peak of allocated
//! bytes.
#![allow(unsafe_code, reason = "an allocator is unsafe by its nature")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

thread_local! {
    // Constant and without a destructor, so that the counter itself needs no allocation.
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

static COUNT_OF_ALL: AtomicU64 = AtomicU64::new(0);
static HELD: AtomicUsize = AtomicUsize::new(0);
static HELD_MOST: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator with counters.
pub struct Counting;

/// Allocations of the calling thread, if the program's allocator is [`Counting`].
pub fn allocations() -> u64 {
    COUNT.get()
}

/// Allocations of all threads, if the program's allocator is [`Counting`].
pub fn allocations_of_all() -> u64 {
    COUNT_OF_ALL.load(Relaxed)
}

/// Peak of bytes that all threads allocated during `call`, beyond those allocated before, if the
/// program's allocator is [`Counting`]. Allocations of other threads count too.
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

// SAFETY: all calls go to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as required of the caller.
        unsafe { System.alloc(layout) }
    }

    // The system moves large blocks without copying, so the old and the new block never count together.
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        HELD.fetch_sub(layout.size(), Relaxed);
        count(size);
        // SAFETY: as required of the caller; the block is of the system's allocator.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as required of the caller; the block is of the system's allocator.
        unsafe { System.dealloc(block, layout) }
    }
}
