//! Misses of LIRS at one size, on a timeline instead of queues. Policy `lirs` is the plain form
//! and explains the rules.
//!
//! A page on trial is in the stack and in the queue of cold pages at the same tick, and both drop
//! their oldest first. So one list of trial pages serves as both, and as the queue of ghosts, with a
//! boundary for each; pruning the stack and evicting move a boundary and read no page.

use super::CountMisses;
use super::timeline::{CHUNK, TICK_FIRST, Timeline};
use types::PageId;

/// Counts the misses of a LIRS memory of fixed size, at least one frame.
///
/// Invariant: hot pages have kind `HOT`; the oldest is at `bottom`. Cold pages have
/// the other kinds and ticks from `cold_first` on. The stack holds the hot pages, and those of kind
/// `TRIAL` from `stack_first` on, which is not before `bottom`; the latter are ghosts if they are not
/// cold.
pub(super) struct LirsCounter {
    frames: u32,
    hot_frames: u32,
    cold_frames: u32,
    misses: u64,
    hot: u32,
    cold: u32,
    /// Pages of the stack that are not hot.
    on_trial: u32,
    bottom: u32,
    cold_first: u32,
    stack_first: u32,
    pages: Timeline<3>,
    /// The page placed at each tick, modulo the number of slots.
    placed: Box<[PageId]>,
}

/// Pages whose last two requests lie closest together.
const HOT: usize = 0;
/// Pages that become hot at a request while they are in the stack.
const TRIAL: usize = 1;
/// Cold pages that were hot, placed at their demotion; they are not in the stack.
const DEMOTED: usize = 2;

/// Placements per access at most: its page, and a page that it demotes.
const PLACEMENTS_MAX: usize = 2;

impl LirsCounter {
    pub(super) fn new(frames: u32) -> LirsCounter {
        let cold_frames = if frames == 1 { 0 } else { (frames / 100).max(1) };
        let pages = Timeline::new();
        LirsCounter {
            frames,
            hot_frames: frames - cold_frames,
            cold_frames,
            misses: 0,
            hot: 0,
            cold: 0,
            on_trial: 0,
            bottom: TICK_FIRST,
            cold_first: TICK_FIRST,
            stack_first: TICK_FIRST,
            placed: vec![PageId(0); pages.ring()].into_boxed_slice(),
            pages,
        }
    }

    #[cfg(test)]
    pub(super) fn with_ticks_max(self, ticks_max: u32) -> LirsCounter {
        LirsCounter { pages: self.pages.with_ticks_max(ticks_max), ..self }
    }

    fn make_room(&mut self, ticks: usize) {
        let firsts = [self.bottom, self.cold_first.min(self.stack_first), self.cold_first];
        if let Some(new) = self.pages.make_room(ticks as u32, firsts) {
            for tick in [&mut self.bottom, &mut self.cold_first, &mut self.stack_first] {
                *tick = new.of(*tick);
            }
            let slots = self.pages.ring();
            self.placed = vec![PageId(0); slots].into_boxed_slice();
            for (page, stamp) in self.pages.placements() {
                self.placed[stamp.tick() as usize & (slots - 1)] = page;
            }
        }
    }

    #[inline(always)]
    fn access(&mut self, page: PageId) {
        let stamp = self.pages.stamp(page);
        if stamp.kind() == HOT {
            self.pages.take(stamp);
            self.place(page, HOT);
            if stamp.tick() == self.bottom {
                self.prune();
            }
            return;
        }
        let is_in_stack = stamp.kind() == TRIAL && stamp.tick() >= self.stack_first;
        if is_in_stack {
            self.on_trial -= 1;
        }
        if stamp.tick() >= self.cold_first {
            self.pages.take(stamp);
            if is_in_stack {
                self.cold -= 1;
                self.heat(page);
            } else {
                self.try_again(page);
            }
        } else {
            self.misses += 1;
            if is_in_stack {
                self.pages.take(stamp);
                self.heat(page);
            } else if self.hot < self.hot_frames || self.cold_frames == 0 {
                self.heat(page);
            } else {
                if self.cold == self.cold_frames {
                    self.evict_cold();
                }
                self.cold += 1;
                self.place_on_trial(page);
            }
        }
        self.limit_stack();
    }

    #[inline(always)]
    fn place(&mut self, page: PageId, kind: usize) {
        let slot = self.pages.now() as usize & (self.placed.len() - 1);
        self.placed[slot] = page;
        self.pages.place(page, kind);
    }

    #[inline(always)]
    fn place_on_trial(&mut self, page: PageId) {
        self.place(page, TRIAL);
        self.on_trial += 1;
    }

    /// Makes `page` hot, and the least recent hot page cold if there would be too many.
    #[inline(always)]
    fn heat(&mut self, page: PageId) {
        self.place(page, HOT);
        if self.hot == self.hot_frames {
            self.demote();
        }
        self.hot += 1;
    }

    /// Handles a hit on a cold page outside the stack: it stays cold, and a hot page becomes cold.
    #[inline(always)]
    fn try_again(&mut self, page: PageId) {
        self.place_on_trial(page);
        if self.hot == self.hot_frames && self.cold_frames > 1 {
            self.demote();
        }
    }

    /// Makes the least recent hot page cold; it must not be the only one of kind `HOT`.
    #[inline(always)]
    fn demote(&mut self) {
        let page = self.placed[self.bottom as usize & (self.placed.len() - 1)];
        self.pages.take(self.pages.stamp(page));
        self.hot -= 1;
        if self.cold == self.cold_frames && self.cold > 0 {
            self.evict_cold();
        }
        self.place(page, DEMOTED);
        if self.cold_frames > 0 {
            self.cold += 1;
        } else {
            self.cold_first = self.pages.now();
        }
        self.prune();
    }

    /// Evicts the oldest cold page. It stays as a ghost if it is in the stack.
    #[inline(always)]
    fn evict_cold(&mut self) {
        self.cold_first = self.pages.next([TRIAL, DEMOTED], self.cold_first) + 1;
        self.cold -= 1;
    }

    /// Moves `bottom` to the least recent hot page; pages before it leave the stack.
    #[inline(always)]
    fn prune(&mut self) {
        self.bottom = self.pages.next([HOT], self.bottom);
        if self.bottom > self.stack_first {
            self.on_trial -= self.pages.count(TRIAL, self.stack_first, self.bottom);
            self.stack_first = self.bottom;
        }
    }

    /// Forgets the oldest ghosts while the stack is longer than twice the frames.
    #[inline(always)]
    fn limit_stack(&mut self) {
        while self.hot + self.on_trial > 2 * self.frames {
            let oldest = self.pages.next([TRIAL], self.stack_first);
            if oldest >= self.cold_first {
                return;
            }
            self.stack_first = oldest + 1;
            self.on_trial -= 1;
        }
    }
}

impl CountMisses for LirsCounter {
    fn count(&mut self, requests: &[PageId], bound: usize) {
        self.pages.grow(bound);
        for chunk in requests.chunks(CHUNK) {
            self.make_room(PLACEMENTS_MAX * chunk.len());
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
