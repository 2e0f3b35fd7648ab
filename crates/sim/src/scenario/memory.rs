//! A small model of the memory in front of the swap: two CLOCK lists, as in the Linux kernel
//! (active and inactive, one reference bit per page, watermarks, reclaim in batches of 32;
//! mm/vmscan.c of 6.18, without its generations and without its split by process).
//!
//! It departs from the kernel in that anonymous and file pages share the lists, which corresponds to
//! swappiness 100, and in that only the faulting task reclaims.

use crate::page_lists::{BATCH, Judged, ListPage, Listed, Lists, NONE, Place};
use types::{Event, EventFlags, EventKind, PageId, ProcessId};

/// State of one page in the model.
#[derive(Clone, Copy)]
struct Page {
    listed: Listed,
    is_file: bool,
    is_dirty: bool,
    /// Whether the swap area or the file holds its current content once it is clean.
    has_copy: bool,
    owner: u32,
}

impl ListPage for Page {
    fn listed(&self) -> &Listed {
        &self.listed
    }

    fn listed_mut(&mut self) -> &mut Listed {
        &mut self.listed
    }
}

/// Memory of a fixed number of frames; `events` records what leaves and enters it.
///
/// Invariant: `lists.pages() <= frames` after every touch.
pub(super) struct Memory {
    frames: usize,
    low: usize,
    high: usize,
    pages: Vec<Page>,
    lists: Lists,
    keeps_file_events: bool,
    /// Dense number of each page that has had an event.
    numbers: Vec<u32>,
    numbered: u32,
    /// The events so far, in order.
    pub(super) events: Vec<Event>,
}

impl Memory {
    /// Empty memory of `frames` pages.
    pub(super) fn new(frames: usize, keeps_file_events: bool) -> Memory {
        let low = (frames / 128).max(BATCH);
        Memory {
            frames,
            low,
            high: low + low / 2,
            pages: Vec::new(),
            lists: Lists::new(),
            keeps_file_events,
            numbers: Vec::new(),
            numbered: 0,
            events: Vec::new(),
        }
    }

    /// Adds `count` pages of `owner` and returns the number of the first. A file page
    /// starts with a copy on storage, an anonymous page without one.
    pub(super) fn map(&mut self, owner: u32, count: u32, is_file: bool) -> u32 {
        let first = self.pages.len() as u32;
        let page =
            Page { listed: Listed::ABSENT, is_file, is_dirty: false, has_copy: is_file, owner };
        self.pages.resize(self.pages.len() + count as usize, page);
        self.numbers.resize(self.pages.len(), NONE);
        first
    }

    /// Reads or writes `page`.
    pub(super) fn touch(&mut self, page: u32, is_write: bool) {
        let state = &mut self.pages[page as usize];
        state.is_dirty |= is_write;
        if state.listed.place != Place::Absent {
            state.listed.is_referenced = true;
            return;
        }
        if state.has_copy {
            let kind = if state.is_file { EventKind::Request } else { EventKind::SwapIn };
            self.emit(kind, page, EventFlags::default());
        } else {
            // The first touch of an anonymous page fills it with zeros: no storage, but dirty.
            state.is_dirty = true;
        }
        if self.frames - self.lists.pages() <= self.low {
            self.reclaim();
        }
        self.lists.insert(&mut self.pages, page);
    }

    /// Frees batches until the high watermark is reached.
    fn reclaim(&mut self) {
        while self.frames - self.lists.pages() < self.high {
            self.lists.balance(&mut self.pages);
            for _ in 0..BATCH {
                match self.lists.judge_oldest(&mut self.pages) {
                    None => break,
                    Some(Judged::Stays) => {}
                    Some(Judged::Leaves(page)) => self.evict(page),
                }
            }
        }
    }

    fn evict(&mut self, page: u32) {
        let state = &mut self.pages[page as usize];
        let is_dirty = state.is_dirty;
        state.is_dirty = false;
        state.has_copy = true;
        let kind = if state.is_file { EventKind::Evict } else { EventKind::SwapOut };
        let flags = if is_dirty { EventFlags::DIRTY } else { EventFlags::default() };
        self.emit(kind, page, flags);
    }

    fn emit(&mut self, kind: EventKind, page: u32, flags: EventFlags) {
        let state = self.pages[page as usize];
        if state.is_file && !self.keeps_file_events {
            return;
        }
        let flags = if state.is_file { flags.with(EventFlags::FILE) } else { flags };
        let number = &mut self.numbers[page as usize];
        if *number == NONE {
            *number = self.numbered;
            self.numbered += 1;
        }
        let (page, process) = (PageId(*number), ProcessId(state.owner));
        self.events.push(Event { kind, flags, page, process });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(memory: &Memory) -> Vec<EventKind> {
        memory.events.iter().map(|event| event.kind).collect()
    }

    #[test]
    fn nothing_leaves_while_there_is_room() {
        let mut memory = Memory::new(1000, true);
        let first = memory.map(0, 900, false);
        (first..first + 900).for_each(|page| memory.touch(page, true));
        assert!(memory.events.is_empty());
    }

    #[test]
    fn pages_leave_oldest_first_and_come_back_clean() {
        let mut memory = Memory::new(256, true);
        let first = memory.map(3, 300, false);
        (first..first + 300).for_each(|page| memory.touch(page, false));
        assert!(kinds(&memory).iter().all(|&kind| kind == EventKind::SwapOut));
        assert_eq!(memory.events[0].page, PageId(0));
        assert!(memory.events[0].flags.contains(EventFlags::DIRTY));
        assert_eq!(memory.events[0].process, ProcessId(3));

        // Page 0 comes back, is not written, and leaves again: clean.
        memory.events.clear();
        memory.touch(first, false);
        (first..first + 300).skip(60).for_each(|page| memory.touch(page, false));
        let of_page_0: Vec<_> =
            memory.events.iter().filter(|event| event.page == PageId(0)).collect();
        assert_eq!(of_page_0[0].kind, EventKind::SwapIn);
        assert_eq!(of_page_0[1].kind, EventKind::SwapOut);
        assert!(!of_page_0[1].flags.contains(EventFlags::DIRTY));
    }

    #[test]
    fn a_page_in_steady_use_stays() {
        let mut memory = Memory::new(256, true);
        let first = memory.map(0, 2000, false);
        for page in first + 1..first + 2000 {
            memory.touch(first, false);
            memory.touch(page, false);
        }
        assert!(memory.events.iter().all(|event| event.page.0 != u32::MAX));
        let left = memory.numbers[first as usize];
        assert_eq!(left, NONE, "the page in use was swapped out");
    }

    #[test]
    fn file_pages_are_requested_and_dropped_or_left_out() {
        for keeps in [true, false] {
            let mut memory = Memory::new(256, keeps);
            let first = memory.map(0, 300, true);
            (first..first + 300).for_each(|page| memory.touch(page, false));
            let requests =
                kinds(&memory).iter().filter(|&&kind| kind == EventKind::Request).count();
            assert_eq!(requests, if keeps { 300 } else { 0 });
            assert_eq!(memory.events.is_empty(), !keeps);
        }
    }
}
