//! LRU stack distances in one pass: the exact miss count of every size at once.
//!
//! Mattson et al. (IBM Systems Journal 1970): an access hits a memory of `n` frames exactly if
//! fewer than `n` distinct pages were accessed since the page's last access. A position in time
//! carries a bit if it is some page's last access; the distance is the number of bits after
//! the position of the page's own. Counters of the bits before each word, line and group of lines
//! reduce the count to a few reads. When positions run out, bits and positions are packed.

use crate::marks::Marks;
use types::PageId;

/// Distinct pages accessed between an access and the one before it to the same page, as a histogram
/// over the whole trace. Memory: 12 bytes per page and one bit per position.
pub struct Stack {
    /// Position of each page's last access, or `NEVER`.
    last: Vec<u32>,
    marks: Marks,
    /// Number of accesses by distance.
    by_distance: Vec<u64>,
    accesses: u64,
    pages: u64,
}

const NEVER: u32 = u32::MAX;
/// Positions per page: packing costs about ten accesses per page, so a large number makes it rare.
const POSITIONS_PER_PAGE: usize = 4;
const CHUNK: usize = 64;

impl Default for Stack {
    fn default() -> Stack {
        Stack {
            last: Vec::new(),
            marks: Marks::new(0),
            by_distance: Vec::new(),
            accesses: 0,
            pages: 0,
        }
    }
}

impl Stack {
    /// Adds accesses to `pages`, all numbered below `bound`.
    pub fn push(&mut self, pages: &[PageId], bound: usize) {
        if self.last.len() < bound {
            self.last.resize(bound, NEVER);
            self.by_distance.resize(bound, 0);
        }
        let mut rest = pages;
        while !rest.is_empty() {
            let free = self.marks.free();
            if free == 0 {
                self.pack();
                continue;
            }
            let (now, later) = rest.split_at(free.min(rest.len()).min(CHUNK));
            self.access_chunk(now);
            rest = later;
        }
        self.accesses += pages.len() as u64;
    }

    /// Number of accesses.
    pub fn accesses(&self) -> u64 {
        self.accesses
    }

    /// Number of distinct pages: each has one access without a distance.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// Accesses by distance: entry `d` counts those with `d` distinct other pages since the last
    /// access to the same page. First accesses do not count.
    pub fn by_distance(&self) -> &[u64] {
        &self.by_distance
    }

    /// Misses of an LRU memory of `frames`.
    pub fn misses(&self, frames: u32) -> u64 {
        let hits: u64 = self.by_distance.iter().take(frames as usize).sum();
        self.accesses - hits
    }

    /// Reads and counts scattered memory in separate loops, so that the processor overlaps the
    /// waits: in one loop with the marks it would wait for them one by one.
    #[inline(never)]
    fn access_chunk(&mut self, pages: &[PageId]) {
        let warm = pages.iter().fold(0, |all, page| all | self.last[page.index()]);
        std::hint::black_box(warm);
        let mut distances = [0_u32; CHUNK];
        let mut found = 0;
        for &page in pages {
            let last = std::mem::replace(&mut self.last[page.index()], self.marks.next());
            if last == NEVER {
                self.pages += 1;
            } else {
                distances[found] = self.pages as u32 - self.marks.take(last);
                found += 1;
            }
            self.marks.append();
        }
        for &distance in &distances[..found] {
            self.by_distance[distance as usize] += 1;
        }
    }

    /// Gives the last accesses the positions 0, 1, ... in the same order.
    #[cold]
    fn pack(&mut self) {
        for last in &mut self.last {
            if *last != NEVER {
                *last = self.marks.count_through(*last) - 1;
            }
        }
        let positions = self.last.len().max(1) * POSITIONS_PER_PAGE;
        self.marks = Marks::new(positions);
        for _ in 0..self.pages {
            self.marks.append();
        }
    }
}
