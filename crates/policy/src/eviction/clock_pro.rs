//! CLOCK-Pro (Jiang, Chen and Zhang, USENIX 2005): hot pages stay, cold pages leave, and a page that
//! comes back within its test period becomes hot. How many cold pages there are adapts.
//!
//! Departs from the paper: HAND_cold meets the resident cold pages in the order in which they became
//! cold, also where HAND_hot has overtaken it; an accessed page whose test period ends unseen does
//! not count as passed. Memory fills with hot pages first, as in the authors' own simulator.

use super::queues::Queues;
use super::{NotedEviction, Notes};
use types::PageId;

/// Evicts cold pages that were not used since HAND_cold last met them.
///
/// Invariant: `hot + COLD = resident <= frames`, and `hot <= frames - cold_target` once memory is
/// full. `CLOCK` holds the hot pages and those in their test period, resident or not. Of the clock's
/// other pages, resident ones without a test period, HAND_hot has nothing to do with any.
pub struct ClockPro {
    frames: u32,
    /// Frames that cold pages are meant to have, from 1 on.
    cold_target: u32,
    hot: u32,
    has_evicted: bool,
    pages: Queues<3, 2>,
}

/// From the page that HAND_hot points to, to the head of the list.
const CLOCK: usize = 0;
/// Resident cold pages, the one that HAND_cold points to first.
const COLD: usize = 1;
/// Pages in their test period that are not resident, the one that HAND_test points to first.
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

    /// A page was used in its test period.
    fn grow_cold(&mut self) {
        self.cold_target = (self.cold_target + 1).min(self.frames);
    }

    /// A test period ends without a use.
    fn shrink_cold(&mut self) {
        self.cold_target = (self.cold_target - 1).max(1);
    }

    /// Makes a page that is in neither list of cold pages hot, at the head.
    fn promote(&mut self, page: PageId, notes: &mut Notes) {
        notes.set(page, HOT);
        self.hot += 1;
        self.grow_cold();
        self.pages.push(CLOCK, page);
        self.run_hand_hot(notes);
    }

    /// Turns hot pages that were not used into cold ones until no more are hot than should be, and
    /// stops at a hot page.
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

    /// A page in its test period loses it; a page that is not resident is forgotten.
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

    /// Not more pages than there are frames are remembered.
    fn run_hand_test(&mut self, notes: &mut Notes) {
        while self.pages.len(GHOSTS) > self.frames
            && let Some(oldest) = self.pages.oldest(GHOSTS)
        {
            self.end_test(oldest, notes);
        }
    }

    /// A page that HAND_cold met was used: hot if in its test period, else granted one.
    fn spare(&mut self, page: PageId, note: u8, notes: &mut Notes) {
        if note & TEST != 0 {
            self.pages.remove_from_first(page);
            self.promote(page, notes);
        } else {
            self.start_test(page, notes);
        }
    }

    /// Makes a page cold, at the head, in its test period.
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
