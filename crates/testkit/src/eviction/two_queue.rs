//! 2Q: a FIFO for pages seen once, an LRU for pages seen again after leaving it, ghosts between.

use super::{Model, Order};
use types::PageId;

pub struct TwoQueue {
    frames: usize,
    recent_limit: usize,
    ghost_limit: usize,
    recent: Order,
    frequent: Order,
    ghosts: Order,
}

impl TwoQueue {
    pub fn new(frames: usize) -> TwoQueue {
        TwoQueue {
            frames,
            recent_limit: frames / 4,
            ghost_limit: frames / 2,
            recent: Order::default(),
            frequent: Order::default(),
            ghosts: Order::default(),
        }
    }

    fn evict(&mut self) {
        if self.frequent.len() > 0 && self.recent.len() <= self.recent_limit {
            self.frequent.pop();
        } else if let Some(oldest) = self.recent.pop()
            && self.ghost_limit > 0
        {
            if self.ghosts.len() == self.ghost_limit {
                self.ghosts.pop();
            }
            self.ghosts.push(oldest);
        }
    }
}

impl Model for TwoQueue {
    fn holds(&self, page: PageId) -> bool {
        self.recent.contains(page) || self.frequent.contains(page)
    }

    fn request(&mut self, page: PageId) -> bool {
        if self.recent.contains(page) || self.frequent.refresh(page) {
            return true;
        }
        let is_ghost = self.ghosts.take(page);
        if self.recent.len() + self.frequent.len() == self.frames {
            self.evict();
        }
        if is_ghost {
            if self.frequent.len() == self.frames - self.recent_limit {
                self.frequent.pop();
            }
            self.frequent.push(page);
        } else {
            self.recent.push(page);
        }
        false
    }
}
