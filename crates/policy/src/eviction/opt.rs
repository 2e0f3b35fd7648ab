//! Belady's optimum (IBM Systems Journal 1966) for a memory that admits every missed page: the page
//! whose next request lies farthest ahead leaves. A page without a next request leaves before all.
//!
//! No two pages are requested at once, so the time of its next request names a page. The resident
//! pages are therefore a set of times, and the victim is the largest.

use super::Eviction;
use super::time_set::TimeSet;
use std::sync::Arc;
use types::PageId;

/// Every request of a trace with the time of the next request of the same page.
pub struct Future {
    requests: Vec<PageId>,
    next: Vec<u32>,
}

/// No further request.
const NEVER: u32 = u32::MAX;

impl Future {
    /// Looks ahead in `requests`, all numbered below `pages`. Memory: 8 bytes per request.
    ///
    /// # Panics
    /// With `u32::MAX` requests or more: callers refuse such traces.
    pub fn new(requests: Vec<PageId>, pages: usize) -> Future {
        assert!(requests.len() < NEVER as usize, "times fit 32 bits");
        let mut seen = vec![NEVER; pages];
        let mut next = vec![NEVER; requests.len()];
        for (time, &page) in requests.iter().enumerate().rev() {
            next[time] = std::mem::replace(&mut seen[page.index()], time as u32);
        }
        Future { requests, next }
    }

    /// The requests, in order.
    pub fn requests(&self) -> &[PageId] {
        &self.requests
    }
}

/// Evicts the page that is needed last. Must be asked for exactly the requests of its future.
pub struct Opt {
    frames: usize,
    future: Arc<Future>,
    now: usize,
    /// Next request times of the resident pages that have one.
    times: TimeSet,
    /// Resident pages without a next request.
    finished: Vec<PageId>,
}

impl Opt {
    pub fn new(frames: u32, future: Arc<Future>) -> Opt {
        let times = TimeSet::new(future.requests.len());
        Opt { frames: frames as usize, future, now: 0, times, finished: Vec::new() }
    }

    #[inline(always)]
    fn advance(&mut self, page: PageId) {
        match self.future.next[self.now] {
            NEVER => self.finished.push(page),
            time => self.times.insert(time),
        }
        self.now += 1;
    }
}

impl Eviction for Opt {
    fn grow(&mut self, _pages: usize) {}

    #[inline(always)]
    fn hit(&mut self, page: PageId) -> Option<PageId> {
        self.times.remove(self.now as u32);
        self.advance(page);
        None
    }

    #[inline(always)]
    fn make_room(&mut self, _incoming: PageId) -> Option<PageId> {
        if self.times.len() + self.finished.len() < self.frames {
            return None;
        }
        self.finished
            .pop()
            .or_else(|| self.times.pop_last().map(|time| self.future.requests[time as usize]))
    }

    #[inline(always)]
    fn insert(&mut self, page: PageId) {
        self.advance(page);
    }
}
