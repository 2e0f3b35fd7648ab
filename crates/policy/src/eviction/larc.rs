//! LARC (Huang et al., MSST 2013). A ghost queue always has room for one page, which the paper's
//! formula denies memories of under ten frames.

use super::Eviction;
use super::queues::Queues;
use types::PageId;

/// An LRU that admits a page at its second miss, if the page still is a ghost. The ghost queue
/// grows with misses and shrinks with hits.
pub struct Larc {
    frames: u32,
    /// Target length of the ghost queue, from a tenth to nine tenths of the frames.
    ghosts_max: f64,
    queues: Queues<2>,
}

const RESIDENT: usize = 0;
const GHOSTS: usize = 1;
const GHOSTS_LEAST: f64 = 0.1;
const GHOSTS_MOST: f64 = 0.9;

impl Larc {
    pub fn new(frames: u32) -> Larc {
        let ghosts_max = (GHOSTS_LEAST * f64::from(frames)).max(1.0);
        Larc { frames, ghosts_max, queues: Queues::default() }
    }
}

impl Eviction for Larc {
    fn grow(&mut self, pages: usize) {
        self.queues.grow(pages);
    }

    #[inline(always)]
    fn read_ahead(&self, pages: &[PageId]) {
        self.queues.read_ahead(pages);
    }

    #[inline(always)]
    fn hit(&mut self, page: PageId) -> Option<PageId> {
        self.queues.refresh(RESIDENT, page);
        let frames = f64::from(self.frames);
        if self.frames > 1 {
            let step = frames / (frames - self.ghosts_max);
            self.ghosts_max = (self.ghosts_max - step).max(GHOSTS_LEAST * frames).max(1.0);
        }
        None
    }

    #[inline(always)]
    fn miss(&mut self, page: PageId) -> bool {
        let frames = f64::from(self.frames);
        let step = frames / self.ghosts_max;
        self.ghosts_max = (self.ghosts_max + step).min(GHOSTS_MOST * frames).max(1.0);
        if self.queues.queue_of(page).is_some() {
            self.queues.remove(page);
            return true;
        }
        self.queues.push(GHOSTS, page);
        if f64::from(self.queues.len(GHOSTS)) > self.ghosts_max {
            self.queues.pop(GHOSTS);
        }
        false
    }

    #[inline(always)]
    fn make_room(&mut self, _incoming: PageId) -> Option<PageId> {
        if self.queues.len(RESIDENT) < self.frames { None } else { self.queues.pop(RESIDENT) }
    }

    #[inline(always)]
    fn insert(&mut self, page: PageId) {
        self.queues.push(RESIDENT, page);
    }
}
