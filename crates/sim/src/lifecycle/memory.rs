//! The phone's memory: frames, two lists, watermarks. Decides which page leaves and what that
//! means for storage; it knows neither time nor apps.
//!
//! As in the Linux kernel (mm/vmscan.c and mm/page_alloc.c of 6.18): reclaim in batches of 32, a
//! clean page with a copy is dropped, and without swap anonymous memory is on no list. It departs in
//! that anonymous and file pages share the lists, which corresponds to swappiness 100.

use crate::page_lists::{BATCH, Judged, ListPage, Listed, Lists, Place};
use types::{Event, EventFlags, EventKind, Events, PageId, ProcessId};

/// Content of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// Memory of a process, which leaves only to the swap area.
    Anonymous,
    /// Part of a file; storage always has it.
    File,
}

#[derive(Clone, Copy, Debug)]
struct Page {
    listed: Listed,
    content: Content,
    is_dirty: bool,
    /// For an anonymous page: whether it has a slot of the swap area; its copy is valid unless the page is dirty.
    has_slot: bool,
    /// Whether the page was in memory since it came into being.
    was_here: bool,
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

/// Free frames at which reclaim begins and ends.
///
/// Invariant: `min <= low <= high`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Watermarks {
    /// At this or below, the allocating task reclaims first.
    pub(super) min: usize,
    /// At this or below, the background reclaimer wakes.
    pub(super) low: usize,
    /// At this or above, it sleeps again.
    pub(super) high: usize,
}

impl Watermarks {
    /// Watermarks of the kernel on a machine of `frames` (calculate_min_free_kbytes and
    /// __setup_per_zone_wmarks of mm/page_alloc.c).
    pub(super) fn of_machine(frames: usize) -> Watermarks {
        let kilobytes = frames as u64 * 4;
        let min_kilobytes = (kilobytes * 16).isqrt().clamp(128, 262_144);
        let min = (min_kilobytes / 4) as usize;
        Watermarks { min, low: min + min / 4, high: min + min / 2 }
    }

    /// Watermarks of a memory cgroup, whose limit has no reserve and no background reclaimer.
    pub(super) const OF_GROUP: Watermarks = Watermarks { min: 0, low: 0, high: 0 };
}

/// Source of a page that enters memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Brought {
    /// First touch; no storage was read.
    New,
    /// Read from the swap area.
    Swap,
    /// Read from its file, for the first time or again after an eviction.
    File { is_refault: bool },
}

/// Results of one batch of reclaim, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reclaimed {
    pub(super) judged: u64,
    pub(super) evicted: u64,
}

/// Anonymous memory of one owner, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Owned {
    /// In memory.
    pub(super) resident: u32,
    /// With a slot of the swap area, in memory or not.
    pub(super) slots: u32,
}

/// Frames, the pages in them, and the slots of the swap area.
///
/// Invariant: `lists.pages() + held <= frames` and `slots_used <= slots`.
#[derive(Debug)]
pub(super) struct Memory {
    frames: usize,
    slots: usize,
    slots_used: usize,
    /// Pages in memory that are on no list.
    held: usize,
    anonymous: usize,
    pages: Vec<Page>,
    lists: Lists,
    /// Whether evictions of file pages, and requests for them, are reported as events.
    records_files: bool,
    /// Memory of each owner, by its number.
    owned: Vec<Owned>,
    /// Reads and writes of storage, by page.
    traffic: Vec<u32>,
    /// Events since this was last emptied.
    pub(super) events: Events,
}

impl Memory {
    /// Empty memory of `frames`, with `slots` of swap area; 0 is swap off.
    pub(super) fn new(frames: usize, slots: usize, records_files: bool) -> Memory {
        Memory {
            frames,
            slots,
            slots_used: 0,
            held: 0,
            anonymous: 0,
            pages: Vec::new(),
            lists: Lists::new(),
            owned: Vec::new(),
            records_files,
            traffic: Vec::new(),
            events: Events::default(),
        }
    }

    /// Adds `count` pages of `owner`, none of them in memory. Returns the first.
    pub(super) fn map(&mut self, owner: u32, count: u32, content: Content) -> u32 {
        let first = self.pages.len() as u32;
        let page = Page {
            listed: Listed::ABSENT,
            content,
            is_dirty: false,
            has_slot: false,
            was_here: false,
            owner,
        };
        self.pages.resize(self.pages.len() + count as usize, page);
        self.traffic.resize(self.pages.len(), 0);
        if self.owned.len() <= owner as usize {
            self.owned.resize(owner as usize + 1, Owned::default());
        }
        first
    }

    /// Number of free frames.
    pub(super) fn free(&self) -> usize {
        self.frames - self.lists.pages() - self.held
    }

    /// Anonymous pages in memory.
    pub(super) fn anonymous(&self) -> usize {
        self.anonymous
    }

    /// File pages in memory.
    pub(super) fn files(&self) -> usize {
        self.frames - self.free() - self.anonymous
    }

    /// Memory of `owner`.
    pub(super) fn owned(&self, owner: u32) -> Owned {
        self.owned[owner as usize]
    }

    /// Slots of the swap area, and how many of them are free.
    pub(super) fn swap(&self) -> (usize, usize) {
        (self.slots, self.slots - self.slots_used)
    }

    pub(super) fn is_resident(&self, page: u32) -> bool {
        self.pages[page as usize].listed.place != Place::Absent
    }

    /// Storage accesses of every page.
    pub(super) fn traffic(&self) -> &[u32] {
        &self.traffic
    }

    /// Reads or writes a page that is in memory.
    pub(super) fn touch(&mut self, page: u32, is_write: bool) {
        let state = &mut self.pages[page as usize];
        state.listed.is_referenced = true;
        state.is_dirty |= is_write;
    }

    /// Puts a page that is not in memory into a free frame; there must be one.
    pub(super) fn bring(&mut self, page: u32, is_write: bool) -> Brought {
        debug_assert!(self.free() > 0, "no frame for page {page}");
        let state = &mut self.pages[page as usize];
        let was_here = std::mem::replace(&mut state.was_here, true);
        let (content, has_slot) = (state.content, state.has_slot);
        // The first touch of anonymous memory fills the page with zeros, which no storage has.
        state.is_dirty = is_write || (content == Content::Anonymous && !has_slot);
        if content == Content::Anonymous {
            self.anonymous += 1;
            self.owned[state.owner as usize].resident += 1;
        }
        if content == Content::Anonymous && self.slots == 0 {
            state.listed.place = Place::Held;
            self.held += 1;
        } else {
            self.lists.insert(&mut self.pages, page);
        }
        match content {
            Content::File => {
                self.record(EventKind::Request, page, EventFlags::FILE);
                Brought::File { is_refault: was_here }
            }
            Content::Anonymous if has_slot => {
                self.record(EventKind::SwapIn, page, EventFlags::default());
                Brought::Swap
            }
            Content::Anonymous => Brought::New,
        }
    }

    /// Judges one batch of the oldest pages and evicts those that were not used.
    pub(super) fn reclaim(&mut self) -> Reclaimed {
        let mut done = Reclaimed::default();
        self.lists.balance(&mut self.pages);
        for _ in 0..BATCH {
            let Some(judged) = self.lists.judge_oldest(&mut self.pages) else { break };
            done.judged += 1;
            if let Judged::Leaves(page) = judged {
                done.evicted += u64::from(self.evict(page));
            }
        }
        done
    }

    /// Pages that reclaim can judge.
    pub(super) fn candidates(&self) -> usize {
        self.lists.pages()
    }

    /// Evicts a page that left the lists; false if it stays because the swap area is full.
    fn evict(&mut self, page: u32) -> bool {
        let state = &mut self.pages[page as usize];
        if state.content == Content::File {
            self.record(EventKind::Evict, page, EventFlags::FILE);
            return true;
        }
        if !state.has_slot && self.slots_used == self.slots {
            self.lists.activate(&mut self.pages, page);
            return false;
        }
        let owned = &mut self.owned[state.owner as usize];
        self.slots_used += usize::from(!state.has_slot);
        owned.slots += u32::from(!state.has_slot);
        state.has_slot = true;
        let is_dirty = std::mem::take(&mut state.is_dirty);
        self.anonymous -= 1;
        owned.resident -= 1;
        let flags = if is_dirty { EventFlags::DIRTY } else { EventFlags::default() };
        self.record(EventKind::SwapOut, page, flags);
        true
    }

    /// Releases an anonymous page at the end of its process. Returns whether a frame became free.
    pub(super) fn release(&mut self, page: u32) -> bool {
        let place = self.pages[page as usize].listed.place;
        self.lists.remove(&mut self.pages, page);
        let state = &mut self.pages[page as usize];
        let owned = &mut self.owned[state.owner as usize];
        self.slots_used -= usize::from(state.has_slot);
        owned.slots -= u32::from(state.has_slot);
        state.listed = Listed::ABSENT;
        (state.is_dirty, state.has_slot, state.was_here) = (false, false, false);
        self.held -= usize::from(place == Place::Held);
        let was_resident = place != Place::Absent;
        self.anonymous -= usize::from(was_resident);
        owned.resident -= u32::from(was_resident);
        was_resident
    }

    /// Reports the end of a process whose pages were all released.
    pub(super) fn record_exit(&mut self, owner: u32) {
        self.events.push(Event {
            kind: EventKind::Exit,
            flags: EventFlags::default(),
            page: PageId(0),
            process: ProcessId(owner),
        });
    }

    fn record(&mut self, kind: EventKind, page: u32, flags: EventFlags) {
        let is_file = flags.contains(EventFlags::FILE);
        let moves_data = match kind {
            EventKind::Evict => false,
            EventKind::SwapOut => flags.contains(EventFlags::DIRTY),
            _ => true,
        };
        self.traffic[page as usize] += u32::from(moves_data);
        if is_file && !self.records_files {
            return;
        }
        let process = ProcessId(self.pages[page as usize].owner);
        self.events.push(Event { kind, flags, page: PageId(page), process });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(slots: usize, content: Content) -> (Memory, u32) {
        let mut memory = Memory::new(256, slots, true);
        let first = memory.map(3, 300, content);
        for page in first..first + 256 {
            memory.bring(page, false);
        }
        (memory, first)
    }

    #[test]
    fn without_swap_anonymous_memory_stays_in_memory() {
        let (mut memory, first) = filled(0, Content::Anonymous);
        assert_eq!(memory.reclaim(), Reclaimed::default());
        assert_eq!(memory.candidates(), 0);
        assert_eq!((memory.free(), memory.anonymous()), (0, 256));
        assert!(memory.release(first));
        assert_eq!((memory.free(), memory.anonymous()), (1, 255));
        assert!(memory.events.is_empty());
    }

    #[test]
    fn a_full_swap_area_blocks_evictions_and_a_release_frees_the_slot() {
        let (mut memory, first) = filled(10, Content::Anonymous);
        let done = memory.reclaim();
        assert_eq!((done.judged, done.evicted), (32, 10));
        assert_eq!(memory.swap(), (10, 0));
        assert!(!memory.is_resident(first) && !memory.release(first));
        assert_eq!(memory.swap(), (10, 1));
    }

    #[test]
    fn a_page_that_comes_back_unwritten_leaves_clean() {
        let (mut memory, first) = filled(1000, Content::Anonymous);
        memory.reclaim();
        assert_eq!(memory.bring(first, false), Brought::Swap);
        while memory.is_resident(first) {
            memory.reclaim();
        }
        let flags: Vec<EventFlags> = memory
            .events
            .iter()
            .filter(|event| event.page == PageId(first) && event.kind == EventKind::SwapOut)
            .map(|event| event.flags)
            .collect();
        assert_eq!(flags, [EventFlags::DIRTY, EventFlags::default()]);
        assert_eq!(memory.traffic()[first as usize], 2, "one write, one read, no second write");
    }

    #[test]
    fn a_file_page_read_again_is_a_refault() {
        let (mut memory, first) = filled(0, Content::File);
        memory.reclaim();
        assert!(!memory.is_resident(first));
        assert_eq!(memory.bring(first, false), Brought::File { is_refault: true });
        assert_eq!(memory.files(), 225);
        assert_eq!(memory.bring(first + 280, false), Brought::File { is_refault: false });
    }

    #[test]
    fn watermarks_are_the_kernels() {
        // min_free_kbytes of a machine of 1 GiB is 4096.
        let marks = Watermarks::of_machine(262_144);
        assert_eq!(marks, Watermarks { min: 1024, low: 1280, high: 1536 });
    }
}
