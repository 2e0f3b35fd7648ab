//! CLOCK-Pro (Jiang, Chen and Zhang, USENIX 2005): hot pages stay, cold pages leave, and a page that
//! comes back within its test period becomes hot. How many cold pages there are adapts.
//!
//! Departs from the paper: HAND_cold meets the resident cold pages in the order in which they became
//! cold, even where HAND_hot has overtaken it; a page accessed in its test period does not shrink the
//! cold target when that period ends. Memory fills with hot pages first, as in the authors' own
//! simulator.

use super::queues::Queues;
use super::{NotedEviction, Notes};
use types::PageId;

/// Evicts cold pages that were not used since HAND_cold last met them.
///
/// Invariant: `hot + COLD = resident <= frames`, and `hot <= frames - cold_target` once memory is
/// full. `CLOCK` holds the hot pages and those in their test period, resident or not. Resident cold
/// pages without a test period are only in `COLD`: HAND_hot ignores them.
pub struct ClockPro {
    frames: u32,
    /// Target for the number of frames of cold pages, at least 1.
    cold_target: u32,
    hot: u32,
    has_evicted: bool,
    pages: Queues<3, 2>,
}

/// Starts at the page under HAND_hot and ends at the head of the list.
const CLOCK: usize = 0;
/// Resident cold pages; the first is under HAND_cold.
const COLD: usize = 1;
/// Non-resident pages in their test period; the first is under HAND_test.
const GHOSTS: usize = 2;

/// Note of a resident page that was used since a hand last met it.
const REFERENCED: u8 = 1;
/// Note of a hot page.
const HOT: u8 = 2;
/// Note of a page in its test period.
const TEST: u8 = 4;

impl ClockPro {
    pub fn new(frames: u32) -> ClockPro {
        ClockPro { frames, cold_target: 1, hot: 0, has_evicted: false, pages: Queues::default() }
    }

    fn resident(&self) -> u32 {
        self.hot + self.pages.len(COLD)
    }

    /// Adapts the target to a page that was used in its test period.
    fn grow_cold(&mut self) {
        self.cold_target = (self.cold_target + 1).min(self.frames);
    }

    /// Adapts the target to a test period that ends without a use.
    fn shrink_cold(&mut self) {
        self.cold_target = (self.cold_target - 1).max(1);
    }

    /// Makes a page hot and puts it at the head; the page is in neither list of cold pages.
    fn promote(&mut self, page: PageId, notes: &mut Notes) {
        notes.set(page, HOT);
        self.hot += 1;
        self.grow_cold();
        self.pages.push(CLOCK, page);
        self.run_hand_hot(notes);
    }

    /// Makes unused hot pages cold until the hot pages are within their target, and stops at a hot
    /// page.
    fn run_hand_hot(&mut self, notes: &mut Notes) {
        while let Some(page) = self.pages.oldest(CLOCK) {
            let note = notes.get(page);
            let has_too_many = self.hot > self.frames - self.cold_target;
            match note & HOT != 0 {
                true if !has_too_many => return,
                true if note & REFERENCED != 0 => {
                    notes.set(page, HOT);
                    self.pages.refresh(CLOCK, page);
                }
                true => self.demote(page, notes),
                false if self.hot == 0 => return,
                false => self.end_test(page, notes),
            }
        }
    }

    fn demote(&mut self, page: PageId, notes: &mut Notes) {
        notes.set(page, 0);
        self.hot -= 1;
        self.pages.remove_from_first(page);
        self.pages.push(COLD, page);
    }

    /// Ends the test period of a page; forgets the page if it is not resident.
    fn end_test(&mut self, page: PageId, notes: &mut Notes) {
        let note = notes.get(page);
        notes.set(page, note & !TEST);
        self.pages.remove_from_first(page);
        if self.pages.queue_of(page) == Some(GHOSTS) {
            self.pages.remove(page);
        }
        if note & REFERENCED == 0 {
            self.shrink_cold();
        }
    }

    /// Keeps the non-resident pages to at most the number of frames.
    fn run_hand_test(&mut self, notes: &mut Notes) {
        while self.pages.len(GHOSTS) > self.frames
            && let Some(oldest) = self.pages.oldest(GHOSTS)
        {
            self.end_test(oldest, notes);
        }
    }

    /// Makes a used page under HAND_cold hot if it is in its test period; else starts a test period.
    fn spare(&mut self, page: PageId, note: u8, notes: &mut Notes) {
        if note & TEST != 0 {
            self.pages.remove_from_first(page);
            self.promote(page, notes);
        } else {
            self.start_test(page, notes);
        }
    }

    /// Makes a page cold, puts it at the head, and starts its test period.
    fn start_test(&mut self, page: PageId, notes: &mut Notes) {
        notes.set(page, TEST);
        self.pages.push(CLOCK, page);
        self.pages.push(COLD, page);
    }
}

impl NotedEviction for ClockPro {
    fn grow(&mut self, pages: usize) {
        self.pages.grow(pages);
    }

    #[inline(always)]
    fn hit(&mut self, page: PageId, mut notes: Notes) -> Option<PageId> {
        let note = notes.get(page);
        notes.set(page, note | REFERENCED);
        None
    }

    fn make_room(&mut self, _incoming: PageId, mut notes: Notes) -> Option<PageId> {
        if self.resident() < self.frames {
            return None;
        }
        self.has_evicted = true;
        loop {
            let page = self.pages.pop(COLD)?;
            let note = notes.get(page);
            if note & REFERENCED != 0 {
                self.spare(page, note, &mut notes);
                continue;
            }
            if note & TEST != 0 {
                self.pages.push(GHOSTS, page);
                self.run_hand_test(&mut notes);
            }
            return Some(page);
        }
    }

    fn insert(&mut self, page: PageId, mut notes: Notes) {
        if self.pages.queue_of(page) == Some(GHOSTS) {
            self.pages.remove(page);
            self.pages.remove_from_first(page);
            self.promote(page, &mut notes);
        } else if !self.has_evicted && self.hot < self.frames - self.cold_target {
            notes.set(page, HOT);
            self.hot += 1;
            self.pages.push(CLOCK, page);
        } else {
            self.start_test(page, &mut notes);
        }
    }
}
