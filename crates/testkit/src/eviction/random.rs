//! Evicts a random resident page. The last page of the list takes the place of the evicted page.

use super::{Model, Options};
use types::PageId;
use types::random::Stream;

pub struct Random {
    frames: usize,
    pages: Vec<PageId>,
    draws: Stream,
}

impl Random {
    pub fn new(frames: usize, options: &Options) -> Random {
        let draws = Stream::named(options.number("seed", 0), "random");
        Random { frames, pages: Vec::new(), draws }
    }
}

impl Model for Random {
    fn holds(&self, page: PageId) -> bool {
        self.pages.contains(&page)
    }

    fn request(&mut self, page: PageId) -> bool {
        if self.holds(page) {
            return true;
        }
        if self.pages.len() == self.frames {
            let drawn = self.draws.below(self.frames as u32) as usize;
            let last = self.pages.pop().expect("memory is full");
            if drawn < self.pages.len() {
                self.pages[drawn] = last;
            }
        }
        self.pages.push(page);
        false
    }
}
