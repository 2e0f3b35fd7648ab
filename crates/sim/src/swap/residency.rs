//! The valid copies of each page, and the process that owns it.

use types::{HugeVec, PageId, ProcessId, prefetch};

const NONE: u32 = u32::MAX;

/// State of one page, as a set of bits.
///
/// Invariant: `FAST` exactly if the page has a frame in the fast tier; such a frame always holds a
/// valid copy. A page with neither `FAST` nor `SLOW` exists only in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct PageState(u8);

impl PageState {
    /// An event named the page since it came into being.
    pub const KNOWN: PageState = PageState(1);
    /// The fast tier holds a valid copy.
    pub const FAST: PageState = PageState(2);
    /// The slow tier holds a valid copy.
    pub const SLOW: PageState = PageState(4);
    /// The page was read into memory and has not left it since, as far as the trace shows.
    pub const IN_MEMORY: PageState = PageState(8);

    /// Whether every bit of `other` is set.
    #[inline(always)]
    pub fn has(self, other: PageState) -> bool {
        self.0 & other.0 == other.0
    }

    /// With the bits of `other` set.
    #[inline(always)]
    #[must_use]
    pub fn with(self, other: PageState) -> PageState {
        PageState(self.0 | other.0)
    }

    /// With the bits of `other` clear.
    #[inline(always)]
    #[must_use]
    pub fn without(self, other: PageState) -> PageState {
        PageState(self.0 & !other.0)
    }

    /// Whether any tier holds a valid copy.
    #[inline(always)]
    pub fn has_copy(self) -> bool {
        self.0 & (Self::FAST.0 | Self::SLOW.0) != 0
    }
}

/// The driver's map of pages.
#[derive(Clone, Debug, Default)]
pub struct Residency {
    state: HugeVec<PageState>,
    owner: HugeVec<ProcessId>,
    /// Anonymous pages of one process form a list, so that its end visits its own pages only.
    next_of_owner: HugeVec<u32>,
    first_of_owner: Vec<u32>,
}

impl Residency {
    /// Makes room for pages below `pages` and processes below `processes`.
    pub fn grow(&mut self, pages: usize, processes: usize) {
        self.state.grow(pages, PageState::default());
        self.owner.grow(pages, ProcessId(0));
        self.next_of_owner.grow(pages, NONE);
        if self.first_of_owner.len() < processes {
            self.first_of_owner.resize(processes, NONE);
        }
    }

    /// Prefetches the state of a page that is used soon; any number is allowed.
    #[inline(always)]
    pub fn prefetch(&self, page: PageId) {
        prefetch(&self.state, page.index());
    }

    /// Prefetches the owner of a page that is used soon; any number is allowed.
    #[inline(always)]
    pub fn prefetch_owner(&self, page: PageId) {
        prefetch(&self.owner, page.index());
    }

    /// The state of `page`.
    #[inline(always)]
    pub fn state(&self, page: PageId) -> PageState {
        self.state[page.index()]
    }

    /// Sets the state of `page`.
    #[inline(always)]
    pub fn set_state(&mut self, page: PageId, state: PageState) {
        self.state[page.index()] = state;
    }

    /// The process that owns `page`, or the first that requested it if none owns it.
    #[inline(always)]
    pub fn owner(&self, page: PageId) -> ProcessId {
        self.owner[page.index()]
    }

    /// The state of every page, and its owner as in `owner`.
    pub fn iter(&self) -> impl Iterator<Item = (PageState, ProcessId)> + '_ {
        self.state.iter().copied().zip(self.owner.iter().copied())
    }

    /// Makes `process` the owner of `page`; an anonymous page ends with its process.
    pub fn adopt(&mut self, page: PageId, process: ProcessId, is_anonymous: bool) {
        self.owner[page.index()] = process;
        if is_anonymous {
            self.next_of_owner[page.index()] = self.first_of_owner[process.index()];
            self.first_of_owner[process.index()] = page.0;
        }
    }

    /// Removes one of the anonymous pages of `process` from its list; it is unknown from then on.
    /// Returns its former state.
    pub fn orphan_one(&mut self, process: ProcessId) -> Option<(PageId, PageState)> {
        let first = self.first_of_owner[process.index()];
        if first == NONE {
            return None;
        }
        self.first_of_owner[process.index()] = self.next_of_owner[first as usize];
        let state = std::mem::take(&mut self.state[first as usize]);
        Some((PageId(first), state))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_process_visits_its_anonymous_pages_once() {
        let mut residency = Residency::default();
        residency.grow(4, 2);
        residency.adopt(PageId(0), ProcessId(0), true);
        residency.adopt(PageId(1), ProcessId(1), true);
        residency.adopt(PageId(2), ProcessId(0), true);
        residency.adopt(PageId(3), ProcessId(0), false);
        residency.set_state(PageId(2), PageState::KNOWN.with(PageState::FAST));
        let (page, state) = residency.orphan_one(ProcessId(0)).unwrap();
        assert_eq!(page, PageId(2));
        assert!(state.has(PageState::FAST) && !state.has(PageState::SLOW) && state.has_copy());
        assert_eq!(residency.state(PageId(2)), PageState::default());
        assert_eq!(residency.orphan_one(ProcessId(0)).unwrap().0, PageId(0));
        assert!(residency.orphan_one(ProcessId(0)).is_none());
        assert!(residency.orphan_one(ProcessId(1)).is_some());
    }
}
