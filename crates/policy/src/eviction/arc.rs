//! ARC (Megiddo and Modha, FAST 2003). The target is fractional, as in libCacheSim.

use super::Eviction;
use super::queues::Queues;
use types::PageId;

/// Balances an LRU of pages seen once against an LRU of pages seen again: a miss on a page that
/// recently left one of them moves the target towards it.
pub struct Arc {
    frames: u32,
    /// Wanted length of `ONCE`, from 0 to `frames`.
    target: f64,
    queues: Queues<4>,
    incoming: Incoming,
}

/// Resident, seen once (T1 in the paper).
const ONCE: usize = 0;
/// Resident, seen again (T2).
const AGAIN: usize = 1;
/// Left `ONCE` (B1).
const ONCE_GHOSTS: usize = 2;
/// Left `AGAIN` (B2).
const AGAIN_GHOSTS: usize = 3;

/// What the policy knows of the page that was just missed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Incoming {
    Unknown,
    OnceGhost,
    AgainGhost,
}

impl Arc {
    pub fn new(frames: u32) -> Arc {
        Arc { frames, target: 0.0, queues: Queues::default(), incoming: Incoming::Unknown }
    }

    /// Moves the target by at least one page, more if the other ghosts are in the majority.
    #[inline(always)]
    fn adapt(&mut self) {
        let once = f64::from(self.queues.len(ONCE_GHOSTS));
        let again = f64::from(self.queues.len(AGAIN_GHOSTS));
        self.target = match self.incoming {
            Incoming::Unknown => self.target,
            Incoming::OnceGhost => {
                (self.target + (again / once).max(1.0)).min(f64::from(self.frames))
            }
            Incoming::AgainGhost => (self.target - (once / again).max(1.0)).max(0.0),
        };
    }

    #[inline(always)]
    fn replace(&mut self) -> Option<PageId> {
        let length = self.queues.len(ONCE);
        let once = f64::from(length);
        let is_tie = once == self.target && self.incoming == Incoming::AgainGhost;
        let is_over = length > 0 && (once > self.target || is_tie);
        if is_over || self.queues.is_empty(AGAIN) {
            self.queues.shift(ONCE, ONCE_GHOSTS)
        } else {
            self.queues.shift(AGAIN, AGAIN_GHOSTS)
        }
    }

    /// Case IV of the paper: keeps all queues within twice the frames, `ONCE` and its ghosts
    /// within the frames.
    #[inline(always)]
    fn replace_for_unknown(&mut self) -> Option<PageId> {
        let once = self.queues.len(ONCE) + self.queues.len(ONCE_GHOSTS);
        if once >= self.frames {
            if self.queues.pop(ONCE_GHOSTS).is_none() {
                return self.queues.pop(ONCE);
            }
        } else {
            let again = self.queues.len(AGAIN) + self.queues.len(AGAIN_GHOSTS);
            if u64::from(once) + u64::from(again) >= 2 * u64::from(self.frames) {
                self.queues.pop(AGAIN_GHOSTS);
            }
        }
        self.replace()
    }
}

impl Eviction for Arc {
    fn grow(&mut self, pages: usize) {
        self.queues.grow(pages);
    }

    #[inline(always)]
    fn read_ahead(&self, pages: &[PageId]) {
        self.queues.read_ahead(pages);
    }

    #[inline(always)]
    fn hit(&mut self, page: PageId) -> Option<PageId> {
        self.queues.promote(AGAIN, page);
        None
    }

    #[inline(always)]
    fn miss(&mut self, page: PageId) -> bool {
        self.incoming = match self.queues.queue_of(page) {
            Some(ONCE_GHOSTS) => Incoming::OnceGhost,
            Some(AGAIN_GHOSTS) => Incoming::AgainGhost,
            _ => Incoming::Unknown,
        };
        if self.incoming != Incoming::Unknown {
            self.adapt();
            self.queues.remove(page);
        }
        true
    }

    #[inline(always)]
    fn make_room(&mut self, _incoming: PageId) -> Option<PageId> {
        if self.queues.len(ONCE) + self.queues.len(AGAIN) < self.frames {
            None
        } else if self.incoming == Incoming::Unknown {
            self.replace_for_unknown()
        } else {
            self.replace()
        }
    }

    #[inline(always)]
    fn insert(&mut self, page: PageId) {
        self.queues.push(if self.incoming == Incoming::Unknown { ONCE } else { AGAIN }, page);
    }
}
