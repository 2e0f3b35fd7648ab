//! CLOCK with one bit per page, as a queue: a referenced page at the front goes to the back without
//! its bit. Pages enter with the bit clear, as in libCacheSim.

use super::{NotedEviction, Notes};
use std::collections::VecDeque;
use types::PageId;

/// Gives each page used since the hand last passed a second chance.
pub struct Clock {
    frames: usize,
    pages: VecDeque<PageId>,
}

/// Note of a page that was used since the hand last passed it.
const REFERENCED: u8 = 1;

impl Clock {
    pub fn new(frames: u32) -> Clock {
        Clock { frames: frames as usize, pages: VecDeque::new() }
    }
}

impl NotedEviction for Clock {
    #[inline(always)]
    fn hit(&mut self, page: PageId, mut notes: Notes) -> Option<PageId> {
        notes.set(page, REFERENCED);
        None
    }

    #[inline(always)]
    fn make_room(&mut self, _incoming: PageId, mut notes: Notes) -> Option<PageId> {
        if self.pages.len() < self.frames {
            return None;
        }
        loop {
            let oldest = self.pages.pop_front()?;
            if notes.get(oldest) != REFERENCED {
                return Some(oldest);
            }
            notes.set(oldest, 0);
            self.pages.push_back(oldest);
        }
    }

    #[inline(always)]
    fn insert(&mut self, page: PageId, _notes: Notes) {
        self.pages.push_back(page);
    }
}
