//! Pages in the order in which they came to be what they are.
//!
//! Whatever happens to a page makes it young again, so an order by birth is a log that grows at one end,
//! and the pages of an age bin are a stretch of it between the beginnings of two epochs. Ageing moves
//! the ends of stretches, not pages.

use super::ages::{BINS, EPOCHS, EventNumber, LEAST_AGES};
use std::collections::VecDeque;
use types::PageId;

/// Entries a log always has room for, whatever the number of its pages.
const ENTRIES_MIN: usize = 64;

/// A page and when it came to be what it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub page: PageId,
    pub born: EventNumber,
}

/// Entries in the order of their births. An entry is stale once its page is something else; whoever
/// owns the log can tell.
///
/// Invariant: the entries of a bin are `ends[bin + 1]..ends[bin]`; `ends[0]` is the number of entries,
/// and `ends[BINS]` is 0.
#[derive(Clone, Debug)]
pub(super) struct AgeLog {
    entries: Vec<Entry>,
    /// Number of entries when each epoch began, the current one first; 0 in the epochs before.
    starts: VecDeque<u32>,
    ends: [u32; BINS + 1],
    /// Entries of each bin before this one are known to be stale.
    oldest: [u32; BINS],
    /// Bins with an entry that is not known to be stale, as a set of bits.
    occupied: u64,
}

impl Default for AgeLog {
    fn default() -> AgeLog {
        AgeLog {
            entries: Vec::with_capacity(ENTRIES_MIN),
            starts: VecDeque::new(),
            ends: [0; BINS + 1],
            oldest: [0; BINS],
            occupied: 0,
        }
    }
}

impl AgeLog {
    /// `entry`, born after all others, joins them.
    #[inline]
    pub fn push(&mut self, entry: Entry, is_live: impl Fn(Entry) -> bool) {
        if self.entries.len() == self.entries.capacity() {
            self.drop_stale(is_live);
        }
        self.entries.push(entry);
        self.ends[0] = self.entries.len() as u32;
        self.occupied |= 1;
    }

    /// The next epoch begins: every page is one epoch older.
    pub fn begin_epoch(&mut self) {
        if self.entries.is_empty() {
            return;
        }
        self.starts.truncate(EPOCHS as usize - 1);
        self.starts.push_front(self.entries.len() as u32);
        self.find_stretches();
    }

    /// The bins that may have a live entry, as a set of bits.
    #[inline]
    pub fn occupied(&self) -> u64 {
        self.occupied
    }

    /// The page in `bin` that was born first.
    #[inline]
    pub fn oldest(&mut self, bin: usize, is_live: impl Fn(Entry) -> bool) -> Option<PageId> {
        while self.oldest[bin] < self.ends[bin] {
            let entry = self.entries[self.oldest[bin] as usize];
            if is_live(entry) {
                return Some(entry.page);
            }
            self.oldest[bin] += 1;
        }
        self.occupied &= !(1 << bin);
        None
    }

    fn find_stretches(&mut self) {
        self.occupied = 0;
        for bin in (0..BINS).rev() {
            // What is as old was there when a younger epoch began.
            self.ends[bin] = match LEAST_AGES[bin] {
                0 => self.entries.len() as u32,
                age => self.starts.get(age as usize - 1).copied().unwrap_or(0),
            };
            self.oldest[bin] = self.oldest[bin].max(self.ends[bin + 1]);
            self.occupied |= u64::from(self.oldest[bin] < self.ends[bin]) << bin;
        }
    }

    /// Makes room: a multiple of what the live entries take, so that each costs a constant.
    #[cold]
    #[inline(never)]
    fn drop_stale(&mut self, is_live: impl Fn(Entry) -> bool) {
        let (mut seen, mut kept) = (0, 0);
        let mut end = self.entries.len() as u32;
        for start in self.starts.iter_mut().rev().chain(std::iter::once(&mut end)) {
            for index in seen..*start as usize {
                if is_live(self.entries[index]) {
                    self.entries[kept] = self.entries[index];
                    kept += 1;
                }
            }
            seen = *start as usize;
            *start = kept as u32;
        }
        self.entries.truncate(kept);
        self.entries.reserve_exact(3 * kept + ENTRIES_MIN);
        self.oldest = [0; BINS];
        self.find_stretches();
    }
}

#[cfg(test)]
mod tests {
    use super::super::ages::{Clock, bin};
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn the_oldest_of_every_bin_is_what_a_search_finds() {
        const PAGES: usize = 50;
        let mut clock = Clock::new(0);
        let mut log = AgeLog::default();
        let births = RefCell::new([None; PAGES]);
        let is_live = |entry: Entry| births.borrow()[entry.page.index()] == Some(entry.born);
        let mut state = 7u64;
        for event in 0..60_000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            // So that a run sees many epochs, most of which nothing happens in.
            let skipped = if event % 97 == 0 { 1 << (state >> 59) } else { 1 };
            for _ in 0..skipped.min(1 << 15) {
                if clock.tick() {
                    log.begin_epoch();
                }
            }
            let page = PageId(((state >> 33) % PAGES as u64).pow(2) as u32 / PAGES as u32);
            if state >> 60 == 0 {
                births.borrow_mut()[page.index()] = None;
            } else {
                births.borrow_mut()[page.index()] = Some(clock.now());
                log.push(Entry { page, born: clock.now() }, is_live);
            }
            if event % 13 == 0 {
                let occupied = log.occupied();
                for wanted in 0..BINS {
                    let births = births.borrow();
                    let pages = (0..PAGES).filter(|page| {
                        births[*page].is_some_and(|born| bin(clock.age(born)) == wanted)
                    });
                    let expected = pages.min_by_key(|page| births[*page]);
                    let found =
                        log.oldest(wanted, |entry| births[entry.page.index()] == Some(entry.born));
                    assert_eq!(found.map(PageId::index), expected, "event {event}, bin {wanted}");
                    assert!(expected.is_none() || occupied >> wanted & 1 == 1);
                }
            }
        }
        assert!(log.entries.len() <= 4 * PAGES + ENTRIES_MIN);
    }
}
