//! Counters that `pagewise-agent lazy --stats` reads from the process, by symbol name.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use types::{LAZY_COUNTERS, LAZY_MAGIC, LazyCounter};

#[repr(C)]
pub struct Statistics {
    magic: AtomicU64,
    counters: [AtomicU64; LAZY_COUNTERS.len()],
}

/// Adds are made under the arena's lock or may be lost; the statistics tolerate that.
#[cfg_attr(not(test), unsafe(export_name = "pagewise_lazy_statistics"))]
#[cfg_attr(not(test), unsafe(link_section = ".data.pagewise_lazy"))]
pub static STATISTICS: Statistics = Statistics {
    magic: AtomicU64::new(LAZY_MAGIC),
    counters: [const { AtomicU64::new(0) }; LAZY_COUNTERS.len()],
};

pub fn add(counter: LazyCounter, number: u64) {
    if let Some(place) = STATISTICS.counters.get(counter as usize) {
        place.store(place.load(Relaxed).wrapping_add(number), Relaxed);
    }
}

pub fn subtract(counter: LazyCounter, number: u64) {
    add(counter, number.wrapping_neg());
}

pub fn set(counter: LazyCounter, number: u64) {
    if let Some(place) = STATISTICS.counters.get(counter as usize) {
        place.store(number, Relaxed);
    }
}

/// Counts pages that became the program's without a request.
pub fn count_owned(pages: u32) {
    add(LazyCounter::OwnedPages, u64::from(pages));
}

/// Memory of the program became free.
pub fn count_free(pages: u32) {
    add(LazyCounter::Frees, 1);
    subtract(LazyCounter::OwnedPages, u64::from(pages));
}
