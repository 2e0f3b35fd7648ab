//! First in, first out.

use super::Eviction;
use std::collections::VecDeque;
use types::PageId;

/// Evicts the page that has been resident longest.
pub struct Fifo {
    frames: usize,
    pages: VecDeque<PageId>,
}

impl Fifo {
    pub fn new(frames: u32) -> Fifo {
        Fifo { frames: frames as usize, pages: VecDeque::new() }
    }
}

impl Eviction for Fifo {
    fn grow(&mut self, _pages: usize) {}

    #[inline(always)]
    fn hit(&mut self, _page: PageId) -> Option<PageId> {
        None
    }

    #[inline(always)]
    fn make_room(&mut self, _incoming: PageId) -> Option<PageId> {
        if self.pages.len() < self.frames { None } else { self.pages.pop_front() }
    }

    #[inline(always)]
    fn insert(&mut self, page: PageId) {
        self.pages.push_back(page);
    }
}
