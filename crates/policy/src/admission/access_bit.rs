//! Admission by one access bit per swapped page.
//!
//! Source: spec sheet S1.3 P1-P3. A page is admitted when it is read back and its bit was already set;
//! every read sets the bit. The value at the first swap-out decides whether that takes one read or
//! two. It is second-eviction admission with the ghost kept as one bit per slot.

use crate::page_set::PageSet;
use types::PageId;

/// Access bits of pages, and the set of pages that have a bit.
#[derive(Clone, Debug)]
pub struct AccessBit {
    entry_bit: bool,
    bits: PageSet,
    has_slot: PageSet,
}

impl AccessBit {
    /// A filter that gives `entry_bit` to pages at their first swap-out.
    pub fn new(entry_bit: bool) -> AccessBit {
        AccessBit { entry_bit, bits: PageSet::default(), has_slot: PageSet::default() }
    }

    /// Makes room for pages below `pages`.
    pub fn grow(&mut self, pages: usize) {
        self.bits.grow(pages);
        self.has_slot.grow(pages);
    }

    /// Records that `page` leaves memory; the first time, its bit takes the entry value.
    #[inline]
    pub fn leaves_memory(&mut self, page: PageId) {
        if self.has_slot.insert(page) {
            self.bits.set(page, self.entry_bit);
        }
    }

    /// Returns whether the bit of `page` was set when the page is read back, and sets it.
    #[inline]
    pub fn admits(&mut self, page: PageId) -> bool {
        self.has_slot.insert(page);
        !self.bits.insert(page)
    }

    /// The bits, for the replacement that clears them.
    pub fn bits_mut(&mut self) -> &mut PageSet {
        &mut self.bits
    }

    /// Removes a page that ceased to exist.
    pub fn forget(&mut self, page: PageId) {
        self.bits.remove(page);
        self.has_slot.remove(page);
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
    fn a_page_first_seen_by_a_read_starts_with_bit_zero() {
        let mut filter = AccessBit::new(true);
        filter.grow(1);
        assert!(!filter.admits(PageId(0)));
        filter.forget(PageId(0));
        assert!(!filter.admits(PageId(0)));
        assert!(filter.admits(PageId(0)));
    }
}
