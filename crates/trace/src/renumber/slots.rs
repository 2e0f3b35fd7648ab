//! The memory of the table. A group of slots is a line of the cache, so that one fetch brings it
//! whole. The table grows within addresses set aside at its start, and so uses its memory again:
//! fresh pages from the kernel cost more than emptying those in use.

use std::ops::{Deref, DerefMut};

use types::advise_huge_pages;

/// Slots in a line of the cache, which has 64 bytes on x86-64 and nearly everywhere else.
const LINE_SLOTS: usize = 64 / size_of::<u64>();

/// Most slots, or ids, that are set aside: 128 MiB of addresses each, of which only what is used
/// becomes memory.
pub(super) const ASIDE_MAX: usize = 1 << 24;

/// Slots, or ids, in a huge page: fewer than these are not worth one.
pub(super) const HUGE_PAGE_WORDS: usize = (2 << 20) / size_of::<u64>();

/// Slots from a line's start on, `count` of them; those set aside behind them are empty.
#[derive(Debug)]
pub(super) struct Slots {
    memory: Vec<u64>,
    /// Where the first line begins.
    start: usize,
    count: usize,
}

impl Slots {
    /// `count` empty slots, and room aside for as many as they may ever become.
    pub(super) fn new(count: usize, count_max: usize) -> Slots {
        let memory = vec![0; count.max(count_max.min(ASIDE_MAX)) + LINE_SLOTS - 1];
        let start = memory.as_ptr().align_offset(LINE_SLOTS * size_of::<u64>());
        // An alignment may be refused; it matters to speed alone.
        Slots { memory, start: start.min(LINE_SLOTS - 1), count }
    }

    /// Empties all slots and makes them `count`, which is more than before.
    pub(super) fn grow(&mut self, count: usize) {
        if self.start + count <= self.memory.len() {
            self.fill(0);
            self.count = count;
        } else {
            // The old memory goes first: both at once would not fit the table's limit.
            self.memory = Vec::new();
            *self = Slots::new(count, count);
        }
        if count >= HUGE_PAGE_WORDS {
            // Each probe goes to a random place, and small pages would add a page-table walk to it. With
            // what is set aside: what reaches into the page behind the slots would be small.
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
