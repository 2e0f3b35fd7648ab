//! S3-FIFO (Yang et al., SOSP 2023), with libCacheSim's parameters: the small queue has 10 % of the
//! frames (at least one), the ghosts 90 %, two hits move a small page to the main queue. Until the first
//! eviction, pages that overflow the small queue go to the main queue.

use super::ghosts::{self, Ghosts};
use super::{NotedEviction, Notes};
use std::collections::VecDeque;
use types::PageId;

/// Puts new pages on probation in a small queue; pages used twice there, or missed again soon after
/// leaving it, live in a main queue with up to three more chances.
pub struct S3Fifo {
    frames: usize,
    small_frames: usize,
    small: VecDeque<PageId>,
    main: VecDeque<PageId>,
    ghosts: Ghosts,
    has_evicted: bool,
    incoming_is_ghost: bool,
}

/// The lowest bits of a note count hits since the page entered its queue, up to `HITS_MAX`; the
/// others are those of the ghosts.
const HITS_MAX: u8 = (1 << ghosts::BITS_BELOW) - 1;
const HITS_TO_MAIN: u8 = 2;

impl S3Fifo {
    pub fn new(frames: u32) -> S3Fifo {
        S3Fifo {
            frames: frames as usize,
            small_frames: (frames as usize / 10).max(1),
            small: VecDeque::new(),
            main: VecDeque::new(),
            ghosts: Ghosts::new((u64::from(frames) * 9 / 10) as u32),
            has_evicted: false,
            incoming_is_ghost: false,
        }
    }

    /// Evicts the first page of the main queue without hits; the others go to its back with one hit less.
    #[inline(always)]
    fn evict_from_main(&mut self, notes: &mut Notes) -> Option<PageId> {
        loop {
            let oldest = self.main.pop_front()?;
            let note = notes.get(oldest);
            if note & HITS_MAX == 0 {
                return Some(oldest);
            }
            notes.set(oldest, note - 1);
            self.main.push_back(oldest);
        }
    }

    /// Evicts the first small page that was not used twice, and makes it a ghost; returns none if all
    /// move to the main queue.
    #[inline(always)]
    fn evict_from_small(&mut self, notes: &mut Notes) -> Option<PageId> {
        loop {
            let oldest = self.small.pop_front()?;
            let note = notes.get(oldest);
            notes.set(oldest, note & !HITS_MAX);
            if note & HITS_MAX < HITS_TO_MAIN {
                self.ghosts.push(oldest, notes);
                return Some(oldest);
            }
            self.main.push_back(oldest);
        }
    }
}

impl NotedEviction for S3Fifo {
    #[inline(always)]
    fn hit(&mut self, page: PageId, mut notes: Notes) -> Option<PageId> {
        let note = notes.get(page);
        notes.set(page, note + u8::from(note & HITS_MAX != HITS_MAX));
        None
    }

    #[inline(always)]
    fn miss(&mut self, page: PageId, mut notes: Notes) -> bool {
        self.incoming_is_ghost = self.ghosts.take(page, &mut notes);
        true
    }

    #[inline(always)]
    fn make_room(&mut self, _incoming: PageId, mut notes: Notes) -> Option<PageId> {
        if self.small.len() + self.main.len() < self.frames {
            return None;
        }
        self.has_evicted = true;
        if self.main.len() <= self.frames - self.small_frames
            && let Some(victim) = self.evict_from_small(&mut notes)
        {
            return Some(victim);
        }
        self.evict_from_main(&mut notes)
    }

    #[inline(always)]
    fn insert(&mut self, page: PageId, _notes: Notes) {
        let is_overflow = !self.has_evicted && self.small.len() >= self.small_frames;
        if self.incoming_is_ghost || is_overflow {
            self.main.push_back(page);
        } else {
            self.small.push_back(page);
        }
    }
}
