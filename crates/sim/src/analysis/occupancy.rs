//! How many pages are in swap at once. A page is in swap from its page-out until it is read or its
//! process ends; the kernel may keep the copy of a page that was read, and frees it when swap is short.

use types::{Event, EventKind, PageId, ProcessId};

/// Pages in swap. Invariant: `now` is the sum of `Owner::pages`, less the pages that were in swap
/// before the first event and were read since.
#[derive(Default)]
pub(super) struct Occupancy {
    slots: Vec<Slot>,
    owners: Vec<Owner>,
    now: i64,
    most: i64,
    /// Pages that were read before they ever went out.
    before: i64,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    owner: ProcessId,
    place: Place,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum Place {
    #[default]
    Unseen,
    InMemory,
    /// In swap, since this life of its owner (see `Owner::lives`).
    InSwap(u32),
}

#[derive(Clone, Copy, Default)]
struct Owner {
    /// Number of its pages in swap.
    pages: i64,
    /// How often a process with this number ended: numbers are reused.
    lives: u32,
}

impl Occupancy {
    pub(super) fn add(&mut self, event: Event) {
        match event.kind {
            EventKind::SwapOut => self.put_out(event.page, event.process),
            EventKind::SwapIn => self.bring_in(event.page),
            EventKind::Void if self.is_in_swap(event.page) => self.bring_in(event.page),
            EventKind::Exit => {
                let owner = self.owner(event.process);
                let pages = std::mem::take(&mut owner.pages);
                owner.lives += 1;
                self.now -= pages;
            }
            _ => {}
        }
    }

    /// The most pages that were in swap at once.
    pub(super) fn most(&self) -> u64 {
        (self.most + self.before) as u64
    }

    fn put_out(&mut self, page: PageId, process: ProcessId) {
        if self.is_in_swap(page) {
            return;
        }
        let owner = self.owner(process);
        owner.pages += 1;
        let place = Place::InSwap(owner.lives);
        *self.slot(page) = Slot { owner: process, place };
        self.now += 1;
        self.most = self.most.max(self.now);
    }

    fn bring_in(&mut self, page: PageId) {
        if self.is_in_swap(page) {
            let owner = self.slot(page).owner;
            self.owner(owner).pages -= 1;
            self.now -= 1;
        } else if self.slot(page).place == Place::Unseen {
            self.before += 1;
            self.now -= 1;
        }
        self.slot(page).place = Place::InMemory;
    }

    /// Whether the page is in swap, and its process still lives.
    fn is_in_swap(&mut self, page: PageId) -> bool {
        let slot = *self.slot(page);
        slot.place == Place::InSwap(self.owner(slot.owner).lives)
    }

    fn slot(&mut self, page: PageId) -> &mut Slot {
        at(&mut self.slots, page.index())
    }

    fn owner(&mut self, process: ProcessId) -> &mut Owner {
        at(&mut self.owners, process.index())
    }
}

fn at<T: Clone + Default>(items: &mut Vec<T>, index: usize) -> &mut T {
    if index >= items.len() {
        items.resize(index + 1, T::default());
    }
    &mut items[index]
}

#[cfg(test)]
mod tests {
    use super::EventKind::{DeviceRead, Exit, SwapIn, SwapOut};
    use super::*;
    use types::EventFlags;

    /// The most pages in swap after these events of (kind, page, process).
    fn most(events: &[(EventKind, u32, u32)]) -> u64 {
        let mut occupancy = Occupancy::default();
        for &(kind, page, process) in events {
            let flags = EventFlags::default();
            let (page, process) = (PageId(page), ProcessId(process));
            occupancy.add(Event { kind, flags, page, process });
        }
        occupancy.most()
    }

    #[test]
    fn pages_are_in_swap_until_they_are_read() {
        assert_eq!(most(&[]), 0);
        assert_eq!(most(&[(SwapOut, 0, 0), (SwapOut, 0, 0), (SwapOut, 1, 0)]), 2);
        let turns = [(SwapOut, 0, 0), (SwapIn, 0, 0), (SwapIn, 0, 0), (SwapOut, 1, 0)];
        assert_eq!(most(&turns), 1);
        assert_eq!(most(&[(SwapOut, 0, 0), (DeviceRead, 0, 0), (SwapOut, 1, 0)]), 2);
    }

    #[test]
    fn pages_that_are_read_first_were_in_swap_before() {
        assert_eq!(most(&[(SwapIn, 0, 0), (SwapIn, 1, 0)]), 2);
        // Both are in swap beside the page that is written first.
        assert_eq!(most(&[(SwapOut, 2, 0), (SwapIn, 0, 0), (SwapIn, 1, 0)]), 3);
        assert_eq!(most(&[(SwapIn, 0, 0), (SwapOut, 2, 0), (SwapIn, 1, 0)]), 2);
    }

    #[test]
    fn the_end_of_a_process_frees_only_its_pages() {
        let lives = [
            (SwapOut, 0, 0),
            (SwapOut, 1, 0),
            (SwapOut, 2, 1),
            (Exit, 0, 0),
            (SwapOut, 3, 1),
            // A page-out of another process with the same number.
            (SwapOut, 0, 0),
        ];
        assert_eq!(most(&lives), 3);
        assert_eq!(most(&[(SwapOut, 0, 0), (Exit, 0, 0), (SwapIn, 0, 0), (SwapOut, 1, 1)]), 1);
    }
}
