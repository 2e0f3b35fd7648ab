//! The active and inactive lists of Linux with one access bit, kept at equal length.

use super::{Model, Order};
use std::collections::HashSet;
use types::PageId;

pub struct TwoList {
    frames: usize,
    active: Order,
    inactive: Order,
    accessed: HashSet<PageId>,
}

impl TwoList {
    pub fn new(frames: usize) -> TwoList {
        TwoList {
            frames,
            active: Order::default(),
            inactive: Order::default(),
            accessed: HashSet::new(),
        }
    }

    fn evict(&mut self) {
        loop {
            while self.active.len() > self.inactive.len()
                && let Some(oldest) = self.active.pop()
            {
                self.accessed.remove(&oldest);
                self.inactive.push(oldest);
            }
            let Some(oldest) = self.inactive.pop() else { return };
            if !self.accessed.remove(&oldest) {
                return;
            }
            self.active.push(oldest);
        }
    }
}

impl Model for TwoList {
    fn holds(&self, page: PageId) -> bool {
        self.active.contains(page) || self.inactive.contains(page)
    }

    fn request(&mut self, page: PageId) -> bool {
        if self.holds(page) {
            self.accessed.insert(page);
            return true;
        }
        if self.active.len() + self.inactive.len() == self.frames {
            self.evict();
        }
        self.inactive.push(page);
        false
    }
}
