//! Pages of files that left the page cache, to tell whether a page that enters it comes back.

use std::collections::{BTreeMap, HashMap};

/// Ranges of pages that are remembered.
const RANGES_MAX: usize = 1 << 19;

/// A file: device, and number of the inode.
pub type FileId = (u32, u64);

/// Pages that left, by file, as ranges of page numbers: the first, and the one after the last.
#[derive(Debug, Default)]
pub struct Evicted {
    files: HashMap<FileId, BTreeMap<u64, u64>>,
    ranges: usize,
    left_out: u64,
}

impl Evicted {
    /// How often a range could not be remembered; its pages do not count as coming back.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Pages from `first` leave the page cache.
    pub fn leave(&mut self, file: FileId, first: u64, count: u64) {
        let (mut from, mut to) = (first, first.saturating_add(count));
        if self.ranges >= RANGES_MAX {
            self.left_out += 1;
            return;
        }
        let ranges = self.files.entry(file).or_default();
        self.ranges -= ranges.len();
        if let Some((&before, &end)) = ranges.range(..=from).next_back()
            && end >= from
        {
            ranges.remove(&before);
            (from, to) = (before, to.max(end));
        }
        while let Some((&next, &end)) = ranges.range(from..=to).next() {
            ranges.remove(&next);
            to = to.max(end);
        }
        ranges.insert(from, to);
        self.ranges += ranges.len();
    }

    /// Pages from `first` enter the page cache; returns how many of these had left it.
    pub fn enter(&mut self, file: FileId, first: u64, count: u64) -> u64 {
        let end = first.saturating_add(count);
        let Some(ranges) = self.files.get_mut(&file) else { return 0 };
        self.ranges -= ranges.len();
        let mut back = 0;
        while let Some((&from, &to)) = ranges.range(..end).next_back() {
            if to <= first {
                break;
            }
            ranges.remove(&from);
            back += to.min(end) - from.max(first);
            if to > end {
                ranges.insert(end, to);
            }
            if from < first {
                ranges.insert(from, first);
                break;
            }
        }
        self.ranges += ranges.len();
        if ranges.is_empty() {
            self.files.remove(&file);
        }
        back
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn ranges_are_sets_of_pages(
            steps in proptest::collection::vec((any::<bool>(), 0u64..60, 1u64..9, 0u64..2), 0..200),
        ) {
            let (mut evicted, mut pages) = (Evicted::default(), BTreeSet::new());
            for (leaves, first, count, inode) in steps {
                let file = (1, inode);
                if leaves {
                    evicted.leave(file, first, count);
                    pages.extend((first..first + count).map(|page| (inode, page)));
                } else {
                    let back = evicted.enter(file, first, count);
                    let known = (first..first + count).filter(|&page| pages.remove(&(inode, page)));
                    prop_assert_eq!(back, known.count() as u64);
                }
                let kept: usize = evicted.files.values().map(BTreeMap::len).sum();
                prop_assert_eq!(kept, evicted.ranges);
            }
        }
    }

    #[test]
    fn page_numbers_at_the_end_of_the_range_do_not_overflow() {
        let mut evicted = Evicted::default();
        evicted.leave((0, 0), u64::MAX, 8192);
        evicted.leave((0, 0), u64::MAX - 1, 1);
        assert_eq!(evicted.enter((0, 0), u64::MAX - 1, 8192), 1);
    }
}
