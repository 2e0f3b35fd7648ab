//! The pages of the fast tier by the time of their last request.
//!
//! Source: spec sheet S0.4. A list in order of use does not suffice: a page enters with the time of a
//! past request, so it may enter anywhere in the order. Such pages wait in a heap; a
//! request moves a page to the end of a log, which is in order by construction. The page requested
//! longest ago is at the front of the heap or of the log.

use crate::page_set::PageSet;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use types::{PageId, prefetch};

/// Number of a request, counted from 1; 0 means never requested. 32 bits keep millions of pages
/// small: when the numbers run out, those of all pages are renumbered from 1.
type RequestNumber = u32;

/// A page that entered with a past request. Ordered by request, then by insertion.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entered {
    request: RequestNumber,
    insertion: u32,
    page: PageId,
}

/// A page requested while it was inside.
#[derive(Clone, Copy)]
struct Requested {
    request: RequestNumber,
    page: PageId,
}

/// Chooses the page requested longest ago. Only pages never requested tie; of those the first inserted
/// leaves first.
///
/// Invariant: every page inside has an entry with the number of its last request, in `log` if that
/// request came while it was inside, else in `heap`. Other entries are stale.
#[derive(Default)]
pub struct RequestOrder {
    log: VecDeque<Requested>,
    heap: BinaryHeap<Reverse<Entered>>,
    inside: PageSet,
    last_request: Vec<RequestNumber>,
    /// Number of the page's last insertion.
    insertion: Vec<u32>,
    requests: RequestNumber,
    insertions: u32,
    len: usize,
}

/// Stale entries below which dropping them is not worthwhile.
const STALE_MIN: usize = 1024;

impl RequestOrder {
    /// Makes room for pages below `pages`.
    pub fn grow(&mut self, pages: usize) {
        if self.last_request.len() < pages {
            self.inside.grow(pages);
            self.last_request.resize(pages, 0);
            self.insertion.resize(pages, 0);
        }
    }

    /// Prefetches what is kept about a page that is requested soon.
    #[inline(always)]
    pub fn prefetch(&self, page: PageId) {
        prefetch(&self.last_request, page.index());
    }

    /// Records a request for `page` now, inside or not.
    #[inline(always)]
    pub fn request(&mut self, page: PageId) {
        if self.requests == RequestNumber::MAX {
            self.number_anew();
        }
        self.requests += 1;
        self.last_request[page.index()] = self.requests;
        if self.inside.contains(page) {
            if self.log.len() == self.log.capacity() {
                self.drop_stale_requests();
            }
            self.log.push_back(Requested { request: self.requests, page });
        }
    }

    /// Inserts `page`, which must be outside, with the time of its last request.
    #[inline(always)]
    pub fn insert(&mut self, page: PageId) {
        if self.heap.len() == self.heap.capacity() {
            self.drop_stale_insertions();
        }
        if self.insertions == u32::MAX {
            self.number_anew();
        }
        self.insertions += 1;
        self.insertion[page.index()] = self.insertions;
        self.inside.insert(page);
        self.len += 1;
        let request = self.last_request[page.index()];
        self.heap.push(Reverse(Entered { request, insertion: self.insertions, page }));
    }

    /// Removes `page` if it is inside.
    #[inline(always)]
    pub fn remove(&mut self, page: PageId) {
        self.len -= usize::from(self.inside.remove(page));
    }

    /// Forgets `page` and its request time.
    pub fn forget(&mut self, page: PageId) {
        self.remove(page);
        self.last_request[page.index()] = 0;
    }

    /// Removes and returns the page requested longest ago.
    #[inline(always)]
    pub fn victim(&mut self) -> Option<PageId> {
        while self.log.front().is_some_and(|first| !self.is_last_request(first)) {
            self.log.pop_front();
        }
        while self.heap.peek().is_some_and(|Reverse(first)| !self.is_waiting(first)) {
            self.heap.pop();
        }
        let logged = self.log.front().map(|first| (first.request, first.page));
        let waiting = self.heap.peek().map(|Reverse(first)| (first.request, first.page));
        let (_, page) = match (logged, waiting) {
            (Some(logged), Some(waiting)) => logged.min(waiting),
            (logged, waiting) => logged.or(waiting)?,
        };
        self.remove(page);
        Some(page)
    }

    #[inline(always)]
    fn is_last_request(&self, entry: &Requested) -> bool {
        self.last_request[entry.page.index()] == entry.request && self.inside.contains(entry.page)
    }

    fn is_waiting(&self, entry: &Entered) -> bool {
        self.insertion[entry.page.index()] == entry.insertion
            && self.last_request[entry.page.index()] == entry.request
            && self.inside.contains(entry.page)
    }

    /// Keeps stale entries fewer than a multiple of the pages inside.
    #[cold]
    #[inline(never)]
    fn drop_stale_requests(&mut self) {
        let mut log = std::mem::take(&mut self.log);
        log.retain(|entry| self.is_last_request(entry));
        log.reserve_exact(self.len + STALE_MIN);
        self.log = log;
    }

    #[cold]
    #[inline(never)]
    fn drop_stale_insertions(&mut self) {
        let mut heap = std::mem::take(&mut self.heap);
        heap.retain(|Reverse(entry)| self.is_waiting(entry));
        heap.reserve_exact(self.len / 2 + STALE_MIN);
        self.heap = heap;
    }

    /// Renumbers the last requests and insertions of all pages from 1 on, in the same order.
    #[cold]
    #[inline(never)]
    fn number_anew(&mut self) {
        self.drop_stale_requests();
        self.drop_stale_insertions();
        self.requests = number_in_order(&mut self.last_request);
        self.insertions = number_in_order(&mut self.insertion);
        for entry in &mut self.log {
            entry.request = self.last_request[entry.page.index()];
        }
        let entered = std::mem::take(&mut self.heap).into_iter();
        let numbered = entered.map(|Reverse(Entered { page, .. })| {
            let request = self.last_request[page.index()];
            Reverse(Entered { request, insertion: self.insertion[page.index()], page })
        });
        self.heap = numbered.collect();
    }
}

/// Renumbers to 1, 2, 3 ... in the same order; 0 stays. No number but 0 may occur twice.
/// Returns the last number.
fn number_in_order(numbers: &mut [u32]) -> u32 {
    let mut order: Vec<u32> = (0..numbers.len() as u32).collect();
    order.retain(|&index| numbers[index as usize] != 0);
    order.sort_unstable_by_key(|&index| numbers[index as usize]);
    for (number, &index) in (1..).zip(&order) {
        numbers[index as usize] = number;
    }
    order.len() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_requested_longest_ago_leaves_in_any_insertion_order() {
        let mut order = RequestOrder::default();
        order.grow(3);
        for page in [2, 0, 1] {
            order.request(PageId(page));
        }
        for page in [0, 1, 2] {
            order.insert(PageId(page));
        }
        assert_eq!(order.victim(), Some(PageId(2)));
        order.request(PageId(0));
        assert_eq!(order.victim(), Some(PageId(1)));
        assert_eq!(order.victim(), Some(PageId(0)));
        assert_eq!(order.victim(), None);
    }

    #[test]
    fn never_requested_pages_leave_in_insertion_order() {
        let mut order = RequestOrder::default();
        order.grow(3);
        for page in [1, 2, 0] {
            order.insert(PageId(page));
        }
        assert_eq!(order.victim(), Some(PageId(1)));
        order.remove(PageId(2));
        assert_eq!(order.victim(), Some(PageId(0)));
        assert_eq!(order.victim(), None);
    }

    #[test]
    fn pages_removed_elsewhere_leave_few_stale_entries() {
        let mut order = RequestOrder::default();
        order.grow(2);
        for _ in 0..10_000 {
            order.insert(PageId(1));
            order.remove(PageId(1));
        }
        assert!(order.heap.len() <= 1026);
        assert_eq!(order.victim(), None);
    }

    #[test]
    fn any_sequence_equals_a_linear_search() {
        const PAGES: u32 = 12;
        let mut order = RequestOrder::default();
        // Both numbers run out during the test, at different steps.
        (order.requests, order.insertions) = (u32::MAX - 50_000, u32::MAX - 10_000);
        order.grow(PAGES as usize);
        let mut inside: Vec<u32> = Vec::new();
        let mut last_request = [0; PAGES as usize];
        let mut state = 11u64;
        for step in 1..200_000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let page = (state >> 33) as u32 % PAGES;
            match (state >> 56) % 10 {
                0 => {
                    order.remove(PageId(page));
                    inside.retain(|&other| other != page);
                }
                1 => {
                    order.forget(PageId(page));
                    inside.retain(|&other| other != page);
                    last_request[page as usize] = 0;
                }
                2 => {
                    let oldest = inside.iter().map(|&page| last_request[page as usize]).min();
                    let oldest_is = |page: &u32| Some(last_request[*page as usize]) == oldest;
                    let index = inside.iter().position(oldest_is);
                    let expected = index.map(|index| PageId(inside.remove(index)));
                    assert_eq!(order.victim(), expected, "step {step}");
                }
                3..5 if !inside.contains(&page) => {
                    order.insert(PageId(page));
                    inside.push(page);
                }
                _ => {
                    order.request(PageId(page));
                    last_request[page as usize] = step;
                }
            }
            assert_eq!(order.len, inside.len());
        }
        assert!(order.requests < u32::MAX / 2 && order.insertions < u32::MAX / 2);
        assert!(order.log.len() <= 2 * PAGES as usize + STALE_MIN);
    }
}
