//! SIEVE: a hand walks from the oldest to the newest page, clears marks, evicts the first unmarked
//! page and stays there.

use super::Model;
use std::collections::HashSet;
use types::PageId;

pub struct Sieve {
    frames: usize,
    /// From oldest to newest.
    pages: Vec<PageId>,
    visited: HashSet<PageId>,
    /// Index of the next page to inspect.
    hand: usize,
}

impl Sieve {
    pub fn new(frames: usize) -> Sieve {
        Sieve { frames, pages: Vec::new(), visited: HashSet::new(), hand: 0 }
    }

    fn wrap(&mut self) {
        if self.hand == self.pages.len() {
            self.hand = 0;
        }
    }
}

impl Model for Sieve {
    fn holds(&self, page: PageId) -> bool {
        self.pages.contains(&page)
    }

    fn request(&mut self, page: PageId) -> bool {
        if self.holds(page) {
            self.visited.insert(page);
            return true;
        }
        if self.pages.len() == self.frames {
            while self.visited.remove(&self.pages[self.hand]) {
                self.hand += 1;
                self.wrap();
            }
            self.pages.remove(self.hand);
            // Wrap before the new page arrives: a hand past the newest page restarts at the oldest.
            self.wrap();
        }
        self.pages.push(page);
        false
    }
}
