//! The memory of the table. A group of slots is a cache line, so that a single fetch brings all of it.
//! The table grows within reserved addresses and so reuses its memory, because fresh pages from the
//! kernel cost more than clearing pages in use.

use std::ops::{Deref, DerefMut};

use types::advise_huge_pages;

/// Slots in a cache line, which has 64 bytes on x86-64 and nearly everywhere else.
const LINE_SLOTS: usize = 64 / size_of::<u64>();

/// Largest number of slots, and of ids, to reserve: 128 MiB of addresses each, of which only the used
/// part becomes memory.
pub(super) const ASIDE_MAX: usize = 1 << 24;

/// Slots, or ids, in a huge page: fewer are not worth a huge page.
pub(super) const HUGE_PAGE_WORDS: usize = (2 << 20) / size_of::<u64>();

/// `count` slots that begin with a cache line; the reserved slots after them are empty.
#[derive(Debug)]
pub(super) struct Slots {
    memory: Vec<u64>,
    /// Index of the first cache line.
    start: usize,
    count: usize,
}

impl Slots {
    /// `count` empty slots, with room reserved for up to `count_max`.
    pub(super) fn new(count: usize, count_max: usize) -> Slots {
        let memory = vec![0; count.max(count_max.min(ASIDE_MAX)) + LINE_SLOTS - 1];
        let start = memory.as_ptr().align_offset(LINE_SLOTS * size_of::<u64>());
        // The alignment may be unavailable; it only affects speed.
        Slots { memory, start: start.min(LINE_SLOTS - 1), count }
    }

    /// Empties all slots and grows them to `count`.
    pub(super) fn grow(&mut self, count: usize) {
        if self.start + count <= self.memory.len() {
            self.fill(0);
            self.count = count;
        } else {
            // Free the old memory first: both together would exceed the table's limit.
            self.memory = Vec::new();
            *self = Slots::new(count, count);
        }
        if count >= HUGE_PAGE_WORDS {
            // Probes are random accesses, and small pages would add a page-table walk to each. Include
            // the reserved slots: otherwise the part of the slots in the last huge page would get
            // small pages.
            advise_huge_pages(&mut self.memory);
        }
    }
}

impl Deref for Slots {
    type Target = [u64];

    #[inline(always)]
    fn deref(&self) -> &[u64] {
        &self.memory[self.start..self.start + self.count]
    }
}

impl DerefMut for Slots {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [u64] {
        &mut self.memory[self.start..self.start + self.count]
    }
}
