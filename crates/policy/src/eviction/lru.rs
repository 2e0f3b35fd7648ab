//! Least recently used.

use super::Eviction;
use super::queues::Queues;
use types::PageId;

/// Evicts the page whose last request is oldest.
pub struct Lru {
    frames: u32,
    pages: Queues<1>,
}

const ALL: usize = 0;

impl Lru {
    pub fn new(frames: u32) -> Lru {
        Lru { frames, pages: Queues::default() }
    }
}

impl Eviction for Lru {
    fn grow(&mut self, pages: usize) {
        self.pages.grow(pages);
    }

    #[inline(always)]
    fn read_ahead(&self, pages: &[PageId]) {
        self.pages.read_ahead(pages);
    }

    #[inline(always)]
    fn hit(&mut self, page: PageId) -> Option<PageId> {
        self.pages.refresh(ALL, page);
        None
    }

    #[inline(always)]
    fn make_room(&mut self, _incoming: PageId) -> Option<PageId> {
        if self.pages.len(ALL) < self.frames { None } else { self.pages.pop(ALL) }
    }

    #[inline(always)]
    fn insert(&mut self, page: PageId) {
        self.pages.push(ALL, page);
    }
}
