//! LIRS (Jiang and Zhang, SIGMETRICS 2002) in libCacheSim's reading: 1 % of the frames are cold, the
//! stack holds at most twice the frames, and a cold hit outside the stack demotes a hot page too.
//! Departs from libCacheSim below 200 frames, where its only cold frame could evict the page just hit
//! (here without the demotion), and for a single frame, which is hot.

use super::{Model, Order};
use std::collections::HashSet;
use types::PageId;

pub struct Lirs {
    frames: usize,
    hot_limit: usize,
    cold_limit: usize,
    /// Recency of hot, cold and ghost pages.
    stack: Order,
    hot: HashSet<PageId>,
    /// Resident pages that are not hot; the oldest leaves first.
    cold: Order,
    /// Pages of the stack that are not resident, from the first to the last evicted.
    ghosts: Order,
}

impl Lirs {
    pub fn new(frames: usize) -> Lirs {
        let cold_limit = if frames == 1 { 0 } else { (frames / 100).max(1) };
        Lirs {
            frames,
            hot_limit: frames - cold_limit,
            cold_limit,
            stack: Order::default(),
            hot: HashSet::new(),
            cold: Order::default(),
            ghosts: Order::default(),
        }
    }

    fn prune(&mut self) {
        while self.stack.len() > 1
            && let Some(bottom) = self.stack.oldest()
            && !self.hot.contains(&bottom)
        {
            self.stack.pop();
            self.ghosts.take(bottom);
        }
    }

    fn evict_cold(&mut self) {
        if let Some(oldest) = self.cold.pop()
            && self.stack.contains(oldest)
        {
            self.ghosts.push(oldest);
        }
    }

    fn demote_hot(&mut self) {
        self.prune();
        let bottom = self.stack.pop().expect("hot pages are in the stack");
        self.hot.remove(&bottom);
        if self.cold_limit > 0 {
            if self.cold.len() == self.cold_limit {
                self.evict_cold();
            }
            self.cold.push(bottom);
        }
        self.prune();
    }

    fn make_hot(&mut self, page: PageId) {
        if self.hot.len() == self.hot_limit {
            self.demote_hot();
        }
        self.hot.insert(page);
    }

    fn hit(&mut self, page: PageId) {
        if self.hot.contains(&page) {
            self.stack.refresh(page);
            self.prune();
        } else if self.stack.refresh(page) {
            self.cold.take(page);
            self.make_hot(page);
        } else {
            self.cold.refresh(page);
            if self.hot.len() == self.hot_limit && self.cold_limit > 1 {
                self.demote_hot();
            }
            self.stack.push(page);
        }
    }

    fn miss(&mut self, page: PageId) {
        if self.stack.refresh(page) {
            self.ghosts.take(page);
            self.make_hot(page);
        } else if self.hot.len() < self.hot_limit || self.cold_limit == 0 {
            self.stack.push(page);
            self.make_hot(page);
        } else {
            if self.cold.len() == self.cold_limit {
                self.evict_cold();
            }
            self.stack.push(page);
            self.cold.push(page);
        }
    }
}

impl Model for Lirs {
    fn holds(&self, page: PageId) -> bool {
        self.hot.contains(&page) || self.cold.contains(page)
    }

    fn request(&mut self, page: PageId) -> bool {
        let is_hit = self.holds(page);
        if is_hit {
            self.hit(page);
        } else {
            self.miss(page);
        }
        while self.stack.len() > 2 * self.frames
            && let Some(oldest) = self.ghosts.pop()
        {
            self.stack.take(oldest);
        }
        is_hit
    }
}
