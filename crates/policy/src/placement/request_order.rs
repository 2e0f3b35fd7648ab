//! The pages of the fast tier by the time of their last request.
//!
//! Source: spec sheet S0.4. A list in order of use does not suffice: a page enters with the time of a
//! past request, so it may enter anywhere in the order. Pages inside are therefore in one of three
//! orders, and the one requested longest ago is first in one of them: those never requested by
//! insertion, those that entered with a past request in a heap, and those requested inside by
//! request.

use crate::lists::Lists;
use types::{HugeVec, PageId, prefetch};

/// Number of a request, counted from 1; 0 means never requested.
type RequestNumber = u64;

/// The list of pages inside that were never requested, by insertion.
const NEVER: usize = 0;
/// The list of pages requested while they were inside, by request.
const INSIDE: usize = 1;

/// Not in the heap.
const NOWHERE: u32 = u32::MAX;

// Packed to 12 bytes: with the heap, padding would cost 8 bytes a page.
#[derive(Clone, Copy)]
#[repr(C, packed(4))]
struct RequestState {
    last_request: RequestNumber,
    /// Position in the heap, or `NOWHERE`.
    position: u32,
}

/// Chooses the page requested longest ago. Only pages never requested tie; of those the first inserted
/// leaves first. After `grow` it allocates nothing, and an operation visits the pages on one path
/// through the heap.
pub struct RequestOrder {
    lists: Lists,
    pages: HugeVec<RequestState>,
    /// A binary heap of the pages that entered with a past request: a page was requested before the
    /// pages at twice its position plus one and plus two.
    heap: Vec<Waiting>,
    requests: RequestNumber,
}

/// A page in the heap; packed as `RequestState` is.
#[derive(Clone, Copy)]
#[repr(C, packed(4))]
struct Waiting {
    request: RequestNumber,
    page: PageId,
}

impl Default for RequestOrder {
    fn default() -> RequestOrder {
        let pages = HugeVec::default();
        RequestOrder { lists: Lists::new(2), pages, heap: Vec::new(), requests: 0 }
    }
}

impl RequestOrder {
    /// Makes room for pages below `pages`, of which `frames` at most are inside at a time.
    pub fn grow(&mut self, pages: usize, frames: usize) {
        self.lists.grow(pages);
        self.pages.grow(pages, RequestState { last_request: 0, position: NOWHERE });
        self.heap.reserve_exact(frames.min(pages).saturating_sub(self.heap.len()));
    }

    /// Prefetches what is kept about a page that is requested soon.
    #[inline(always)]
    pub fn prefetch(&self, page: PageId) {
        prefetch(&self.pages, page.index());
        self.lists.prefetch(page);
    }

    /// Records a request for `page` now, inside or not.
    #[inline(always)]
    pub fn request(&mut self, page: PageId) {
        if self.remove(page) {
            self.lists.push(INSIDE, page);
        }
        self.requests += 1;
        self.pages[page.index()].last_request = self.requests;
    }

    /// Inserts `page`, which must be outside, with the time of its last request.
    #[inline(always)]
    pub fn insert(&mut self, page: PageId) {
        let request = self.pages[page.index()].last_request;
        if request == 0 {
            self.lists.push(NEVER, page);
        } else {
            let waiting = Waiting { request, page };
            self.heap.push(waiting);
            self.rise(self.heap.len() - 1, waiting);
        }
    }

    /// Removes `page` if it is inside; returns whether it was.
    #[inline(always)]
    pub fn remove(&mut self, page: PageId) -> bool {
        if self.lists.contains(page) {
            self.lists.remove(page);
            return true;
        }
        let position = self.pages[page.index()].position;
        if position != NOWHERE {
            self.take(position as usize);
        }
        position != NOWHERE
    }

    /// Forgets `page` and its request time.
    pub fn forget(&mut self, page: PageId) {
        self.remove(page);
        self.pages[page.index()].last_request = 0;
    }

    /// Removes and returns the page requested longest ago.
    #[inline(always)]
    pub fn victim(&mut self) -> Option<PageId> {
        if let Some(page) = self.lists.first(NEVER) {
            self.lists.remove(page);
            return Some(page);
        }
        let inside = self.lists.first(INSIDE);
        let is_before = |waiting: &&Waiting| {
            inside.is_none_or(|page| waiting.request < self.pages[page.index()].last_request)
        };
        if let Some(&Waiting { page, .. }) = self.heap.first().filter(is_before) {
            self.take(0);
            return Some(page);
        }
        let page = inside?;
        self.lists.remove(page);
        Some(page)
    }

    /// Removes the page at a position of the heap.
    fn take(&mut self, position: usize) {
        self.pages[self.heap[position].page.index()].position = NOWHERE;
        let Some(last) = self.heap.pop() else { return };
        if position == self.heap.len() {
            return;
        }
        match position.checked_sub(1).map(|below| below / 2) {
            Some(parent) if self.heap[parent].request > last.request => self.rise(position, last),
            _ => self.sink(position, last),
        }
    }

    /// Moves pages requested after `waiting` away from the first position, and puts it there.
    fn rise(&mut self, mut position: usize, waiting: Waiting) {
        while position > 0 {
            let parent = (position - 1) / 2;
            if self.heap[parent].request < waiting.request {
                break;
            }
            self.put(position, self.heap[parent]);
            position = parent;
        }
        self.put(position, waiting);
    }

    /// Moves pages requested before `waiting` towards the first position, and puts it behind them.
    fn sink(&mut self, mut position: usize, waiting: Waiting) {
        loop {
            let left = 2 * position + 1;
            let children = left..(left + 2).min(self.heap.len());
            match children.min_by_key(|&child| self.heap[child].request) {
                Some(child) if self.heap[child].request < waiting.request => {
                    self.put(position, self.heap[child]);
                    position = child;
                }
                _ => return self.put(position, waiting),
            }
        }
    }

    #[inline(always)]
    fn put(&mut self, position: usize, waiting: Waiting) {
        self.heap[position] = waiting;
        self.pages[waiting.page.index()].position = position as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_requested_longest_ago_leaves_in_any_insertion_order() {
        let mut order = RequestOrder::default();
        order.grow(3, 3);
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
        order.grow(3, 3);
        for page in [1, 2, 0] {
            order.insert(PageId(page));
        }
        assert_eq!(order.victim(), Some(PageId(1)));
        order.remove(PageId(2));
        assert_eq!(order.victim(), Some(PageId(0)));
        assert_eq!(order.victim(), None);
    }

    #[test]
    fn any_sequence_equals_a_linear_search() {
        const PAGES: u32 = 24;
        let mut order = RequestOrder::default();
        order.grow(PAGES as usize, PAGES as usize);
        let mut inside: Vec<u32> = Vec::new();
        let mut last_request = [0; PAGES as usize];
        let mut state = 11u64;
        for step in 1..200_000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let page = (state >> 33) as u32 % PAGES;
            match (state >> 56) % 10 {
                0 => {
                    assert_eq!(order.remove(PageId(page)), inside.contains(&page));
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
                3..6 if !inside.contains(&page) => {
                    order.insert(PageId(page));
                    inside.push(page);
                }
                _ => {
                    order.request(PageId(page));
                    last_request[page as usize] = step;
                }
            }
        }
    }
}
