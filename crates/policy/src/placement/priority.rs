//! Two swap areas of different priority, as stock Linux uses them: the fast one until it is full,
//! then the slow one. Nothing is demoted; only the end of a process, or a freed slot, makes room.

use super::{PageIn, PageOut, Placement, SlotOnSwapIn, Tier};
use types::PageId;

/// Fast area first, no migration.
#[derive(Clone, Copy, Debug)]
pub struct Priority {
    slot_on_swapin: SlotOnSwapIn,
}

impl Priority {
    /// Swap areas with this treatment of slots at swap-in.
    pub fn new(slot_on_swapin: SlotOnSwapIn) -> Priority {
        Priority { slot_on_swapin }
    }
}

impl Placement for Priority {
    fn grow(&mut self, _pages: usize) {}

    fn place_out(&mut self, out: PageOut) -> Tier {
        if out.is_resident || (out.must_write && out.has_room) { Tier::Fast } else { Tier::Slow }
    }

    fn place_in(&mut self, read: PageIn) -> Tier {
        match self.slot_on_swapin {
            SlotOnSwapIn::Keep => read.from,
            SlotOnSwapIn::Free => Tier::Slow,
        }
    }

    fn victim(&mut self) -> PageId {
        unreachable!("priority enters free frames only, so nothing needs to leave")
    }

    fn insert(&mut self, _page: PageId) {}

    fn forget(&mut self, _page: PageId) {}
}
