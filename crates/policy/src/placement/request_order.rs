//! The pages of the fast tier by the time of their last request.
//!
//! Source: specs S0.4. A list in order of use does not suffice: a page enters with the time of a
//! request that lies in the past, so it may enter anywhere in the order. A heap whose keys are lower
//! bounds does: a request only moves a page later, and the heap learns of it when the page comes up.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use types::PageId;

/// Number of a request, counted from 1; 0 means never requested.
type RequestNumber = u64;

const OUTSIDE: u64 = 0;

/// One page's place in the heap. Ordered by request, then by insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    request: RequestNumber,
    insertion: u64,
    page: u32,
}

/// Chooses the page requested longest ago; ties go to the page inserted first.
///
/// Invariant: every page inside has exactly one live entry, one whose `insertion` equals the page's;
/// its `request` is at most the page's last.
#[derive(Clone, Debug, Default)]
pub struct RequestOrder {
    heap: BinaryHeap<Reverse<Entry>>,
    last_request: Vec<RequestNumber>,
    /// Number of the page's insertion, `OUTSIDE` where it is not inside.
    insertion: Vec<u64>,
    requests: RequestNumber,
    insertions: u64,
    len: usize,
}

impl RequestOrder {
    /// Makes room for pages below `pages`.
    pub fn grow(&mut self, pages: usize) {
        if self.last_request.len() < pages {
            self.last_request.resize(pages, 0);
            self.insertion.resize(pages, OUTSIDE);
        }
    }

    /// Whether `page` is inside.
    pub fn contains(&self, page: PageId) -> bool {
        self.insertion.get(page.index()).is_some_and(|&insertion| insertion != OUTSIDE)
    }

    /// `page` is requested now, inside or not.
    #[inline]
    pub fn request(&mut self, page: PageId) {
        self.requests += 1;
        self.last_request[page.index()] = self.requests;
    }

    /// `page`, which must be outside, enters with the time of its last request.
    pub fn insert(&mut self, page: PageId) {
        self.insertions += 1;
        self.insertion[page.index()] = self.insertions;
        self.len += 1;
        self.heap.push(Reverse(Entry {
            request: self.last_request[page.index()],
            insertion: self.insertions,
            page: page.0,
        }));
        if self.heap.len() > 2 * self.len + 1024 {
            self.drop_stale_entries();
        }
    }

    /// Takes `page`, which must be inside, out.
    pub fn remove(&mut self, page: PageId) {
        self.insertion[page.index()] = OUTSIDE;
        self.len -= 1;
    }

    /// Forgets when `page`, which must be outside, was requested.
    pub fn forget(&mut self, page: PageId) {
        self.last_request[page.index()] = 0;
    }

    /// Takes out the page requested longest ago.
    pub fn victim(&mut self) -> Option<PageId> {
        loop {
            let Reverse(mut entry) = self.heap.pop()?;
            let page = PageId(entry.page);
            if self.insertion[page.index()] != entry.insertion {
                continue;
            }
            let request = self.last_request[page.index()];
            if request == entry.request {
                self.remove(page);
                return Some(page);
            }
            entry.request = request;
            self.heap.push(Reverse(entry));
        }
    }

    /// Pages that left on their own leave entries behind; this bounds them.
    fn drop_stale_entries(&mut self) {
        let insertion = &self.insertion;
        self.heap.retain(|Reverse(entry)| insertion[entry.page as usize] == entry.insertion);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_requested_longest_ago_leaves_whatever_the_insertion_order() {
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
    fn pages_that_leave_on_their_own_do_not_pile_up() {
        let mut order = RequestOrder::default();
        order.grow(2);
        for _ in 0..10_000 {
            order.insert(PageId(1));
            order.remove(PageId(1));
        }
        assert!(order.heap.len() <= 1026);
        assert_eq!(order.victim(), None);
    }
}
