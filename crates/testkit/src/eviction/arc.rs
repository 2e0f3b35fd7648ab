//! ARC (Megiddo and Modha, FAST 2003), with a fractional target as in libCacheSim.

use super::{Model, Order};
use types::PageId;

pub struct Arc {
    frames: usize,
    /// Target length of `once`.
    target: f64,
    once: Order,
    again: Order,
    once_ghosts: Order,
    again_ghosts: Order,
}

impl Arc {
    pub fn new(frames: usize) -> Arc {
        Arc {
            frames,
            target: 0.0,
            once: Order::default(),
            again: Order::default(),
            once_ghosts: Order::default(),
            again_ghosts: Order::default(),
        }
    }

    fn is_full(&self) -> bool {
        self.once.len() + self.again.len() == self.frames
    }

    fn replace(&mut self, is_again_ghost: bool) {
        let once = self.once.len() as f64;
        let is_over = once > self.target || (once == self.target && is_again_ghost);
        if (self.once.len() > 0 && is_over) || self.again.len() == 0 {
            self.once_ghosts.0.extend(self.once.pop());
        } else {
            self.again_ghosts.0.extend(self.again.pop());
        }
    }

    fn make_room_for_unknown(&mut self) {
        if self.once.len() + self.once_ghosts.len() >= self.frames {
            if self.once_ghosts.pop().is_some() {
                self.replace(false);
            } else {
                self.once.pop();
            }
            return;
        }
        let known =
            self.once.len() + self.again.len() + self.once_ghosts.len() + self.again_ghosts.len();
        if known >= 2 * self.frames {
            self.again_ghosts.pop();
        }
        self.replace(false);
    }
}

impl Model for Arc {
    fn holds(&self, page: PageId) -> bool {
        self.once.contains(page) || self.again.contains(page)
    }

    fn request(&mut self, page: PageId) -> bool {
        if self.once.take(page) || self.again.take(page) {
            self.again.push(page);
            return true;
        }
        let (once, again) = (self.once_ghosts.len() as f64, self.again_ghosts.len() as f64);
        let is_once_ghost = self.once_ghosts.take(page);
        let is_again_ghost = self.again_ghosts.take(page);
        if is_once_ghost {
            self.target = (self.target + (again / once).max(1.0)).min(self.frames as f64);
        } else if is_again_ghost {
            self.target = (self.target - (once / again).max(1.0)).max(0.0);
        }
        if is_once_ghost || is_again_ghost {
            if self.is_full() {
                self.replace(is_again_ghost);
            }
            self.again.push(page);
        } else {
            if self.is_full() {
                self.make_room_for_unknown();
            }
            self.once.push(page);
        }
        false
    }
}
