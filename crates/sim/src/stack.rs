//! LRU stack distances in one pass: the exact miss count of every size at once.
//!
//! Mattson et al. (IBM Systems Journal 1970): an access hits a memory of `n` frames exactly if
//! fewer than `n` distinct pages were accessed since the page's last access. Positions in time
//! carry a bit where they are some page's last access; the distance is the number of bits after
//! the position of the page's own. Counters of the bits before each word, line and group of lines
//! make that a few reads. When positions run out, bits and positions are packed.

use types::PageId;

/// Distinct pages accessed between an access and the one before it to the same page, as a histogram
/// over the whole trace. Memory: 12 bytes per page and one bit per position.
pub struct Stack {
    /// Position of each page's last access, or `NEVER`.
    last: Vec<u32>,
    marks: Marks,
    /// Accesses by distance.
    by_distance: Vec<u64>,
    accesses: u64,
    pages: u64,
}

const NEVER: u32 = u32::MAX;
/// Positions per page: packing costs about ten accesses per page, so this makes it rare.
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
    /// Counts accesses to `pages`, all numbered below `bound`.
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

    /// Accesses pushed.
    pub fn accesses(&self) -> u64 {
        self.accesses
    }

    /// Distinct pages among them: each has one access without a distance.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// Accesses by distance: entry `d` counts those with `d` distinct other pages since the last
    /// access to the same page. First accesses are in none.
    pub fn by_distance(&self) -> &[u64] {
        &self.by_distance
    }

    /// Misses of an LRU memory of `frames`.
    pub fn misses(&self, frames: u32) -> u64 {
        let hits: u64 = self.by_distance.iter().take(frames as usize).sum();
        self.accesses - hits
    }

    /// Reads and counts scattered memory in loops of their own, so that the processor overlaps the
    /// waits: in one loop with the marks it would meet them one by one.
    #[inline(never)]
    fn access_chunk(&mut self, pages: &[PageId]) {
        let warm = pages.iter().fold(0, |all, page| all | self.last[page.index()]);
        std::hint::black_box(warm);
        let mut distances = [0_u32; CHUNK];
        let mut found = 0;
        for &page in pages {
            let last = std::mem::replace(&mut self.last[page.index()], self.marks.end);
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

/// Marked positions, appended at the end and taken out anywhere.
///
/// Invariant, for every word, line and group up to the one before `end`: its counter is the number
/// of marks before it in its line, in its group, or at all.
struct Marks {
    /// One bit per position.
    words: Vec<u64>,
    before_word: Vec<u16>,
    before_line: Vec<u32>,
    before_group: Vec<u32>,
    /// Positions in use.
    end: u32,
    positions: u32,
}

const FAN_OUT: usize = 64;
const WORD_SHIFT: u32 = u64::BITS.trailing_zeros();
const LINE_SHIFT: u32 = WORD_SHIFT + FAN_OUT.trailing_zeros();
const GROUP_SHIFT: u32 = LINE_SHIFT + FAN_OUT.trailing_zeros();

impl Marks {
    fn new(positions: usize) -> Marks {
        let positions = positions.next_multiple_of(1 << LINE_SHIFT).min(1 << 31);
        let groups = positions.div_ceil(1 << GROUP_SHIFT);
        Marks {
            words: vec![0; positions >> WORD_SHIFT],
            before_word: vec![0; positions >> WORD_SHIFT],
            before_line: vec![0; groups * FAN_OUT],
            before_group: vec![0; groups],
            end: 0,
            positions: positions as u32,
        }
    }

    fn free(&self) -> usize {
        (self.positions - self.end) as usize
    }

    /// Marks the next position.
    #[inline(always)]
    fn append(&mut self) {
        if self.end.is_multiple_of(u64::BITS) {
            self.begin_word();
        }
        self.words[(self.end >> WORD_SHIFT) as usize] |= 1 << (self.end % u64::BITS);
        self.end += 1;
    }

    /// Takes the mark off `position` and returns how many marks lie up to and including it.
    #[inline(always)]
    fn take(&mut self, position: u32) -> u32 {
        let count = self.count_through(position);
        let (word, line, group) = places(position);
        self.words[word] &= !(1 << (position % u64::BITS));
        // Counters of words and lines that have not begun are spoilt, and set when they begin.
        let place = (word % FAN_OUT) as u16;
        for (other, before) in (0..).zip(fan(&mut self.before_word, word)) {
            *before = before.wrapping_sub(u16::from(other > place));
        }
        let place = (line % FAN_OUT) as u32;
        for (other, before) in (0..).zip(fan(&mut self.before_line, line)) {
            *before = before.wrapping_sub(u32::from(other > place));
        }
        let last_group = (self.end >> GROUP_SHIFT) as usize;
        if group < last_group {
            let last_begun = last_group.min(self.before_group.len() - 1);
            for before in &mut self.before_group[group + 1..=last_begun] {
                *before = before.wrapping_sub(1);
            }
        }
        count
    }

    #[inline(always)]
    fn count_through(&self, position: u32) -> u32 {
        let (word, line, group) = places(position);
        let through = self.words[word] << (u64::BITS - 1 - position % u64::BITS);
        through.count_ones()
            + u32::from(self.before_word[word])
            + self.before_line[line]
            + self.before_group[group]
    }

    /// Sets the counters of the word, and of the line and group if they begin at `end` too.
    #[cold]
    fn begin_word(&mut self) {
        let (word, line, group) = places(self.end);
        let before = if self.end == 0 { 0 } else { self.count_through(self.end - 1) };
        if word.is_multiple_of(FAN_OUT) && line.is_multiple_of(FAN_OUT) {
            self.before_group[group] = before;
        }
        if word.is_multiple_of(FAN_OUT) {
            self.before_line[line] = before - self.before_group[group];
        }
        let before_in_line = before - self.before_group[group] - self.before_line[line];
        self.before_word[word] = before_in_line as u16;
    }
}

/// The word, line and group of a position.
#[inline(always)]
fn places(position: u32) -> (usize, usize, usize) {
    let at = |shift| (position >> shift) as usize;
    (at(WORD_SHIFT), at(LINE_SHIFT), at(GROUP_SHIFT))
}

/// The counters that `index` shares a fan with.
#[inline(always)]
fn fan<T>(counters: &mut [T], index: usize) -> &mut [T] {
    &mut counters[index / FAN_OUT * FAN_OUT..][..FAN_OUT]
}
