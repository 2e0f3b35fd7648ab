//! The fast tier as a cache of the slow one: every page that must be written enters it.
//!
//! Source: spec sheet S1.3, baseline H. The paper's experiments replace by CLOCK; LRU is the other form.

use super::clock::{self, Hand};
use super::ring::Ring;
use super::{PageIn, PageOut, Placement, Tier};
use crate::page_set::PageSet;
use types::PageId;

/// How the cache chooses a victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// Least recently used.
    Lru,
    /// One access bit per page and a hand.
    Clock,
}

/// Choices about the cache that the sources leave open.
#[derive(Clone, Copy, Debug)]
pub struct HierarchicalOptions {
    /// Replacement rule.
    pub eviction: Replacement,
    /// A page read from the slow tier enters the fast tier.
    pub fill_on_read_miss: bool,
    /// A clean page that only the slow tier holds enters the fast tier when it leaves memory.
    pub admit_clean: bool,
    /// LRU only: a swap-out of a page that is in the fast tier counts as a use.
    pub swapout_refreshes: bool,
    /// CLOCK only: the access bit a page enters with.
    pub inserted_bit: bool,
    /// CLOCK only: the pages that the hand may pass.
    pub hand: Hand,
}

/// A cache of the slow tier.
pub struct Hierarchical {
    options: HierarchicalOptions,
    /// In order of use with LRU; in the order in which the hand reaches them with CLOCK.
    resident: Ring,
    /// Access bits, only for CLOCK.
    bits: PageSet,
}

impl Hierarchical {
    /// An empty cache.
    pub fn new(options: HierarchicalOptions) -> Hierarchical {
        Hierarchical { options, resident: Ring::default(), bits: PageSet::default() }
    }

    fn is_lru(&self) -> bool {
        self.options.eviction == Replacement::Lru
    }
}

impl Placement for Hierarchical {
    fn grow(&mut self, pages: usize) {
        self.resident.grow(pages);
        self.bits.grow(pages);
    }

    #[inline(always)]
    fn prefetch(&self, page: PageId) {
        self.resident.prefetch(page);
    }

    #[inline(always)]
    fn place_out(&mut self, out: PageOut) -> Tier {
        if out.is_resident {
            if self.is_lru() && self.options.swapout_refreshes {
                self.resident.move_to_front(out.page);
            }
            return Tier::Fast;
        }
        if out.must_write || self.options.admit_clean { Tier::Fast } else { Tier::Slow }
    }

    #[inline(always)]
    fn place_in(&mut self, read: PageIn) -> Tier {
        match read.from {
            Tier::Fast => {
                if self.is_lru() {
                    self.resident.move_to_front(read.page);
                } else {
                    self.bits.insert(read.page);
                }
                Tier::Fast
            }
            Tier::Slow if self.options.fill_on_read_miss => Tier::Fast,
            Tier::Slow => Tier::Slow,
        }
    }

    #[inline(always)]
    fn victim(&mut self) -> PageId {
        let victim = if self.is_lru() {
            self.resident.pop_back()
        } else {
            clock::take_victim(&mut self.resident, &mut self.bits, self.options.hand)
        };
        victim.expect("a full fast tier holds a page")
    }

    #[inline(always)]
    fn insert(&mut self, page: PageId) {
        self.resident.push_front(page);
        if !self.is_lru() {
            self.bits.set(page, self.options.inserted_bit);
        }
    }

    fn forget(&mut self, page: PageId) {
        self.resident.remove(page);
        self.bits.remove(page);
    }
}
