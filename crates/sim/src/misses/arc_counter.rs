//! Misses of ARC with one size, on a timeline instead of queues. Policy `arc` is the plain form and
//! explains the rules.
//!
//! The residents of each of its two LRU lists and the ghosts that left it are one list of the
//! timeline: ghosts at the ticks `first..boundary`, residents from there on. Thereby an eviction
//! and a ghost forgotten are a boundary moved to the next bit, without a look at any page.

use super::CountMisses;
use super::timeline::{CHUNK, TICK_FIRST, Timeline};
use types::PageId;

/// Counts the misses of an ARC memory of fixed size, at least one frame.
pub(super) struct ArcCounter {
    frames: u32,
    misses: u64,
    /// Wanted residents of `ONCE`, from 0 to `frames`.
    target: f64,
    lists: [List; 2],
    pages: Timeline<2>,
}

/// Pages seen again since they came (T2 and B2 in the paper).
const AGAIN: usize = 0;
/// Pages seen once (T1 and B1).
const ONCE: usize = 1;

/// Residents and ghosts of one list, the latter older.
#[derive(Clone, Copy)]
struct List {
    /// No ghost lies before this tick.
    first: u32,
    /// No resident lies before this tick, and no ghost from it on.
    boundary: u32,
    residents: u32,
    ghosts: u32,
}

impl ArcCounter {
    pub(super) fn new(frames: u32) -> ArcCounter {
        let list = List { first: TICK_FIRST, boundary: TICK_FIRST, residents: 0, ghosts: 0 };
        ArcCounter { frames, misses: 0, target: 0.0, lists: [list; 2], pages: Timeline::new() }
    }

    #[cfg(test)]
    pub(super) fn with_ticks_max(self, ticks_max: u32) -> ArcCounter {
        ArcCounter { pages: self.pages.with_ticks_max(ticks_max), ..self }
    }

    fn make_room(&mut self, ticks: usize) {
        if let Some(new) = self.pages.make_room(ticks as u32, self.lists.map(|list| list.first)) {
            for list in &mut self.lists {
                list.first = new.of(list.first);
                list.boundary = new.of(list.boundary);
            }
        }
    }

    #[inline(always)]
    fn access(&mut self, page: PageId) {
        let stamp = self.pages.stamp(page);
        let list = stamp.kind();
        if stamp.tick() >= self.lists[list].boundary {
            // Arithmetic: which of the lists is hit cannot be foreseen.
            let from_once = u32::from(list == ONCE);
            self.lists[ONCE].residents -= from_once;
            self.lists[AGAIN].residents += from_once;
            self.pages.take(stamp);
            self.pages.place(page, AGAIN);
            return;
        }
        self.misses += 1;
        if stamp.tick() >= self.lists[list].first {
            self.adapt(list);
            self.lists[list].ghosts -= 1;
            self.pages.take(stamp);
            if self.is_full() {
                self.replace(list == AGAIN);
            }
            self.place::<AGAIN>(page);
        } else {
            if self.is_full() {
                self.replace_for_unknown();
            }
            self.place::<ONCE>(page);
        }
    }

    #[inline(always)]
    fn place<const LIST: usize>(&mut self, page: PageId) {
        self.lists[LIST].residents += 1;
        self.pages.place(page, LIST);
    }

    #[inline(always)]
    fn is_full(&self) -> bool {
        self.lists[ONCE].residents + self.lists[AGAIN].residents == self.frames
    }

    /// Moves the target towards the list whose ghost was missed.
    #[inline(always)]
    fn adapt(&mut self, ghost_of: usize) {
        let once = f64::from(self.lists[ONCE].ghosts);
        let again = f64::from(self.lists[AGAIN].ghosts);
        self.target = if ghost_of == ONCE {
            (self.target + (again / once).max(1.0)).min(f64::from(self.frames))
        } else {
            (self.target - (once / again).max(1.0)).max(0.0)
        };
    }

    #[inline(always)]
    fn replace(&mut self, for_ghost_of_again: bool) {
        let residents = self.lists[ONCE].residents;
        let once = f64::from(residents);
        let is_over = once > self.target || (once == self.target && for_ghost_of_again);
        if (residents > 0 && is_over) || self.lists[AGAIN].residents == 0 {
            self.evict::<ONCE>();
        } else {
            self.evict::<AGAIN>();
        }
    }

    #[inline(always)]
    fn replace_for_unknown(&mut self) {
        let [again, once] = self.lists.map(|list| list.residents + list.ghosts);
        if once >= self.frames {
            if self.lists[ONCE].ghosts == 0 {
                // The oldest resident leaves without becoming a ghost.
                self.evict::<ONCE>();
                self.forget::<ONCE>();
                return;
            }
            self.forget::<ONCE>();
        } else if once + again >= 2 * self.frames && self.lists[AGAIN].ghosts > 0 {
            self.forget::<AGAIN>();
        }
        self.replace(false);
    }

    /// The oldest resident of a list becomes its newest ghost.
    #[inline(always)]
    fn evict<const LIST: usize>(&mut self) {
        let list = &mut self.lists[LIST];
        list.boundary = self.pages.next([LIST], list.boundary) + 1;
        list.residents -= 1;
        list.ghosts += 1;
    }

    /// The oldest ghost of a list is not remembered any longer.
    #[inline(always)]
    fn forget<const LIST: usize>(&mut self) {
        let list = &mut self.lists[LIST];
        list.first = self.pages.next([LIST], list.first) + 1;
        list.ghosts -= 1;
    }
}

impl CountMisses for ArcCounter {
    fn count(&mut self, requests: &[PageId], bound: usize) {
        self.pages.grow(bound);
        for chunk in requests.chunks(CHUNK) {
            self.make_room(chunk.len());
            self.pages.read_ahead(chunk);
            for &page in chunk {
                self.access(page);
            }
        }
    }

    fn misses(&self) -> u64 {
        self.misses
    }

    fn pages(&self) -> u64 {
        self.pages.pages_placed()
    }
}
