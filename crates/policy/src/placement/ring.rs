//! The pages of the fast tier in the order in which they entered or last moved to the front.

use crate::lists::Lists;
use types::PageId;

const LIST: usize = 0;

/// Pages in an order: they enter at the front and leave at the back. No operation visits more than
/// three pages.
pub(super) struct Ring {
    lists: Lists,
}

impl Default for Ring {
    fn default() -> Ring {
        Ring { lists: Lists::new(1) }
    }
}

impl Ring {
    /// Makes room for pages below `pages`; never shrinks.
    pub fn grow(&mut self, pages: usize) {
        self.lists.grow(pages);
    }

    /// Prefetches what is kept about a page that is used soon.
    #[inline(always)]
    pub fn prefetch(&self, page: PageId) {
        self.lists.prefetch(page);
    }

    /// Inserts `page`, which must be outside, at the front.
    #[inline(always)]
    pub fn push_front(&mut self, page: PageId) {
        self.lists.push(LIST, page);
    }

    /// Removes `page` if it is in the order.
    #[inline(always)]
    pub fn remove(&mut self, page: PageId) {
        if self.lists.contains(page) {
            self.lists.remove(page);
        }
    }

    /// Makes `page`, which must be in the order, the youngest.
    #[inline(always)]
    pub fn move_to_front(&mut self, page: PageId) {
        self.lists.remove(page);
        self.lists.push(LIST, page);
    }

    /// The oldest page: the longest since it entered or moved to the front.
    #[inline(always)]
    pub fn back(&self) -> Option<PageId> {
        self.lists.first(LIST)
    }

    /// Removes and returns the oldest page.
    #[inline(always)]
    pub fn pop_back(&mut self) -> Option<PageId> {
        let oldest = self.back()?;
        self.lists.remove(oldest);
        Some(oldest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn behaves_like_a_deque() {
        let mut ring = Ring::default();
        ring.grow(8);
        let mut model: VecDeque<u32> = VecDeque::new();
        let mut state = 7u64;
        for _ in 0..5_000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let page = (state >> 33) as u32 % 8;
            let is_listed = model.contains(&page);
            match (state >> 60) % 3 {
                0 if !is_listed => {
                    ring.push_front(PageId(page));
                    model.push_front(page);
                }
                1 if is_listed => {
                    ring.move_to_front(PageId(page));
                    model.retain(|&other| other != page);
                    model.push_front(page);
                }
                2 => {
                    ring.remove(PageId(page));
                    model.retain(|&other| other != page);
                }
                _ => assert_eq!(ring.pop_back(), model.pop_back().map(PageId)),
            }
            assert_eq!(ring.back(), model.back().copied().map(PageId));
        }
    }
}
