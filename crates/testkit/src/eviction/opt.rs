//! Belady's optimum with mandatory admission: the page whose next request is farthest leaves.

use super::Model;
use types::PageId;

pub struct Opt {
    frames: usize,
    trace: Vec<PageId>,
    now: usize,
    pages: Vec<PageId>,
}

impl Opt {
    pub fn new(frames: usize, trace: &[PageId]) -> Opt {
        Opt { frames, trace: trace.to_vec(), now: 0, pages: Vec::new() }
    }

    fn next_request(&self, page: PageId) -> usize {
        let future = &self.trace[self.now..];
        future.iter().position(|&other| other == page).unwrap_or(usize::MAX)
    }
}

impl Model for Opt {
    fn holds(&self, page: PageId) -> bool {
        self.pages.contains(&page)
    }

    fn request(&mut self, page: PageId) -> bool {
        self.now += 1;
        if self.holds(page) {
            return true;
        }
        if self.pages.len() == self.frames
            && let Some(victim) =
                (0..self.pages.len()).max_by_key(|&place| self.next_request(self.pages[place]))
        {
            self.pages.swap_remove(victim);
        }
        self.pages.push(page);
        false
    }
}
