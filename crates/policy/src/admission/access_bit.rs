//! Admission by one access bit per swapped page.
//!
//! Source: spec sheet S1.3 P1-P3. A page is admitted when it is read back and its bit was already set;
//! every read sets the bit. The value at the first swap-out decides whether that takes one read or
//! two. It is second-eviction admission with the ghost kept as one bit per slot.

use crate::page_set::PageSet;
use types::PageId;

/// Access bits of pages, and the set of pages that have a bit.
///
/// `age` clears the bits of all pages but those in `spared`. It visits no page: the bits of 64
/// neighbouring pages are cleared when the next operation needs one of them.
#[derive(Clone, Debug)]
pub struct AccessBit {
    entry_bit: bool,
    bits: PageSet,
    has_slot: PageSet,
    spared: PageSet,
    ages: u64,
    /// How often `age` had been called when it last took effect on each 64 pages.
    aged: Vec<u64>,
}

impl AccessBit {
    /// A filter that gives `entry_bit` to pages at their first swap-out.
    pub fn new(entry_bit: bool) -> AccessBit {
        let [bits, has_slot, spared] = [PageSet::default(), PageSet::default(), PageSet::default()];
        AccessBit { entry_bit, bits, has_slot, spared, ages: 0, aged: Vec::new() }
    }

    /// Makes room for pages below `pages`.
    pub fn grow(&mut self, pages: usize) {
        self.bits.grow(pages);
        self.has_slot.grow(pages);
        self.spared.grow(pages);
        if self.aged.len() * 64 < pages {
            self.aged.resize(pages.div_ceil(64), self.ages);
        }
    }

    /// Records that `page` leaves memory; the first time, its bit takes the entry value.
    #[inline]
    pub fn leaves_memory(&mut self, page: PageId) {
        if self.has_slot.insert(page) {
            self.set(page, self.entry_bit);
        }
    }

    /// Returns whether the bit of `page` was set when the page is read back, and sets it.
    #[inline]
    pub fn admits(&mut self, page: PageId) -> bool {
        self.has_slot.insert(page);
        self.take_effect(page);
        !self.bits.insert(page)
    }

    /// Sets or clears the bit of `page`.
    #[inline]
    pub fn set(&mut self, page: PageId, bit: bool) {
        self.take_effect(page);
        self.bits.set(page, bit);
    }

    /// Clears the bits of all pages that are not spared.
    pub fn age(&mut self) {
        self.ages += 1;
    }

    /// Sets whether `age` spares the bit of `page` from now on.
    #[inline]
    pub fn spare(&mut self, page: PageId, is_spared: bool) {
        self.take_effect(page);
        self.spared.set(page, is_spared);
    }

    /// The bits, for the replacement that clears those of spared pages.
    pub fn spared_bits_mut(&mut self) -> &mut PageSet {
        &mut self.bits
    }

    /// Removes a page that ceased to exist.
    pub fn forget(&mut self, page: PageId) {
        self.set(page, false);
        self.has_slot.remove(page);
        self.spared.remove(page);
    }

    #[inline(always)]
    fn take_effect(&mut self, page: PageId) {
        let aged = &mut self.aged[page.index() / 64];
        if *aged != self.ages {
            *aged = self.ages;
            self.bits.intersect_around(page, &self.spared);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_bit_one_admits_at_the_first_read_and_zero_at_the_second() {
        for (entry_bit, first, second) in [(true, true, true), (false, false, true)] {
            let mut filter = AccessBit::new(entry_bit);
            filter.grow(1);
            filter.leaves_memory(PageId(0));
            assert_eq!(filter.admits(PageId(0)), first);
            filter.leaves_memory(PageId(0));
            assert_eq!(filter.admits(PageId(0)), second);
        }
    }

    #[test]
    fn ages_that_take_effect_late_equal_ages_that_visit_all_pages() {
        const PAGES: u32 = 200;
        let mut filter = AccessBit::new(true);
        filter.grow(PAGES as usize);
        let (mut bits, mut spared) = ([false; PAGES as usize], [false; PAGES as usize]);
        let mut state = 3u64;
        for _ in 0..100_000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let (page, flag) = ((state >> 33) as u32 % PAGES, state >> 63 == 1);
            let at = page as usize;
            match (state >> 56) % 16 {
                0 => {
                    filter.age();
                    for (bit, spared) in bits.iter_mut().zip(&spared) {
                        *bit &= spared;
                    }
                }
                1..4 => {
                    filter.spare(PageId(page), flag);
                    spared[at] = flag;
                }
                4 if spared[at] => {
                    assert_eq!(filter.spared_bits_mut().remove(PageId(page)), bits[at]);
                    bits[at] = false;
                }
                5 => {
                    filter.forget(PageId(page));
                    (bits[at], spared[at]) = (false, false);
                }
                6 => {
                    filter.set(PageId(page), flag);
                    bits[at] = flag;
                }
                _ => {
                    assert_eq!(filter.admits(PageId(page)), bits[at]);
                    bits[at] = true;
                }
            }
        }
    }

    #[test]
    fn a_page_first_seen_by_a_read_starts_with_bit_zero() {
        let mut filter = AccessBit::new(true);
        filter.grow(1);
        assert!(!filter.admits(PageId(0)));
        filter.forget(PageId(0));
        assert!(!filter.admits(PageId(0)));
        assert!(filter.admits(PageId(0)));
    }
}
