//! The process that owns each page.

use types::{HugeVec, PageId, ProcessId, prefetch};

const NONE: u32 = u32::MAX;

/// The driver's map from pages to processes.
#[derive(Clone, Debug, Default)]
pub struct Owners {
    owner: HugeVec<ProcessId>,
    /// Anonymous pages of one process form a list, so that its end visits its own pages only.
    next_of_owner: HugeVec<u32>,
    first_of_owner: Vec<u32>,
}

impl Owners {
    /// Makes room for pages below `pages` and processes below `processes`.
    pub fn grow(&mut self, pages: usize, processes: usize) {
        self.owner.grow(pages, ProcessId(0));
        self.next_of_owner.grow(pages, NONE);
        if self.first_of_owner.len() < processes {
            self.first_of_owner.resize(processes, NONE);
        }
    }

    /// Prefetches the owner of a page that is used soon; any number is allowed.
    #[inline(always)]
    pub fn prefetch(&self, page: PageId) {
        prefetch(&self.owner, page.index());
    }

    /// The process that owns `page`, or the first that requested it if none owns it.
    #[inline(always)]
    pub fn of(&self, page: PageId) -> ProcessId {
        self.owner[page.index()]
    }

    /// The owner of every page, as in `of`.
    pub fn all(&self) -> &[ProcessId] {
        &self.owner
    }

    /// Makes `process` the owner of `page`; an anonymous page ends with its process.
    pub fn adopt(&mut self, page: PageId, process: ProcessId, is_anonymous: bool) {
        self.owner[page.index()] = process;
        if is_anonymous {
            self.next_of_owner[page.index()] = self.first_of_owner[process.index()];
            self.first_of_owner[process.index()] = page.0;
        }
    }

    /// Removes one of the anonymous pages of `process` from its list.
    pub fn take_page(&mut self, process: ProcessId) -> Option<PageId> {
        let first = self.first_of_owner[process.index()];
        if first == NONE {
            return None;
        }
        self.first_of_owner[process.index()] = self.next_of_owner[first as usize];
        Some(PageId(first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_process_visits_its_anonymous_pages_once() {
        let mut owners = Owners::default();
        owners.grow(4, 2);
        owners.adopt(PageId(0), ProcessId(0), true);
        owners.adopt(PageId(1), ProcessId(1), true);
        owners.adopt(PageId(2), ProcessId(0), true);
        owners.adopt(PageId(3), ProcessId(0), false);
        assert_eq!(owners.take_page(ProcessId(0)), Some(PageId(2)));
        assert_eq!(owners.take_page(ProcessId(0)), Some(PageId(0)));
        assert_eq!(owners.take_page(ProcessId(0)), None);
        assert_eq!(owners.take_page(ProcessId(1)), Some(PageId(1)));
        assert_eq!(owners.of(PageId(3)), ProcessId(0));
    }
}
