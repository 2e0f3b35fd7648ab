//! CLOCK over a ring: the hand examines the oldest page; a set bit buys one more lap.
//!
//! Source: spec sheet S1.3 of the multi-swap paper. A new page enters at the front of the ring, just behind
//! the hand, so the hand reaches it last; a page removed elsewhere closes the gap. The bits are
//! separate from the ring because pages outside the fast tier may have a bit too.

use super::ring::Ring;
use crate::page_set::PageSet;
use types::PageId;

/// Removes and returns the first page under the hand whose bit is 0, and clears the bits it passes. With
/// all bits 1 the hand makes one lap and takes the first page it cleared. None from an empty ring.
#[inline(always)]
pub(super) fn take_victim(ring: &mut Ring, bits: &mut PageSet) -> Option<PageId> {
    loop {
        let page = ring.back()?;
        if !bits.remove(page) {
            return ring.pop_back();
        }
        ring.move_to_front(page);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three_pages() -> (Ring, PageSet) {
        let (mut ring, mut bits) = (Ring::default(), PageSet::default());
        ring.grow(3);
        bits.grow(3);
        for page in 0..3 {
            ring.push_front(PageId(page));
        }
        (ring, bits)
    }

    #[test]
    fn a_set_bit_is_cleared_and_passed_over() {
        let (mut ring, mut bits) = three_pages();
        bits.insert(PageId(0));
        assert_eq!(take_victim(&mut ring, &mut bits), Some(PageId(1)));
        assert!(!bits.contains(PageId(0)));
        assert_eq!(take_victim(&mut ring, &mut bits), Some(PageId(2)));
        assert_eq!(take_victim(&mut ring, &mut bits), Some(PageId(0)));
        assert_eq!(take_victim(&mut ring, &mut bits), None);
    }

    #[test]
    fn with_every_bit_set_the_first_page_cleared_leaves() {
        let (mut ring, mut bits) = three_pages();
        for page in 0..3 {
            bits.insert(PageId(page));
        }
        assert_eq!(take_victim(&mut ring, &mut bits), Some(PageId(0)));
    }
}
