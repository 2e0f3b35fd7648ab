//! Admission from the second eviction on: the first leaves only a memory of the page (a ghost).
//!
//! Source: spec sheet S0.4 E2. The same rule is CacheLib's reject-first, LARC with a fixed ghost, and
//! S3-FIFO with an empty small queue.

use crate::page_set::PageSet;
use crate::placement::Ring;
use types::PageId;

/// The pages that were evicted from memory and are not in the fast tier.
pub struct SecondEviction {
    /// Most pages remembered; the oldest memory is lost first.
    bound: Option<u64>,
    seen: PageSet,
    /// The remembered pages by age; unused without a bound.
    ages: Ring,
}

impl SecondEviction {
    /// An empty memory of at most `bound` pages, or of all.
    pub fn new(bound: Option<u64>) -> SecondEviction {
        SecondEviction { bound, seen: PageSet::default(), ages: Ring::default() }
    }

    /// Makes room for pages below `pages`.
    pub fn grow(&mut self, pages: usize) {
        self.seen.grow(pages);
        if self.bound.is_some() {
            self.ages.grow(pages);
        }
    }

    /// Whether an earlier eviction of `page` is remembered.
    #[inline]
    pub fn was_seen(&self, page: PageId) -> bool {
        self.seen.contains(page)
    }

    /// Remembers an eviction of `page`; an older memory of it keeps its age.
    pub fn remember(&mut self, page: PageId) {
        let Some(bound) = self.bound else {
            self.seen.insert(page);
            return;
        };
        if !self.seen.insert(page) {
            return;
        }
        self.ages.push_front(page);
        if self.ages.len() as u64 > bound {
            let oldest = self.ages.pop_back().expect("a page was just remembered");
            self.seen.remove(oldest);
        }
    }

    /// Loses the memory of `page`, if there is one.
    pub fn forget(&mut self, page: PageId) {
        if self.seen.remove(page) && self.bound.is_some() {
            self.ages.remove(page);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bounded_memory_loses_the_oldest_first() {
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
    fn a_memory_of_nothing_remembers_nothing_and_an_unbounded_one_everything() {
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
