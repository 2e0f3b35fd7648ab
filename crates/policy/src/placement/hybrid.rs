//! Two equal swap devices with the access-bit filter: first swap-out to the slow one, promotion of
//! pages whose bit was already set, CLOCK demotion.
//!
//! Source: spec sheet S1.3 P1-P7 of the multi-swap paper.

use super::clock::{self, Hand};
use super::ring::Ring;
use super::{PageIn, PageOut, Placement, PromoteAt, SlotOnSwapIn, Tier};
use crate::admission::AccessBit;
use crate::page_set::PageSet;
use types::PageId;

/// Choices that the paper leaves open.
#[derive(Clone, Copy, Debug)]
pub struct HybridOptions {
    /// The access bit of a page at its first swap-out.
    pub entry_bit: bool,
    /// The access bit of a page at its promotion.
    pub inserted_bit: bool,
    /// When a promoted page is written to the fast tier.
    pub promote_at: PromoteAt,
    /// What a swap-in does to the slot. With `Free` promotion waits for the next swap-out.
    pub slot_on_swapin: SlotOnSwapIn,
    /// Swap-ins after which the bits of pages outside the fast tier are cleared; none: never.
    pub bit_epoch: Option<u64>,
    /// The pages that the hand may pass.
    pub hand: Hand,
}

/// Access-bit admission and CLOCK demotion.
pub struct Hybrid {
    options: HybridOptions,
    filter: AccessBit,
    ring: Ring,
    /// Pages promoted by a fault and not yet swapped out.
    is_due: PageSet,
    /// Pages that still belong to the fast tier although their swap-in freed their fast slot.
    is_away: PageSet,
    swap_ins: u64,
}

impl Hybrid {
    /// An empty pair of devices.
    pub fn new(options: HybridOptions) -> Hybrid {
        Hybrid {
            options,
            filter: AccessBit::new(options.entry_bit),
            ring: Ring::default(),
            is_due: PageSet::default(),
            is_away: PageSet::default(),
            swap_ins: 0,
        }
    }

    fn age_bits(&mut self) {
        self.swap_ins += 1;
        if self.options.bit_epoch.is_some_and(|epoch| self.swap_ins.is_multiple_of(epoch)) {
            self.filter.age();
        }
    }
}

impl Placement for Hybrid {
    fn grow(&mut self, pages: usize) {
        self.filter.grow(pages);
        self.ring.grow(pages);
        self.is_due.grow(pages);
        self.is_away.grow(pages);
    }

    #[inline(always)]
    fn prefetch(&self, page: PageId) {
        self.ring.prefetch(page);
    }

    #[inline(always)]
    fn place_out(&mut self, out: PageOut) -> Tier {
        if out.is_resident {
            return Tier::Fast;
        }
        self.filter.leaves_memory(out.page);
        if self.is_due.contains(out.page) || self.is_away.contains(out.page) {
            Tier::Fast
        } else {
            Tier::Slow
        }
    }

    #[inline(always)]
    fn place_in(&mut self, read: PageIn) -> Tier {
        self.age_bits();
        let frees_slot = self.options.slot_on_swapin == SlotOnSwapIn::Free;
        let has_earned = self.filter.admits(read.page);
        match read.from {
            Tier::Fast if frees_slot => {
                self.ring.remove(read.page);
                self.filter.spare(read.page, false);
                self.is_away.insert(read.page);
                Tier::Slow
            }
            Tier::Fast => Tier::Fast,
            Tier::Slow if !has_earned => Tier::Slow,
            Tier::Slow if frees_slot || self.options.promote_at == PromoteAt::SwapOut => {
                self.is_due.insert(read.page);
                Tier::Slow
            }
            Tier::Slow => Tier::Fast,
        }
    }

    #[inline(always)]
    fn victim(&mut self) -> PageId {
        let victim =
            clock::take_victim(&mut self.ring, self.filter.spared_bits_mut(), self.options.hand)
                .expect("a full fast tier holds a page");
        self.filter.spare(victim, false);
        victim
    }

    #[inline(always)]
    fn insert(&mut self, page: PageId) {
        self.ring.push_front(page);
        self.filter.spare(page, true);
        self.is_due.remove(page);
        if !self.is_away.remove(page) {
            self.filter.set(page, self.options.inserted_bit);
        }
    }

    fn forget(&mut self, page: PageId) {
        self.ring.remove(page);
        self.is_due.remove(page);
        self.is_away.remove(page);
        self.filter.forget(page);
    }
}
