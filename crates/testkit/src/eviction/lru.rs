//! Least recently used.

use super::{Model, Order};
use types::PageId;

pub struct Lru {
    frames: usize,
    pages: Order,
}

impl Lru {
    pub fn new(frames: usize) -> Lru {
        Lru { frames, pages: Order::default() }
    }
}

impl Model for Lru {
    fn holds(&self, page: PageId) -> bool {
        self.pages.contains(page)
    }

    fn request(&mut self, page: PageId) -> bool {
        if self.pages.refresh(page) {
            return true;
        }
        if self.pages.len() == self.frames {
            self.pages.pop();
        }
        self.pages.push(page);
        false
    }
}
