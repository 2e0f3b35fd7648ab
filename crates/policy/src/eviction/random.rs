//! Evicts a page drawn at random, with equal chances: the baseline that a policy must beat.

use super::{Build, NotedEviction, Notes, online};
use crate::options::{OptionRow, Values};
use types::PageId;
use types::random::Stream;

pub const OPTIONS: &[OptionRow] = &[OptionRow {
    name: "seed",
    default: "0",
    summary: "which sequence of random numbers is drawn",
}];

pub fn make(values: &Values<'_>) -> Result<Build, String> {
    let seed = values.number("seed", 0..=u64::MAX)?;
    online(move |frames| Random::new(frames, seed))
}

/// Evicts a resident page without regard to its use.
pub struct Random {
    frames: u32,
    pages: Vec<PageId>,
    draws: Stream,
}

impl Random {
    fn new(frames: u32, seed: u64) -> Random {
        Random { frames, pages: Vec::new(), draws: Stream::named(seed, "random") }
    }
}

impl NotedEviction for Random {
    #[inline(always)]
    fn hit(&mut self, _page: PageId, _notes: Notes) -> Option<PageId> {
        None
    }

    #[inline(always)]
    fn make_room(&mut self, _incoming: PageId, _notes: Notes) -> Option<PageId> {
        if self.pages.len() < self.frames as usize {
            return None;
        }
        let drawn = self.draws.below(self.frames);
        Some(self.pages.swap_remove(drawn as usize))
    }

    #[inline(always)]
    fn insert(&mut self, page: PageId, _notes: Notes) {
        self.pages.push(page);
    }
}
