//! First in, first out.

use super::{Model, Order};
use types::PageId;

pub struct Fifo {
    frames: usize,
    pages: Order,
}

impl Fifo {
    pub fn new(frames: usize) -> Fifo {
        Fifo { frames, pages: Order::default() }
    }
}

impl Model for Fifo {
    fn holds(&self, page: PageId) -> bool {
        self.pages.contains(page)
    }

    fn request(&mut self, page: PageId) -> bool {
        if self.holds(page) {
            return true;
        }
        if self.pages.len() == self.frames {
            self.pages.pop();
        }
        self.pages.push(page);
        false
    }
}
