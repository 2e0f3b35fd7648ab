//! A set of pages, one bit each: a million pages fit the second-level cache of a processor.

use types::PageId;

/// A set of densely numbered pages. A page at or above the size of the set is not in it.
#[derive(Clone, Debug, Default)]
pub struct PageSet {
    words: Vec<u64>,
}

impl PageSet {
    /// Makes room for pages below `pages`; never shrinks.
    pub fn grow(&mut self, pages: usize) {
        if self.words.len() * 64 < pages {
            self.words.resize(pages.div_ceil(64), 0);
        }
    }

    /// Whether `page` is in the set.
    #[inline]
    pub fn contains(&self, page: PageId) -> bool {
        let index = page.index();
        self.words.get(index / 64).is_some_and(|word| word >> (index % 64) & 1 == 1)
    }

    /// Adds `page`, for which `grow` made room; returns false if it was already in.
    #[inline]
    pub fn insert(&mut self, page: PageId) -> bool {
        let bit = 1u64 << (page.index() % 64);
        let word = &mut self.words[page.index() / 64];
        let was_absent = *word & bit == 0;
        *word |= bit;
        was_absent
    }

    /// Removes `page`; returns whether it was in.
    #[inline]
    pub fn remove(&mut self, page: PageId) -> bool {
        let bit = 1u64 << (page.index() % 64);
        let Some(word) = self.words.get_mut(page.index() / 64) else { return false };
        let was_present = *word & bit != 0;
        *word &= !bit;
        was_present
    }

    /// Adds or removes `page`.
    #[inline]
    pub fn set(&mut self, page: PageId, is_member: bool) {
        if is_member {
            self.insert(page);
        } else {
            self.remove(page);
        }
    }

    /// Removes the neighbours of `page`, and `page` itself, that are not in `other`: the 64 pages that
    /// share a word of memory.
    #[inline]
    pub fn intersect_around(&mut self, page: PageId, other: &PageSet) {
        let index = page.index() / 64;
        if let Some(word) = self.words.get_mut(index) {
            *word &= other.words.get(index).copied().unwrap_or(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_in_after_insert_and_out_after_remove() {
        let mut set = PageSet::default();
        set.grow(130);
        assert!(!set.contains(PageId(129)));
        assert!(set.insert(PageId(129)));
        assert!(!set.insert(PageId(129)));
        assert!(set.contains(PageId(129)) && !set.contains(PageId(128)));
        assert!(set.remove(PageId(129)));
        assert!(!set.remove(PageId(129)));
        assert!(!set.contains(PageId(5000)) && !set.remove(PageId(5000)));
    }

    #[test]
    fn intersection_around_a_page_keeps_common_pages_and_pages_elsewhere() {
        let (mut left, mut right) = (PageSet::default(), PageSet::default());
        left.grow(200);
        right.grow(64);
        for page in [3, 60, 70, 190] {
            left.insert(PageId(page));
        }
        right.insert(PageId(60));
        left.intersect_around(PageId(5), &right);
        left.intersect_around(PageId(191), &right);
        left.intersect_around(PageId(1000), &right);
        let kept: Vec<u32> = (0..200).filter(|&page| left.contains(PageId(page))).collect();
        assert_eq!(kept, [60, 70]);
    }
}
