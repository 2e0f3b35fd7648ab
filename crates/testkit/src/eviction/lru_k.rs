//! LRU-K: every request of every page is kept, and all resident pages are compared.

use super::{Model, Options};
use std::collections::HashMap;
use types::PageId;

pub struct LruK {
    frames: usize,
    k: usize,
    now: u64,
    resident: Vec<PageId>,
    /// Times of all requests, oldest first.
    requests: HashMap<PageId, Vec<u64>>,
}

impl LruK {
    pub fn new(frames: usize, options: &Options) -> LruK {
        let (resident, requests) = (Vec::new(), HashMap::new());
        LruK { frames, k: options.number("k", 2) as usize, now: 0, resident, requests }
    }

    /// Times of the k-th last request, if there were k requests, and of the last. The page with the
    /// smallest rank leaves first.
    fn rank(&self, page: PageId) -> (Option<u64>, u64) {
        let times = &self.requests[&page];
        let kth = times.len().checked_sub(self.k).map(|index| times[index]);
        (kth, times[times.len() - 1])
    }
}

impl Model for LruK {
    fn holds(&self, page: PageId) -> bool {
        self.resident.contains(&page)
    }

    fn request(&mut self, page: PageId) -> bool {
        let is_hit = self.holds(page);
        if !is_hit && self.resident.len() == self.frames {
            let victim = self.resident.iter().copied().min_by_key(|&page| self.rank(page));
            self.resident.retain(|&page| Some(page) != victim);
        }
        self.now += 1;
        self.requests.entry(page).or_default().push(self.now);
        if !is_hit {
            self.resident.push(page);
        }
        is_hit
    }
}
