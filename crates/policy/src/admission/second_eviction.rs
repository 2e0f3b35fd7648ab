//! Admission from the second eviction on: the first eviction leaves only a ghost of the page.
//!
//! Source: spec sheet S0.4 E2. The same rule is CacheLib's reject-first, LARC with a fixed ghost, and
//! S3-FIFO with an empty small queue.

use crate::lists::Lists;
use crate::page_set::PageSet;
use types::PageId;

const GHOSTS: usize = 0;

/// Ghosts: pages that were evicted from memory and are not in the fast tier.
pub struct SecondEviction {
    /// Ghosts at most; the oldest is dropped first.
    bound: Option<u64>,
    seen: PageSet,
    /// The ghosts from the oldest to the youngest, and their number; unused without a bound.
    ages: Lists,
    len: u64,
}

impl SecondEviction {
    /// An empty set of at most `bound` ghosts; `None` means no bound.
    pub fn new(bound: Option<u64>) -> SecondEviction {
        SecondEviction { bound, seen: PageSet::default(), ages: Lists::new(1), len: 0 }
    }

    /// Makes room for pages below `pages`.
    pub fn grow(&mut self, pages: usize) {
        self.seen.grow(pages);
        if self.bound.is_some() {
            self.ages.grow(pages);
        }
    }

    /// Whether `page` has a ghost.
    #[inline]
    pub fn was_seen(&self, page: PageId) -> bool {
        self.seen.contains(page)
    }

    /// Makes `page` a ghost; a page that already is one keeps its age.
    pub fn remember(&mut self, page: PageId) {
        let Some(bound) = self.bound else {
            self.seen.insert(page);
            return;
        };
        if !self.seen.insert(page) {
            return;
        }
        self.ages.push(GHOSTS, page);
        self.len += 1;
        if self.len > bound
            && let Some(oldest) = self.ages.first(GHOSTS)
        {
            self.forget(oldest);
        }
    }

    /// Drops the ghost of `page`, if it has one.
    pub fn forget(&mut self, page: PageId) {
        if self.seen.remove(page) && self.bound.is_some() {
            self.ages.remove(page);
            self.len -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bounded_memory_drops_the_oldest_ghost_first() {
        let mut filter = SecondEviction::new(Some(2));
        filter.grow(3);
        for page in 0..3 {
            filter.remember(PageId(page));
        }
        assert!(!filter.was_seen(PageId(0)));
        assert!(filter.was_seen(PageId(1)) && filter.was_seen(PageId(2)));
        filter.forget(PageId(1));
        filter.remember(PageId(0));
        assert!(filter.was_seen(PageId(2)) && filter.was_seen(PageId(0)));
    }

    #[test]
    fn a_bounded_memory_keeps_the_ghosts_that_a_queue_keeps() {
        const PAGES: u64 = 20;
        let mut filter = SecondEviction::new(Some(7));
        filter.grow(PAGES as usize);
        let mut queue: Vec<PageId> = Vec::new();
        let mut state = 5u64;
        for _ in 0..20_000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let page = PageId(((state >> 33) % PAGES) as u32);
            if state >> 62 == 0 {
                filter.forget(page);
                queue.retain(|&other| other != page);
            } else {
                filter.remember(page);
                if !queue.contains(&page) {
                    queue.push(page);
                    queue.drain(..queue.len().saturating_sub(7));
                }
            }
            let remembered = (0..PAGES as u32).map(PageId).filter(|&page| filter.was_seen(page));
            let mut expected = queue.clone();
            expected.sort();
            assert_eq!(remembered.collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn a_bound_of_zero_keeps_no_ghost_and_no_bound_keeps_all() {
        let mut none = SecondEviction::new(Some(0));
        let mut all = SecondEviction::new(None);
        none.grow(100);
        all.grow(100);
        for page in 0..100 {
            none.remember(PageId(page));
            all.remember(PageId(page));
        }
        assert!((0..100).all(|page| all.was_seen(PageId(page)) && !none.was_seen(PageId(page))));
    }
}
