//! A bounded FIFO of ghosts that can be left from the middle, with four bits per page.
//!
//! A page that stops being a ghost leaves a stale entry behind. Entries of a page come to the front in
//! the order in which they were made, so a count of the stale entries suffices: the first valid entry
//! follows that number of stale ones.

use super::Notes;
use std::collections::VecDeque;
use types::PageId;

/// Pages evicted recently, from oldest to newest, at most `most` of them.
///
/// Invariant: `length` pages have the bit `GHOST`. A page's note counts its stale entries; a ghost has
/// one valid entry besides.
pub(super) struct Ghosts {
    most: u32,
    length: u32,
    entries: VecDeque<PageId>,
}

/// The lowest bits of a note, which the ghosts leave to the policy.
pub(super) const BITS_BELOW: u32 = 2;
const GHOST: u8 = 1 << BITS_BELOW;
const LEFT_ONE: u8 = GHOST << 1;
const LEFT_MOST: u8 = 7 * LEFT_ONE;
/// Entries per ghost above which stale entries are removed.
const ENTRIES_PER_GHOST: usize = 4;

impl Ghosts {
    pub(super) fn new(most: u32) -> Ghosts {
        Ghosts { most, length: 0, entries: VecDeque::new() }
    }

    /// Makes `page`, which is not a ghost, the newest; forgets the oldest if there are too many.
    #[inline(always)]
    pub(super) fn push(&mut self, page: PageId, notes: &mut Notes) {
        if self.most == 0 {
            return;
        }
        if self.length == self.most {
            self.forget_oldest(notes);
        }
        if self.entries.len() == self.most as usize * ENTRIES_PER_GHOST {
            self.drop_left_behind(notes);
        }
        self.length += 1;
        self.entries.push_back(page);
        notes.set(page, notes.get(page) | GHOST);
    }

    /// Removes `page` from the ghosts, and returns whether it was one.
    #[inline(always)]
    pub(super) fn take(&mut self, page: PageId, notes: &mut Notes) -> bool {
        let note = notes.get(page);
        if note & GHOST == 0 {
            return false;
        }
        self.length -= 1;
        notes.set(page, (note & !GHOST) + LEFT_ONE);
        if note & LEFT_MOST == LEFT_MOST - LEFT_ONE {
            self.drop_left_behind(notes);
        }
        true
    }

    #[inline(always)]
    fn forget_oldest(&mut self, notes: &mut Notes) {
        while let Some(page) = self.entries.pop_front() {
            let note = notes.get(page);
            if note < LEFT_ONE {
                self.length -= 1;
                return notes.set(page, note & !GHOST);
            }
            notes.set(page, note - LEFT_ONE);
        }
    }

    #[cold]
    #[inline(never)]
    fn drop_left_behind(&mut self, notes: &mut Notes) {
        self.entries.retain(|&page| {
            let note = notes.get(page);
            let is_left_behind = note >= LEFT_ONE;
            if is_left_behind {
                notes.set(page, note - LEFT_ONE);
            }
            !is_left_behind
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eviction::Residency;
    use proptest::prelude::*;

    /// The oracle of `Ghosts`: a search through a list.
    fn naive(ghosts: &mut Vec<u32>, page: u32, most: usize) -> bool {
        if let Some(place) = ghosts.iter().position(|&ghost| ghost == page) {
            ghosts.remove(place);
            return true;
        }
        ghosts.push(page);
        if ghosts.len() > most {
            ghosts.remove(0);
        }
        false
    }

    proptest! {
        #[test]
        fn equals_a_searched_list(
            pages in prop::collection::vec(prop_oneof![0..3u32, 0..12u32, 0..60u32], 0..2000),
            most in 0..40u32,
        ) {
            let mut memory = Residency::new(1);
            memory.grow(60);
            let (mut ghosts, mut list) = (Ghosts::new(most), Vec::new());
            for page in pages {
                let mut notes = memory.notes();
                let was_ghost = ghosts.take(PageId(page), &mut notes);
                if !was_ghost {
                    ghosts.push(PageId(page), &mut notes);
                }
                prop_assert_eq!(was_ghost, naive(&mut list, page, most as usize));
                prop_assert_eq!(ghosts.length as usize, list.len());
                prop_assert!(ghosts.entries.len() <= most as usize * ENTRIES_PER_GHOST);
                prop_assert_eq!(memory.notes().get(PageId(page)) & ((1 << BITS_BELOW) - 1), 0);
            }
        }
    }
}
