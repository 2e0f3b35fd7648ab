//! The mapped ranges of a program's memory, in pages.

use std::collections::BTreeMap;

/// What a range of pages is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Private memory without a file that `malloc` maps.
    Heap,
    /// Heap for which huge pages were requested.
    Requested,
    /// Stacks, reserved areas, and other private memory without a file.
    Anonymous,
    /// Pages of files, and shared memory.
    File,
}

/// Mapped ranges, which do not overlap.
#[derive(Debug, Default)]
pub struct Mappings {
    /// By first page: end, and what the range is.
    ranges: BTreeMap<u64, (u64, Memory)>,
}

impl Mappings {
    /// Adds a range that is not mapped yet.
    pub fn insert(&mut self, first: u64, end: u64, memory: Memory) {
        self.ranges.insert(first, (end, memory));
    }

    /// Removes a range.
    pub fn unmap(&mut self, first: u64, end: u64) {
        if first >= end {
            return;
        }
        if let Some((&start, &(stop, memory))) = self.ranges.range(..first).next_back()
            && stop > first
        {
            self.ranges.insert(start, (first, memory));
            if stop > end {
                self.ranges.insert(end, (stop, memory));
            }
        }
        while let Some((&start, &(stop, memory))) = self.ranges.range(first..end).next() {
            self.ranges.remove(&start);
            if stop > end {
                self.ranges.insert(end, (stop, memory));
            }
        }
    }

    /// Whether any page of a range is mapped.
    pub fn has_range(&self, first: u64, end: u64) -> bool {
        let before = self.ranges.range(..first).next_back();
        before.is_some_and(|(_, &(stop, _))| stop > first)
            || self.ranges.range(first..end).next().is_some()
    }

    /// The range that holds a page.
    pub fn range_of(&self, page: u64) -> Option<(u64, u64, Memory)> {
        let (&start, &(end, memory)) = self.ranges.range(..=page).next_back()?;
        (page < end).then_some((start, end, memory))
    }

    /// The mapped parts of a range.
    pub fn ranges_within(&self, first: u64, end: u64) -> Vec<(u64, u64, Memory)> {
        let before = self.range_of(first).map_or(first, |(start, ..)| start);
        let found = self.ranges.range(before..end.max(before));
        found.map(|(&start, &(stop, memory))| (start.max(first), stop.min(end), memory)).collect()
    }

    /// Whether all pages of a range are mapped as this memory. The kernel joins neighbours of one kind.
    pub fn is_covered(&self, first: u64, end: u64, memory: Memory) -> bool {
        let mut page = first;
        while page < end {
            match self.range_of(page) {
                Some((_, stop, found)) if found == memory => page = stop,
                _ => return false,
            }
        }
        true
    }

    /// Whether all that is mapped of a range is heap.
    pub fn is_heap(&self, first: u64, end: u64) -> bool {
        let before = self.range_of(first).map(|(.., memory)| memory);
        let within = self.ranges.range(first..end).map(|(_, &(_, memory))| memory);
        before.into_iter().chain(within).all(|memory| memory == Memory::Heap)
    }
}
