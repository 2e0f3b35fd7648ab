//! CLOCK with one bit, as a queue: a referenced page at the front goes to the back without its bit.

use super::{Model, Order};
use std::collections::HashSet;
use types::PageId;

pub struct Clock {
    frames: usize,
    pages: Order,
    referenced: HashSet<PageId>,
}

impl Clock {
    pub fn new(frames: usize) -> Clock {
        Clock { frames, pages: Order::default(), referenced: HashSet::new() }
    }
}

impl Model for Clock {
    fn holds(&self, page: PageId) -> bool {
        self.pages.contains(page)
    }

    fn request(&mut self, page: PageId) -> bool {
        if self.holds(page) {
            self.referenced.insert(page);
            return true;
        }
        if self.pages.len() == self.frames {
            while let Some(oldest) = self.pages.pop() {
                if !self.referenced.remove(&oldest) {
                    break;
                }
                self.pages.push(oldest);
            }
        }
        self.pages.push(page);
        false
    }
}
