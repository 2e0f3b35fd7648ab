//! The largest processes without room in the table. All memory is allocated at the start.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The number of processes that are kept, the largest.
const KEPT_MAX: usize = 1024;

/// Processes without room, found by one refresh.
#[derive(Debug)]
pub(super) struct Others {
    /// Bytes and number, the smallest on top.
    largest: BinaryHeap<Reverse<(u64, u32)>>,
    /// All processes without room, including those that are not kept.
    count: usize,
}

impl Others {
    pub(super) fn new() -> Others {
        // One more, because the smallest is removed after the next is added.
        Others { largest: BinaryHeap::with_capacity(KEPT_MAX + 1), count: 0 }
    }

    pub(super) fn clear(&mut self) {
        self.largest.clear();
        self.count = 0;
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Adds process `number` with its size. With 0 bytes it is a kernel thread or has ended, and does not count.
    pub(super) fn add(&mut self, number: u32, bytes: u64) {
        if bytes == 0 {
            return;
        }
        self.count += 1;
        self.largest.push(Reverse((bytes, number)));
        if self.largest.len() > KEPT_MAX {
            self.largest.pop();
        }
    }

    /// Calls `each` with the bytes and the number of kept processes, the largest first, until it returns false.
    pub(super) fn descend(&mut self, mut each: impl FnMut(u64, u32) -> bool) {
        let sorted = std::mem::take(&mut self.largest).into_sorted_vec();
        for &Reverse((bytes, number)) in &sorted {
            if !each(bytes, number) {
                break;
            }
        }
        self.largest = BinaryHeap::from(sorted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_stay_and_all_are_counted() {
        let mut others = Others::new();
        for number in 1..=3000 {
            // In random order.
            others.add(number, u64::from(number * 7919 % 3001));
        }
        others.add(9000, 0);
        let mut found = Vec::new();
        others.descend(|bytes, _| {
            found.push(bytes);
            true
        });
        let expected: Vec<u64> = (1..=3000).rev().take(KEPT_MAX).collect();
        assert_eq!((others.count(), found), (3000, expected));
        let mut first = None;
        others.descend(|bytes, _| {
            first = Some(bytes);
            false
        });
        assert_eq!(first, Some(3000));
        others.clear();
        assert_eq!(others.count(), 0);
    }
}
