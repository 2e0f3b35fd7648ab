//! S3-FIFO (Yang et al., SOSP 2023), with libCacheSim's parameters: the small queue has 10 % of the
//! frames (at least one), the ghosts 90 %, two hits move a small page to the main queue. While
//! nothing has been evicted yet, what overflows the small queue goes to the main queue.

use super::Eviction;
use super::queues::Queues;
use std::collections::VecDeque;
use types::PageId;

/// Puts new pages on probation in a small queue; pages used twice there, or missed again soon after
/// leaving it, live in a main queue with up to three more chances.
pub struct S3Fifo {
    frames: usize,
    small_frames: usize,
    ghosts_max: u32,
    small: VecDeque<PageId>,
    main: VecDeque<PageId>,
    ghosts: Queues<1>,
    /// Hits since the page entered its queue, up to `HITS_MAX`.
    hits: Vec<u8>,
    has_evicted: bool,
    incoming_is_ghost: bool,
}

const GHOSTS: usize = 0;
const HITS_MAX: u8 = 3;
const HITS_TO_MAIN: u8 = 2;

impl S3Fifo {
    pub fn new(frames: u32) -> S3Fifo {
        S3Fifo {
            frames: frames as usize,
            small_frames: (frames as usize / 10).max(1),
            ghosts_max: (u64::from(frames) * 9 / 10) as u32,
            small: VecDeque::new(),
            main: VecDeque::new(),
            ghosts: Queues::default(),
            hits: Vec::new(),
            has_evicted: false,
            incoming_is_ghost: false,
        }
    }

    /// The first page of the main queue without hits; the others go to its back with one hit less.
    #[inline(always)]
    fn evict_from_main(&mut self) -> Option<PageId> {
        loop {
            let oldest = self.main.pop_front()?;
            let hits = &mut self.hits[oldest.index()];
            if *hits == 0 {
                return Some(oldest);
            }
            *hits -= 1;
            self.main.push_back(oldest);
        }
    }

    /// The first small page that was not used twice, now a ghost; none if all move to main.
    #[inline(always)]
    fn evict_from_small(&mut self) -> Option<PageId> {
        loop {
            let oldest = self.small.pop_front()?;
            if std::mem::take(&mut self.hits[oldest.index()]) < HITS_TO_MAIN {
                self.remember(oldest);
                return Some(oldest);
            }
            self.main.push_back(oldest);
        }
    }

    #[inline(always)]
    fn remember(&mut self, page: PageId) {
        if self.ghosts_max > 0 {
            if self.ghosts.len(GHOSTS) == self.ghosts_max {
                self.ghosts.pop(GHOSTS);
            }
            self.ghosts.push(GHOSTS, page);
        }
    }
}

impl Eviction for S3Fifo {
    fn grow(&mut self, pages: usize) {
        self.ghosts.grow(pages);
        if self.hits.len() < pages {
            self.hits.resize(pages, 0);
        }
    }

    #[inline(always)]
    fn read_ahead(&self, pages: &[PageId]) {
        self.ghosts.read_ahead(pages);
    }

    #[inline(always)]
    fn hit(&mut self, page: PageId) -> Option<PageId> {
        let hits = &mut self.hits[page.index()];
        *hits = (*hits + 1).min(HITS_MAX);
        None
    }

    #[inline(always)]
    fn miss(&mut self, page: PageId) -> bool {
        self.incoming_is_ghost = self.ghosts.queue_of(page).is_some();
        if self.incoming_is_ghost {
            self.ghosts.remove(page);
        }
        true
    }

    #[inline(always)]
    fn make_room(&mut self, _incoming: PageId) -> Option<PageId> {
        if self.small.len() + self.main.len() < self.frames {
            return None;
        }
        self.has_evicted = true;
        if self.main.len() <= self.frames - self.small_frames
            && let Some(victim) = self.evict_from_small()
        {
            return Some(victim);
        }
        self.evict_from_main()
    }

    #[inline(always)]
    fn insert(&mut self, page: PageId) {
        let is_overflow = !self.has_evicted && self.small.len() >= self.small_frames;
        if self.incoming_is_ghost || is_overflow {
            self.main.push_back(page);
        } else {
            self.small.push_back(page);
        }
    }
}
