//! 2Q (Johnson and Shasha, VLDB 1994), with libCacheSim's parameters: the FIFO has a quarter of the
//! frames, half as many ghosts as frames.

use super::Eviction;
use super::queues::Queues;
use types::PageId;

/// Keeps pages seen once in a FIFO, and in an LRU those missed again soon after leaving it.
pub struct TwoQueue {
    frames: u32,
    recent_frames: u32,
    ghosts_max: u32,
    queues: Queues<3>,
    incoming_is_ghost: bool,
}

/// FIFO of pages seen once; a hit in it changes nothing.
const RECENT: usize = 0;
/// LRU of pages that came back.
const FREQUENT: usize = 1;
/// Pages that left `RECENT`.
const GHOSTS: usize = 2;

impl TwoQueue {
    pub fn new(frames: u32) -> TwoQueue {
        TwoQueue {
            frames,
            recent_frames: frames / 4,
            ghosts_max: frames / 2,
            queues: Queues::default(),
            incoming_is_ghost: false,
        }
    }

    #[inline(always)]
    fn evict_recent(&mut self) -> Option<PageId> {
        if self.ghosts_max == 0 {
            return self.queues.pop(RECENT);
        }
        if self.queues.len(GHOSTS) == self.ghosts_max {
            self.queues.pop(GHOSTS);
        }
        self.queues.shift(RECENT, GHOSTS)
    }
}

impl Eviction for TwoQueue {
    fn grow(&mut self, pages: usize) {
        self.queues.grow(pages);
    }

    #[inline(always)]
    fn read_ahead(&self, pages: &[PageId]) {
        self.queues.read_ahead(pages);
    }

    #[inline(always)]
    fn hit(&mut self, page: PageId) -> Option<PageId> {
        if self.queues.queue_of(page) == Some(FREQUENT) {
            self.queues.refresh(FREQUENT, page);
        }
        None
    }

    #[inline(always)]
    fn miss(&mut self, page: PageId) -> bool {
        self.incoming_is_ghost = self.queues.queue_of(page).is_some();
        if self.incoming_is_ghost {
            self.queues.remove(page);
        }
        true
    }

    #[inline(always)]
    fn make_room(&mut self, _incoming: PageId) -> Option<PageId> {
        let (recent, frequent) = (self.queues.len(RECENT), self.queues.len(FREQUENT));
        if recent + frequent == self.frames {
            if frequent == 0 || recent > self.recent_frames {
                return self.evict_recent();
            }
            return self.queues.pop(FREQUENT);
        }
        let is_over = self.incoming_is_ghost && frequent == self.frames - self.recent_frames;
        if is_over { self.queues.pop(FREQUENT) } else { None }
    }

    #[inline(always)]
    fn insert(&mut self, page: PageId) {
        self.queues.push(if self.incoming_is_ghost { FREQUENT } else { RECENT }, page);
    }
}
