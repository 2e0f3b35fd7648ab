//! S3-FIFO: a small probationary queue, a main queue with reinsertion, a ghost queue.
//! Departs from libCacheSim below 10 frames, which libCacheSim refuses: the small queue has at least one
//! frame.

use super::{Model, Order};
use std::collections::HashMap;
use types::PageId;

pub struct S3Fifo {
    frames: usize,
    small_limit: usize,
    ghost_limit: usize,
    small: Order,
    main: Order,
    ghosts: Order,
    hits: HashMap<PageId, u32>,
    has_evicted: bool,
}

impl S3Fifo {
    pub fn new(frames: usize) -> S3Fifo {
        S3Fifo {
            frames,
            small_limit: (frames / 10).max(1),
            ghost_limit: frames * 9 / 10,
            small: Order::default(),
            main: Order::default(),
            ghosts: Order::default(),
            hits: HashMap::new(),
            has_evicted: false,
        }
    }

    fn evict_from_main(&mut self) {
        while let Some(oldest) = self.main.pop() {
            let hits = self.hits.remove(&oldest).unwrap_or(0);
            if hits == 0 {
                return;
            }
            self.hits.insert(oldest, hits.min(3) - 1);
            self.main.push(oldest);
        }
    }

    /// Evicts nothing if every small page moves to the main queue.
    fn evict_from_small(&mut self) {
        while let Some(oldest) = self.small.pop() {
            let hits = self.hits.remove(&oldest).unwrap_or(0);
            if hits < 2 {
                if self.ghost_limit > 0 {
                    if self.ghosts.len() == self.ghost_limit {
                        self.ghosts.pop();
                    }
                    self.ghosts.push(oldest);
                }
                return;
            }
            self.main.push(oldest);
        }
    }
}

impl Model for S3Fifo {
    fn holds(&self, page: PageId) -> bool {
        self.small.contains(page) || self.main.contains(page)
    }

    fn request(&mut self, page: PageId) -> bool {
        if self.holds(page) {
            *self.hits.entry(page).or_insert(0) += 1;
            return true;
        }
        let is_ghost = self.ghosts.take(page);
        while self.small.len() + self.main.len() == self.frames {
            self.has_evicted = true;
            if self.main.len() > self.frames - self.small_limit || self.small.len() == 0 {
                self.evict_from_main();
            } else {
                self.evict_from_small();
            }
        }
        if is_ghost || (!self.has_evicted && self.small.len() >= self.small_limit) {
            self.main.push(page);
        } else {
            self.small.push(page);
        }
        false
    }
}
