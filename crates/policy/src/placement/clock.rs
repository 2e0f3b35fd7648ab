//! CLOCK over a ring: the hand examines the oldest page; a set bit buys one more lap.
//!
//! Source: spec sheet S1.3 of the multi-swap paper. A new page enters at the front of the ring, just behind
//! the hand, so the hand reaches it last; a page removed elsewhere closes the gap. The bits are
//! separate from the ring because pages outside the fast tier may have a bit too.

use super::ring::Ring;
use crate::page_set::PageSet;
use types::PageId;

/// The pages that the hand may pass to find one victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hand(u32);

impl Hand {
    /// A whole lap, as in the paper.
    pub const LAP: Hand = Hand(u32::MAX);
    /// Few enough for a server of requests, which must answer soon: a request that finds two victims visits 62 pages
    /// at most.
    pub const SHORT: Hand = Hand(30);
}

/// Removes and returns the first page under the hand whose bit is 0, and clears the bits it passes. A hand
/// that has passed as many pages as it may takes the next one. With all bits 1 it makes at most one lap and takes the
/// first page it cleared. None from an empty ring.
#[inline(always)]
pub(super) fn take_victim(ring: &mut Ring, bits: &mut PageSet, hand: Hand) -> Option<PageId> {
    for _ in 0..hand.0 {
        let page = ring.back()?;
        if !bits.remove(page) {
            return ring.pop_back();
        }
        ring.move_to_front(page);
    }
    let page = ring.pop_back()?;
    bits.remove(page);
    Some(page)
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
        assert_eq!(take_victim(&mut ring, &mut bits, Hand::LAP), Some(PageId(1)));
        assert!(!bits.contains(PageId(0)));
        assert_eq!(take_victim(&mut ring, &mut bits, Hand::LAP), Some(PageId(2)));
        assert_eq!(take_victim(&mut ring, &mut bits, Hand::LAP), Some(PageId(0)));
        assert_eq!(take_victim(&mut ring, &mut bits, Hand::LAP), None);
    }

    #[test]
    fn with_every_bit_set_the_first_page_cleared_leaves() {
        let (mut ring, mut bits) = three_pages();
        for page in 0..3 {
            bits.insert(PageId(page));
        }
        assert_eq!(take_victim(&mut ring, &mut bits, Hand::LAP), Some(PageId(0)));
    }

    #[test]
    fn a_short_hand_takes_the_page_after_those_it_may_pass() {
        let (mut ring, mut bits) = three_pages();
        for page in 0..3 {
            bits.insert(PageId(page));
        }
        assert_eq!(take_victim(&mut ring, &mut bits, Hand(2)), Some(PageId(2)));
        assert!((0..3).all(|page| !bits.contains(PageId(page))));
        assert_eq!(take_victim(&mut ring, &mut bits, Hand(2)), Some(PageId(0)));
    }
}
