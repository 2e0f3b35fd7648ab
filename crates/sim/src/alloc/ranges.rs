//! Free address space: ranges that are not adjacent, by place and by length.

use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub(super) struct Ranges {
    /// First page to number of pages.
    by_place: BTreeMap<u32, u32>,
    /// Number of pages, and first page.
    by_length: BTreeSet<(u32, u32)>,
}

impl Ranges {
    /// Adds a range that no other overlaps, merged with its neighbours; returns the merged one.
    pub fn insert(&mut self, first: u32, pages: u32) -> (u32, u32) {
        let (mut first, mut pages) = (first, pages);
        if let Some((&before, &length)) = self.by_place.range(..first).next_back()
            && before + length == first
        {
            self.remove(before, length);
            (first, pages) = (before, pages + length);
        }
        if let Some(&length) = self.by_place.get(&(first + pages)) {
            self.remove(first + pages, length);
            pages += length;
        }
        self.by_place.insert(first, pages);
        self.by_length.insert((pages, first));
        (first, pages)
    }

    /// Removes a range exactly as it was merged.
    pub fn remove(&mut self, first: u32, pages: u32) {
        self.by_place.remove(&first);
        self.by_length.remove(&(pages, first));
    }

    /// Takes the front of the shortest range with at least `pages` pages, the lowest of several.
    pub fn take_best(&mut self, pages: u32) -> Option<u32> {
        let &(length, first) = self.by_length.range((pages, 0)..).next()?;
        self.remove(first, length);
        if length > pages {
            self.by_place.insert(first + pages, length - pages);
            self.by_length.insert((length - pages, first + pages));
        }
        Some(first)
    }
}
