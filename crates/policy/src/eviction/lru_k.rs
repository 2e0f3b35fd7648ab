//! LRU-K (O'Neil, O'Neil and Weikum, SIGMOD 1993): the page whose k-th last request is oldest leaves.
//! A page without k requests leaves before all others, the least recently used first.
//!
//! Departs from the paper: the times of a page are kept as long as the trace lasts (no Retained
//! Information Period), and every request counts (the Correlated Reference Period is 0).

use super::{Build, Eviction, online};
use crate::options::{OptionRow, Values};
use std::collections::BTreeMap;
use types::PageId;

pub const OPTIONS: &[OptionRow] = &[OptionRow {
    name: "k",
    default: "2",
    summary: "which of a page's last requests counts, from 1 (LRU) to 4",
}];

pub fn make(values: &Values<'_>) -> Result<Build, String> {
    let k = values.number("k", 1..=4)?;
    online(move |frames| LruK::new(frames, k as usize))
}

/// Evicts the page with the largest distance back to its k-th last request.
///
/// Invariant: a resident page is in `few` under the time of its last request if it was requested
/// fewer than k times, else in `many` under the time of its k-th last. No two requests have the same
/// time.
pub struct LruK {
    frames: usize,
    k: usize,
    now: u64,
    /// Times of the last k requests of each page, the latest last; 0 means no request.
    times: Vec<u64>,
    few: BTreeMap<u64, PageId>,
    many: BTreeMap<u64, PageId>,
}

impl LruK {
    fn new(frames: u32, k: usize) -> LruK {
        let (few, many) = (BTreeMap::new(), BTreeMap::new());
        LruK { frames: frames as usize, k, now: 0, times: Vec::new(), few, many }
    }

    fn times(&mut self, page: PageId) -> &mut [u64] {
        let first = page.index() * self.k;
        &mut self.times[first..first + self.k]
    }

    /// The map that holds a resident page, and its key there.
    fn place(&mut self, page: PageId) -> (&mut BTreeMap<u64, PageId>, u64) {
        let last = self.k - 1;
        let times = self.times(page);
        let (kth, last) = (times[0], times[last]);
        if kth == 0 { (&mut self.few, last) } else { (&mut self.many, kth) }
    }
}

impl Eviction for LruK {
    fn grow(&mut self, pages: usize) {
        self.times.resize(self.times.len().max(pages * self.k), 0);
    }

    fn hit(&mut self, page: PageId) -> Option<PageId> {
        let (order, time) = self.place(page);
        order.remove(&time);
        self.insert(page);
        None
    }

    fn make_room(&mut self, _incoming: PageId) -> Option<PageId> {
        if self.few.len() + self.many.len() < self.frames {
            return None;
        }
        let (_, victim) = self.few.pop_first().or_else(|| self.many.pop_first())?;
        Some(victim)
    }

    fn insert(&mut self, page: PageId) {
        self.now += 1;
        let (k, now) = (self.k, self.now);
        let times = self.times(page);
        times.rotate_left(1);
        times[k - 1] = now;
        let (order, time) = self.place(page);
        order.insert(time, page);
    }
}
