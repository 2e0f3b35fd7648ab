//! CLOCK with one bit per page, as the queue it is: a referenced page at the front goes to the back
//! without its bit. Pages enter with the bit clear, as in libCacheSim.

use super::Eviction;
use crate::PageSet;
use std::collections::VecDeque;
use types::PageId;

/// Gives each page used since the hand last passed a second chance.
pub struct Clock {
    frames: usize,
    pages: VecDeque<PageId>,
    referenced: PageSet,
}

impl Clock {
    pub fn new(frames: u32) -> Clock {
        Clock { frames: frames as usize, pages: VecDeque::new(), referenced: PageSet::default() }
    }
}

impl Eviction for Clock {
    fn grow(&mut self, pages: usize) {
        self.referenced.grow(pages);
    }

    #[inline(always)]
    fn hit(&mut self, page: PageId) -> Option<PageId> {
        self.referenced.insert(page);
        None
    }

    #[inline(always)]
    fn make_room(&mut self, _incoming: PageId) -> Option<PageId> {
        if self.pages.len() < self.frames {
            return None;
        }
        loop {
            let oldest = self.pages.pop_front()?;
            if !self.referenced.remove(oldest) {
                return Some(oldest);
            }
            self.pages.push_back(oldest);
        }
    }

    #[inline(always)]
    fn insert(&mut self, page: PageId) {
        self.pages.push_back(page);
    }
}
