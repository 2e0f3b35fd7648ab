//! Residents of one class and kind of copy, in the order in which they became so.
//!
//! Any event of a page makes it young again, so an order by birth is a log that grows at one end,
//! and the pages of an age bin are a stretch of it between the beginnings of two epochs. Ageing moves
//! the ends of stretches, not pages.

use super::ages::{BINS, EPOCHS, EventNumber, LEAST_AGES};
use super::class::Class;
use super::page::{Copy, Page};
use std::collections::VecDeque;
use types::{PageId, prefetch};

/// Minimum capacity of a log, for any number of pages.
const ENTRIES_MIN: usize = 64;
/// Distance in entries at which a page, or the place of an entry to write, is prefetched.
const AHEAD: usize = 48;

/// A page and its birth: the time of its last change.
#[derive(Clone, Copy, Debug)]
struct Entry {
    page: PageId,
    born: EventNumber,
}

/// Entries in the order of their births. An entry is stale once its page has changed again.
///
/// Invariant: the entries of a bin are `ends[bin + 1]..ends[bin]`; `ends[0]` is the number of entries,
/// and `ends[BINS]` is 0.
#[derive(Clone, Debug)]
pub(super) struct AgeLog {
    class: Class,
    copy: Copy,
    entries: Vec<Entry>,
    /// Number of entries when each epoch began, the current one first; 0 in the epochs before.
    starts: VecDeque<u32>,
    ends: [u32; BINS + 1],
    /// For each bin, an entry before which all entries are known to be stale.
    oldest: [u32; BINS],
    /// Bit set of the bins with an entry that is not known to be stale.
    occupied: u64,
}

impl AgeLog {
    /// A log for residents of `class` with this kind of copy.
    pub fn of(class: Class, copy: Copy) -> AgeLog {
        AgeLog {
            class,
            copy,
            entries: Vec::with_capacity(ENTRIES_MIN),
            starts: VecDeque::new(),
            ends: [0; BINS + 1],
            oldest: [0; BINS],
            occupied: 0,
        }
    }

    /// Adds `page`, whose last event is the current one.
    #[inline]
    pub fn push(&mut self, page: PageId, pages: &[Page]) {
        if self.entries.len() == self.entries.capacity() {
            self.entries.reserve_exact(spare(self.entries.len()));
        }
        self.entries.push(Entry { page, born: pages[page.index()].last_event });
        prefetch(&self.entries, self.entries.len() + AHEAD);
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

    /// Bit set of the bins that may have a live entry.
    #[inline]
    pub fn occupied(&self) -> u64 {
        self.occupied
    }

    /// The page in `bin` that was born first.
    #[inline]
    pub fn oldest(&mut self, bin: usize, pages: &[Page]) -> Option<PageId> {
        while self.oldest[bin] < self.ends[bin] {
            let index = self.oldest[bin] as usize;
            let entry = self.entries[index];
            if self.is_live(entry, pages) {
                return Some(entry.page);
            }
            self.ask_for_page(index + AHEAD, pages);
            self.oldest[bin] += 1;
        }
        self.occupied &= !(1 << bin);
        None
    }

    /// Whether the page has not changed since the entry was added. All conditions are evaluated: a branch
    /// on the first would be mispredicted too often.
    #[inline(always)]
    fn is_live(&self, entry: Entry, pages: &[Page]) -> bool {
        let page = &pages[entry.page.index()];
        (page.last_event == entry.born)
            & (page.class == self.class)
            & (page.copy == Some(self.copy))
    }

    #[inline(always)]
    fn ask_for_page(&self, index: usize, pages: &[Page]) {
        if let Some(entry) = self.entries.get(index) {
            prefetch(pages, entry.page.index());
        }
    }

    fn find_stretches(&mut self) {
        self.occupied = 0;
        for bin in (0..BINS).rev() {
            // Entries of that age or older existed when a younger epoch began.
            self.ends[bin] = match LEAST_AGES[bin] {
                0 => self.entries.len() as u32,
                age => self.starts.get(age as usize - 1).copied().unwrap_or(0),
            };
            self.oldest[bin] = self.oldest[bin].max(self.ends[bin + 1]);
            self.occupied |= u64::from(self.oldest[bin] < self.ends[bin]) << bin;
        }
    }

    /// Drops the stale entries and frees their memory. Returns the number of entries left.
    pub fn drop_stale(&mut self, pages: &[Page]) -> usize {
        let (mut seen, mut kept) = (0, 0);
        for epoch in (0..=self.starts.len()).rev() {
            // The last stretch starts with the current epoch.
            let end = match epoch {
                0 => self.entries.len(),
                epoch => self.starts[epoch - 1] as usize,
            };
            for index in seen..end {
                self.ask_for_page(index + AHEAD, pages);
                let entry = self.entries[index];
                self.entries[kept] = entry;
                kept += usize::from(self.is_live(entry, pages));
            }
            seen = end;
            if epoch > 0 {
                self.starts[epoch - 1] = kept as u32;
            }
        }
        self.entries.truncate(kept);
        self.entries.shrink_to(kept + spare(kept));
        self.oldest = [0; BINS];
        self.find_stretches();
        kept
    }
}

/// Spare capacity for a log of `entries`: a fixed share, so that a push costs amortised constant
/// time.
fn spare(entries: usize) -> usize {
    entries / 4 + ENTRIES_MIN
}

#[cfg(test)]
mod tests {
    use super::super::ages::{Clock, bin};
    use super::super::class::CLASSES;
    use super::*;

    #[test]
    fn the_oldest_of_every_bin_is_what_a_search_finds() {
        const PAGES: usize = 50;
        let mut clock = Clock::new(0);
        let class = Class::of(CLASSES - 1);
        let mut log = AgeLog::of(class, Copy::Clean);
        let mut pages = [Page::UNKNOWN; PAGES];
        let mut state = 7u64;
        for event in 0..60_000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            // Makes a run span many epochs, most of them without an event.
            let skipped = if event % 97 == 0 { 1 << (state >> 59) } else { 1 };
            for _ in 0..skipped.min(1 << 15) {
                if clock.tick() {
                    log.begin_epoch();
                }
            }
            let id = PageId(((state >> 33) % PAGES as u64).pow(2) as u32 / PAGES as u32);
            let page = &mut pages[id.index()];
            *page = Page { last_event: clock.now(), class, copy: Some(Copy::Clean), ..*page };
            match state >> 60 {
                0 => page.copy = None,
                1 => page.copy = Some(Copy::Dirty),
                2 => page.class = Class::of(0),
                _ => {
                    if log.entries.len() > 3 * PAGES {
                        assert!(log.drop_stale(&pages) <= PAGES);
                    }
                    log.push(id, &pages);
                }
            }
            if event % 13 == 0 {
                let occupied = log.occupied();
                for wanted in 0..BINS {
                    let is_in = |page: &Page| {
                        (page.class, page.copy) == (class, Some(Copy::Clean))
                            && bin(clock.age(page.last_event)) == wanted
                    };
                    let found = (0..PAGES).filter(|id| is_in(&pages[*id]));
                    let expected = found.min_by_key(|id| pages[*id].last_event);
                    let found = log.oldest(wanted, &pages);
                    assert_eq!(found.map(PageId::index), expected, "event {event}, bin {wanted}");
                    assert!(expected.is_none() || occupied >> wanted & 1 == 1);
                }
            }
        }
        assert!(log.entries.capacity() <= 3 * PAGES + spare(3 * PAGES));
    }
}
