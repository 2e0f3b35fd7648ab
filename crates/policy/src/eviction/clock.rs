//! CLOCK with one bit per page, as the queue it is: a referenced page at the front goes to the back
//! without its bit. Pages enter with the bit clear, as in libCacheSim.

use super::Eviction;
use std::collections::VecDeque;
use types::PageId;

/// Gives each page used since the hand last passed a second chance.
pub struct Clock {
    frames: usize,
    pages: VecDeque<PageId>,
    referenced: Vec<bool>,
}

impl Clock {
    pub fn new(frames: u32) -> Clock {
        Clock { frames: frames as usize, pages: VecDeque::new(), referenced: Vec::new() }
    }
}

impl Eviction for Clock {
    fn grow(&mut self, pages: usize) {
        if self.referenced.len() < pages {
            self.referenced.resize(pages, false);
        }
    }

    #[inline(always)]
    fn hit(&mut self, page: PageId) -> Option<PageId> {
        self.referenced[page.index()] = true;
        None
    }

    #[inline(always)]
    fn make_room(&mut self, _incoming: PageId) -> Option<PageId> {
        if self.pages.len() < self.frames {
            return None;
        }
        loop {
            let oldest = self.pages.pop_front()?;
            if !std::mem::take(&mut self.referenced[oldest.index()]) {
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
