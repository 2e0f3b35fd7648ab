//! CLOCK over a ring: the hand looks at the oldest page; a set bit buys one more lap.
//!
//! Source: specs S1.3 of the multi-swap paper. A new page enters just behind the hand, so the hand
//! reaches it last; a page that leaves on its own closes the gap.

use crate::page_set::PageSet;
use crate::placement::ring::Ring;
use types::PageId;

/// The pages of the fast tier in the order the hand will reach them. The bits belong to the caller,
/// because pages outside the fast tier may carry one too.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    ring: Ring,
}

impl Clock {
    /// Makes room for pages below `pages`.
    pub fn grow(&mut self, pages: usize) {
        self.ring.grow(pages);
    }

    /// Whether `page` is in the circle.
    pub fn contains(&self, page: PageId) -> bool {
        self.ring.contains(page)
    }

    /// Puts `page` just behind the hand.
    pub fn insert(&mut self, page: PageId) {
        self.ring.push_front(page);
    }

    /// Takes `page` out of the circle.
    pub fn remove(&mut self, page: PageId) {
        self.ring.remove(page);
    }

    /// Takes out the first page under the hand whose bit is 0, clearing the bits it passes.
    /// With all bits 1 the hand makes one lap and takes the first page it cleared.
    pub fn victim(&mut self, bits: &mut PageSet) -> Option<PageId> {
        loop {
            let page = self.ring.back()?;
            if !bits.remove(page) {
                self.ring.remove(page);
                return Some(page);
            }
            self.ring.move_to_front(page);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three_pages() -> (Clock, PageSet) {
        let (mut clock, mut bits) = (Clock::default(), PageSet::default());
        clock.grow(3);
        bits.grow(3);
        for page in 0..3 {
            clock.insert(PageId(page));
        }
        (clock, bits)
    }

    #[test]
    fn a_set_bit_is_cleared_and_passed_over() {
        let (mut clock, mut bits) = three_pages();
        bits.insert(PageId(0));
        assert_eq!(clock.victim(&mut bits), Some(PageId(1)));
        assert!(!bits.contains(PageId(0)));
        assert_eq!(clock.victim(&mut bits), Some(PageId(2)));
        assert_eq!(clock.victim(&mut bits), Some(PageId(0)));
        assert_eq!(clock.victim(&mut bits), None);
    }

    #[test]
    fn with_every_bit_set_the_first_page_cleared_leaves() {
        let (mut clock, mut bits) = three_pages();
        for page in 0..3 {
            bits.insert(PageId(page));
        }
        assert_eq!(clock.victim(&mut bits), Some(PageId(0)));
    }
}
