//! One slow device: nothing ever enters the fast tier.

use super::{PageIn, PageOut, Placement, Tier};
use types::PageId;

/// The placement of a system without a fast tier.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flash;

impl Placement for Flash {
    fn grow(&mut self, _pages: usize) {}

    fn place_out(&mut self, _out: PageOut) -> Tier {
        Tier::Slow
    }

    fn place_in(&mut self, _read: PageIn) -> Tier {
        Tier::Slow
    }

    fn victim(&mut self) -> PageId {
        unreachable!("flash places nothing in the fast tier, so nothing needs to leave it")
    }

    fn insert(&mut self, _page: PageId) {}

    fn forget(&mut self, _page: PageId) {}
}
