//! 2Q (Johnson and Shasha, VLDB 1994), with libCacheSim's parameters: the FIFO has a quarter of the
//! frames, and the ghosts number half the frames.

use super::ghosts::{self, Ghosts};
use super::queues::Queues;
use super::{NotedEviction, Notes};
use std::collections::VecDeque;
use types::PageId;

/// Keeps pages seen once in a FIFO, and pages missed again soon after leaving it in an LRU.
pub struct TwoQueue {
    frames: u32,
    recent_frames: u32,
    /// FIFO of pages seen once; a hit in it changes nothing.
    recent: VecDeque<PageId>,
    /// LRU of pages that came back.
    frequent: Queues<1>,
    /// Pages that left `recent`.
    ghosts: Ghosts,
    incoming_is_ghost: bool,
}

/// The only queue of `frequent`.
const ALL: usize = 0;
/// Note of a page in `frequent`; the ghosts use the bits above.
const FREQUENT: u8 = 1;
const _: () = assert!(FREQUENT < 1 << ghosts::BITS_BELOW);

impl TwoQueue {
    pub fn new(frames: u32) -> TwoQueue {
        TwoQueue {
            frames,
            recent_frames: frames / 4,
            recent: VecDeque::new(),
            frequent: Queues::default(),
            ghosts: Ghosts::new(frames / 2),
            incoming_is_ghost: false,
        }
    }

    #[inline(always)]
    fn evict_recent(&mut self, notes: &mut Notes) -> Option<PageId> {
        let oldest = self.recent.pop_front()?;
        self.ghosts.push(oldest, notes);
        Some(oldest)
    }

    #[inline(always)]
    fn evict_frequent(&mut self, notes: &mut Notes) -> Option<PageId> {
        let oldest = self.frequent.pop(ALL)?;
        notes.set(oldest, notes.get(oldest) & !FREQUENT);
        Some(oldest)
    }
}

impl NotedEviction for TwoQueue {
    fn grow(&mut self, pages: usize) {
        self.frequent.grow(pages);
    }

    #[inline(always)]
    fn hit(&mut self, page: PageId, notes: Notes) -> Option<PageId> {
        if notes.get(page) & FREQUENT != 0 {
            self.frequent.refresh(ALL, page);
        }
        None
    }

    #[inline(always)]
    fn miss(&mut self, page: PageId, mut notes: Notes) -> bool {
        self.incoming_is_ghost = self.ghosts.take(page, &mut notes);
        true
    }

    #[inline(always)]
    fn make_room(&mut self, _incoming: PageId, mut notes: Notes) -> Option<PageId> {
        let (recent, frequent) = (self.recent.len() as u32, self.frequent.len(ALL));
        if recent + frequent == self.frames {
            if frequent == 0 || recent > self.recent_frames {
                return self.evict_recent(&mut notes);
            }
            return self.evict_frequent(&mut notes);
        }
        let is_over = self.incoming_is_ghost && frequent == self.frames - self.recent_frames;
        if is_over { self.evict_frequent(&mut notes) } else { None }
    }

    #[inline(always)]
    fn insert(&mut self, page: PageId, mut notes: Notes) {
        if self.incoming_is_ghost {
            notes.set(page, notes.get(page) | FREQUENT);
            self.frequent.push(ALL, page);
        } else {
            self.recent.push_back(page);
        }
    }
}
