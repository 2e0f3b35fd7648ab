//! LARC (Huang et al., MSST 2013): an LRU that a page enters at its second miss within a ghost
//! queue of self-tuned length.

use super::{Model, Order};
use types::PageId;

pub struct Larc {
    frames: usize,
    ghost_limit: f64,
    pages: Order,
    ghosts: Order,
}

impl Larc {
    pub fn new(frames: usize) -> Larc {
        Larc {
            frames,
            ghost_limit: (0.1 * frames as f64).max(1.0),
            pages: Order::default(),
            ghosts: Order::default(),
        }
    }
}

impl Model for Larc {
    fn holds(&self, page: PageId) -> bool {
        self.pages.contains(page)
    }

    fn request(&mut self, page: PageId) -> bool {
        let frames = self.frames as f64;
        if self.pages.refresh(page) {
            if self.frames > 1 {
                let step = frames / (frames - self.ghost_limit);
                self.ghost_limit = (self.ghost_limit - step).max(0.1 * frames).max(1.0);
            }
            return true;
        }
        self.ghost_limit =
            (self.ghost_limit + frames / self.ghost_limit).min(0.9 * frames).max(1.0);
        if self.ghosts.take(page) {
            if self.pages.len() == self.frames {
                self.pages.pop();
            }
            self.pages.push(page);
        } else {
            self.ghosts.push(page);
            if self.ghosts.len() as f64 > self.ghost_limit {
                self.ghosts.pop();
            }
        }
        false
    }
}
