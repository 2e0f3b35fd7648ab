//! Two equal swap devices without a filter: a swap-out goes straight to the fast one, CLOCK demotes.
//!
//! Source: spec sheet S1.3, baseline C ("plain CLOCK on the parallel structure").

use super::clock::{self, Hand};
use super::ring::Ring;
use super::{PageIn, PageOut, Placement, SlotOnSwapIn, Tier};
use crate::page_set::PageSet;
use types::PageId;

/// When a demoted page re-enters the fast tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reinsertion {
    /// At the page fault that reads it.
    Fault,
    /// At the next swap-out that writes it.
    SwapOut,
}

/// Choices about the unfiltered scheme that the paper leaves open.
#[derive(Clone, Copy, Debug)]
pub struct HybridClockOptions {
    /// When a demoted page re-enters.
    pub clock_reinsert: Reinsertion,
    /// A clean page that only the slow tier holds enters the fast tier when it leaves memory.
    pub admit_clean: bool,
    /// The access bit a page enters with.
    pub inserted_bit: bool,
    /// What a swap-in does to the slot. With `Free` nothing re-enters at the fault.
    pub slot_on_swapin: SlotOnSwapIn,
    /// The pages that the hand may pass.
    pub hand: Hand,
}

/// Fast device first for every swap-out, CLOCK demotion.
pub struct HybridClock {
    options: HybridClockOptions,
    resident: Ring,
    bits: PageSet,
}

impl HybridClock {
    /// An empty pair of devices.
    pub fn new(options: HybridClockOptions) -> HybridClock {
        HybridClock { options, resident: Ring::default(), bits: PageSet::default() }
    }
}

impl Placement for HybridClock {
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
        if out.is_resident || out.must_write || self.options.admit_clean {
            Tier::Fast
        } else {
            Tier::Slow
        }
    }

    #[inline(always)]
    fn place_in(&mut self, read: PageIn) -> Tier {
        let frees_slot = self.options.slot_on_swapin == SlotOnSwapIn::Free;
        match read.from {
            Tier::Fast if frees_slot => {
                self.resident.remove(read.page);
                Tier::Slow
            }
            Tier::Fast => {
                self.bits.insert(read.page);
                Tier::Fast
            }
            Tier::Slow if self.options.clock_reinsert == Reinsertion::Fault && !frees_slot => {
                Tier::Fast
            }
            Tier::Slow => Tier::Slow,
        }
    }

    #[inline(always)]
    fn victim(&mut self) -> PageId {
        clock::take_victim(&mut self.resident, &mut self.bits, self.options.hand)
            .expect("a full fast tier holds a page")
    }

    #[inline(always)]
    fn insert(&mut self, page: PageId) {
        self.resident.push_front(page);
        self.bits.set(page, self.options.inserted_bit);
    }

    fn forget(&mut self, page: PageId) {
        self.resident.remove(page);
        self.bits.remove(page);
    }
}
