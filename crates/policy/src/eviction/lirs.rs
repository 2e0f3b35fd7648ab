//! LIRS (Jiang and Zhang, SIGMETRICS 2002) as libCacheSim implements it: 1 % of the frames are cold (at
//! least one), the stack holds at most twice the frames, and a cold hit outside the stack demotes a
//! hot page although the hit page stays cold.
//!
//! Departs from libCacheSim with a single cold frame (under 200 frames), where that demotion would
//! evict the page just hit and is omitted, and with a single frame in total, which is hot.

use super::Eviction;
use super::queues::Queues;
use types::PageId;

/// Keeps the pages whose last two requests lie closest together (hot), and a few cold pages on trial.
///
/// Invariant: a hot page is in `STACK` and in neither other queue; a cold one is in `COLD`, a ghost
/// in `STACK` and `GHOSTS`. The oldest page of `STACK` is hot, unless it is the only one.
pub struct Lirs {
    frames: u32,
    hot_frames: u32,
    cold_frames: u32,
    hot: u32,
    queues: Queues<3, 2>,
}

/// All pages whose recency counts, least recent first.
const STACK: usize = 0;
/// Resident pages that are not hot; the first leaves next.
const COLD: usize = 1;
/// Pages that left `COLD` and are still in the stack.
const GHOSTS: usize = 2;

impl Lirs {
    pub fn new(frames: u32) -> Lirs {
        let cold_frames = if frames == 1 { 0 } else { (frames / 100).max(1) };
        Lirs {
            frames,
            hot_frames: frames - cold_frames,
            cold_frames,
            hot: 0,
            queues: Queues::default(),
        }
    }

    /// Drops cold pages and ghosts from the bottom of the stack: a page that is less recent than every
    /// hot page cannot become hot.
    #[inline(always)]
    fn prune(&mut self) {
        while self.queues.len(STACK) > 1
            && let Some(bottom) = self.queues.oldest(STACK)
            && let Some(queue) = self.queues.queue_of(bottom)
        {
            self.queues.pop(STACK);
            if queue == GHOSTS {
                self.queues.remove(bottom);
            }
        }
    }

    /// Evicts the oldest cold page; it stays as a ghost while it is in the stack.
    #[inline(always)]
    fn evict_cold(&mut self) -> Option<PageId> {
        let victim = self.queues.pop(COLD)?;
        if self.queues.is_in_first(victim) {
            self.queues.push(GHOSTS, victim);
        }
        Some(victim)
    }

    /// Makes the least recent hot page cold; returns the page that leaves to make room for it.
    #[inline(always)]
    fn demote(&mut self) -> Option<PageId> {
        self.prune();
        let bottom = self.queues.pop(STACK)?;
        self.hot -= 1;
        let mut victim = Some(bottom);
        if self.cold_frames > 0 {
            victim = if self.is_cold_full() { self.evict_cold() } else { None };
            self.queues.push(COLD, bottom);
        }
        self.prune();
        victim
    }

    #[inline(always)]
    fn is_cold_full(&self) -> bool {
        self.queues.len(COLD) == self.cold_frames
    }

    #[inline(always)]
    fn is_hot_full(&self) -> bool {
        self.hot == self.hot_frames
    }

    /// Forgets the oldest ghosts while the stack is longer than twice the frames.
    #[inline(always)]
    fn limit_stack(&mut self) {
        while u64::from(self.queues.len(STACK)) > 2 * u64::from(self.frames)
            && let Some(ghost) = self.queues.pop(GHOSTS)
        {
            self.queues.remove_from_first(ghost);
        }
    }

    #[inline(always)]
    fn hit_cold(&mut self, page: PageId) -> Option<PageId> {
        if self.queues.is_in_first(page) {
            self.queues.refresh(STACK, page);
            self.queues.remove(page);
            let victim = if self.is_hot_full() { self.demote() } else { None };
            self.hot += 1;
            return victim;
        }
        self.queues.refresh(COLD, page);
        let demotes = self.is_hot_full() && self.cold_frames > 1;
        let victim = if demotes { self.demote() } else { None };
        self.queues.push(STACK, page);
        self.limit_stack();
        victim
    }
}

impl Eviction for Lirs {
    fn grow(&mut self, pages: usize) {
        self.queues.grow(pages);
    }

    #[inline(always)]
    fn read_ahead(&self, pages: &[PageId]) {
        self.queues.read_ahead(pages);
    }

    #[inline(always)]
    fn hit(&mut self, page: PageId) -> Option<PageId> {
        if self.queues.queue_of(page).is_some() {
            return self.hit_cold(page);
        }
        self.queues.refresh(STACK, page);
        self.prune();
        None
    }

    #[inline(always)]
    fn miss(&mut self, page: PageId) -> bool {
        if self.queues.queue_of(page).is_some() {
            self.queues.refresh(STACK, page);
        }
        true
    }

    #[inline(always)]
    fn make_room(&mut self, incoming: PageId) -> Option<PageId> {
        let becomes_hot = self.queues.queue_of(incoming).is_some() || self.cold_frames == 0;
        if !self.is_hot_full() {
            None
        } else if becomes_hot {
            self.demote()
        } else if self.is_cold_full() {
            self.evict_cold()
        } else {
            None
        }
    }

    #[inline(always)]
    fn insert(&mut self, page: PageId) {
        if self.queues.queue_of(page).is_some() {
            self.queues.remove(page);
            self.hot += 1;
        } else {
            self.queues.push(STACK, page);
            if self.is_hot_full() {
                self.queues.push(COLD, page);
            } else {
                self.hot += 1;
            }
        }
        self.limit_stack();
    }
}
