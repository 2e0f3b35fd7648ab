//! The fast tier as a cache in front of the slow one: every page that must be written enters it.
//!
//! Source: specs S1.3, baseline H. The paper's experiments replace by CLOCK; LRU is the other form.

use super::clock::Clock;
use super::ring::Ring;
use super::{PageIn, PageOut, Placement, Tier};
use crate::page_set::PageSet;
use types::PageId;

/// How the cache picks the page that leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// Least recently used.
    Lru,
    /// One access bit per page and a hand.
    Clock,
}

/// What the sources leave open about the cache.
#[derive(Clone, Copy, Debug)]
pub struct HierarchicalOptions {
    /// How a victim is chosen.
    pub eviction: Replacement,
    /// A page read from the slow tier enters the fast tier.
    pub fill_on_read_miss: bool,
    /// A clean page that only the slow tier holds enters the fast tier when it leaves memory.
    pub admit_clean: bool,
    /// LRU only: a swap-out of a page that is in the fast tier counts as a use.
    pub swapout_refreshes: bool,
    /// CLOCK only: the access bit a page enters with.
    pub inserted_bit: bool,
}

/// A cache of the slow tier.
#[derive(Clone, Debug)]
pub struct Hierarchical {
    options: HierarchicalOptions,
    recency: Ring,
    clock: Clock,
    bits: PageSet,
}

impl Hierarchical {
    /// An empty cache.
    pub fn new(options: HierarchicalOptions) -> Hierarchical {
        Hierarchical {
            options,
            recency: Ring::default(),
            clock: Clock::default(),
            bits: PageSet::default(),
        }
    }

    fn is_lru(&self) -> bool {
        self.options.eviction == Replacement::Lru
    }
}

impl Placement for Hierarchical {
    fn grow(&mut self, pages: usize) {
        if self.is_lru() {
            self.recency.grow(pages);
        } else {
            self.clock.grow(pages);
            self.bits.grow(pages);
        }
    }

    fn place_out(&mut self, out: PageOut) -> Tier {
        if out.is_resident {
            if self.is_lru() && self.options.swapout_refreshes {
                self.recency.move_to_front(out.page);
            }
            return Tier::Fast;
        }
        if out.must_write || self.options.admit_clean { Tier::Fast } else { Tier::Slow }
    }

    fn place_in(&mut self, read: PageIn) -> Tier {
        match read.from {
            Tier::Fast => {
                if self.is_lru() {
                    self.recency.move_to_front(read.page);
                } else {
                    self.bits.insert(read.page);
                }
                Tier::Fast
            }
            Tier::Slow if self.options.fill_on_read_miss => Tier::Fast,
            Tier::Slow => Tier::Slow,
        }
    }

    fn victim(&mut self) -> PageId {
        let victim =
            if self.is_lru() { self.recency.pop_back() } else { self.clock.victim(&mut self.bits) };
        victim.expect("a full fast tier holds a page")
    }

    fn insert(&mut self, page: PageId) {
        if self.is_lru() {
            self.recency.push_front(page);
        } else {
            self.clock.insert(page);
            self.bits.set(page, self.options.inserted_bit);
        }
    }

    fn forget(&mut self, page: PageId) {
        if self.recency.contains(page) {
            self.recency.remove(page);
        }
        if self.clock.contains(page) {
            self.clock.remove(page);
        }
        self.bits.remove(page);
    }
}
