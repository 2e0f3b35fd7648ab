//! Belady's optimum (IBM Systems Journal 1966) for a memory that admits every missed page: the page
//! whose next request lies farthest ahead leaves. A page without a next request leaves before all others.
//!
//! No two requests have the same time, so the time of its next request identifies a page, and a request
//! hits if its own time is in the set of resident pages. The pages themselves are not needed once the
//! times are known: the times replace them, 4 bytes per request. That is why this bound, which no memory
//! can follow, has a loop of its own instead of the driver's.

use super::time_set::TimeSet;
use std::sync::Arc;
use types::PageId;

/// For every request of a trace, the time of the next request of the same page.
pub struct Future {
    next: Vec<u32>,
    pages: u64,
}

/// No further request.
const NEVER: u32 = u32::MAX;

impl Future {
    /// Computes the next times of `requests`, all numbered below `bound`.
    ///
    /// # Panics
    /// With `u32::MAX` requests or more: callers refuse such traces.
    pub fn new(requests: Vec<PageId>, bound: usize) -> Future {
        assert!(requests.len() < NEVER as usize, "times fit 32 bits");
        let mut seen = vec![NEVER; bound];
        // The standard library collects into the memory of the requests.
        let mut next: Vec<u32> = requests.into_iter().map(|page| page.0).collect();
        for (time, page) in next.iter_mut().enumerate().rev() {
            *page = std::mem::replace(&mut seen[*page as usize], time as u32);
        }
        let pages = seen.iter().filter(|&&first| first != NEVER).count() as u64;
        Future { next, pages }
    }

    /// Distinct pages requested.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// Number of requests.
    pub fn requests(&self) -> usize {
        self.next.len()
    }
}

/// A policy that knows the future, as the catalog hands it out.
pub trait ReplayFuture: Send {
    /// Replays the next `requests` of its future, or as many as there are, and counts the misses.
    fn replay(&mut self, requests: usize) -> u64;
}

/// Evicts the page that is needed last.
///
/// Invariant: the resident pages are those requested next at `times`, plus `finished` others.
pub struct Opt {
    frames: usize,
    future: Arc<Future>,
    now: usize,
    times: TimeSet,
    /// Resident pages without a next request.
    finished: usize,
}

impl Opt {
    pub fn new(frames: u32, future: Arc<Future>) -> Opt {
        let times = TimeSet::new(future.requests());
        Opt { frames: frames as usize, future, now: 0, times, finished: 0 }
    }

    #[inline(always)]
    fn make_room(&mut self) {
        if self.times.len() + self.finished < self.frames {
            return;
        }
        if self.finished > 0 {
            self.finished -= 1;
        } else {
            self.times.pop_last();
        }
    }
}

impl ReplayFuture for Opt {
    fn replay(&mut self, requests: usize) -> u64 {
        let future = self.future.clone();
        let end = self.now.saturating_add(requests).min(future.requests());
        let mut misses = 0;
        for (now, &next) in (self.now..).zip(&future.next[self.now..end]) {
            if self.times.contains(now as u32) {
                self.times.remove(now as u32);
            } else {
                misses += 1;
                self.make_room();
            }
            match next {
                NEVER => self.finished += 1,
                time => self.times.insert(time),
            }
        }
        self.now = end;
        misses
    }
}
