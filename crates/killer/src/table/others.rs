//! The largest processes that found no room in the table. It has room of its own from the start.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Processes that are kept; the rest are smaller.
const KEPT_MAX: usize = 1024;

/// Processes without room, of one list.
#[derive(Debug)]
pub(super) struct Others {
    /// Bytes and number, the smallest on top.
    largest: BinaryHeap<Reverse<(u64, u32)>>,
    /// How many there are, those that are not kept included.
    count: usize,
}

impl Others {
    pub(super) fn new() -> Others {
        // One more: the smallest leaves after another came.
        Others { largest: BinaryHeap::with_capacity(KEPT_MAX + 1), count: 0 }
    }

    pub(super) fn clear(&mut self) {
        self.largest.clear();
        self.count = 0;
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Process `number` found no room and has so many bytes; none are a thread of the kernel or a process
    /// that has ended.
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

    /// Calls `each` with the bytes and the number of those that are kept, the largest first, until it
    /// returns false.
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
            // In no order.
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
