//! The pages of the fast tier in the order in which they entered or last moved to the front.

use crate::eviction::queues::Queues;
use types::PageId;

const QUEUE: usize = 0;

/// Pages in an order: they enter at the front and leave at the back.
#[derive(Default)]
pub(super) struct Ring {
    queues: Queues<1>,
}

impl Ring {
    /// Makes room for pages below `pages`; never shrinks.
    pub fn grow(&mut self, pages: usize) {
        self.queues.grow(pages);
    }

    /// Prefetches what is kept about a page that is used soon, and about one of the oldest pages.
    #[inline(always)]
    pub fn prefetch(&self, page: PageId) {
        self.queues.prefetch(page);
    }

    /// Inserts `page`, which must be outside, at the front.
    #[inline(always)]
    pub fn push_front(&mut self, page: PageId) {
        self.queues.push(QUEUE, page);
    }

    /// Removes `page` if it is in the order.
    #[inline(always)]
    pub fn remove(&mut self, page: PageId) {
        self.queues.remove(page);
    }

    /// Makes `page`, which must be in the order, the youngest.
    #[inline(always)]
    pub fn move_to_front(&mut self, page: PageId) {
        self.queues.refresh(QUEUE, page);
    }

    /// The oldest page: the longest since it entered or moved to the front.
    #[inline(always)]
    pub fn back(&mut self) -> Option<PageId> {
        self.queues.oldest(QUEUE)
    }

    /// Removes and returns the oldest page.
    #[inline(always)]
    pub fn pop_back(&mut self) -> Option<PageId> {
        self.queues.pop(QUEUE)
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
