//! The active and inactive lists of Linux (mm/vmscan.c, `shrink_active_list` and
//! `folio_check_references`) with one access bit per page, as for anonymous memory.
//!
//! Departs from the kernel: the lists are kept at equal length, as the kernel does below 1 GiB; a page
//! moves when reclaim meets it, never in batches; and a refault does not consider the page's past.

use super::{NotedEviction, Notes};
use std::collections::VecDeque;
use types::PageId;

/// Evicts pages that were not used between entering the inactive list and reaching its end.
pub struct TwoList {
    frames: usize,
    active: VecDeque<PageId>,
    inactive: VecDeque<PageId>,
}

/// Note of a page that was used since reclaim last met it.
const ACCESSED: u8 = 1;

impl TwoList {
    pub fn new(frames: u32) -> TwoList {
        let (active, inactive) = (VecDeque::new(), VecDeque::new());
        TwoList { frames: frames as usize, active, inactive }
    }

    /// Moves the oldest active pages to the inactive list, used or not, until that is no shorter.
    #[inline(always)]
    fn deactivate(&mut self, notes: &mut Notes) {
        while self.active.len() > self.inactive.len()
            && let Some(oldest) = self.active.pop_front()
        {
            notes.set(oldest, 0);
            self.inactive.push_back(oldest);
        }
    }
}

impl NotedEviction for TwoList {
    #[inline(always)]
    fn hit(&mut self, page: PageId, mut notes: Notes) -> Option<PageId> {
        notes.set(page, ACCESSED);
        None
    }

    #[inline(always)]
    fn make_room(&mut self, _incoming: PageId, mut notes: Notes) -> Option<PageId> {
        if self.active.len() + self.inactive.len() < self.frames {
            return None;
        }
        loop {
            self.deactivate(&mut notes);
            let oldest = self.inactive.pop_front()?;
            if notes.get(oldest) != ACCESSED {
                return Some(oldest);
            }
            notes.set(oldest, 0);
            self.active.push_back(oldest);
        }
    }

    #[inline(always)]
    fn insert(&mut self, page: PageId, _notes: Notes) {
        self.inactive.push_back(page);
    }
}
