//! The address space of one process, page by page.

use std::collections::{HashMap, VecDeque};

use super::ranges::Ranges;

/// State of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Page {
    /// No frame: the next touch faults.
    Absent,
    /// A frame of zeros.
    Zero,
    /// A frame that was written.
    Dirty,
    /// A frame that was written and that the kernel may now take.
    Lazy,
}

const LIVE: u8 = 4;
const PAGES: [Page; 4] = [Page::Absent, Page::Zero, Page::Dirty, Page::Lazy];

/// Frames in use by all processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Frames {
    pub resident: u64,
    /// The frames of blocks that the program has.
    pub live: u64,
}

/// First page of the heap, which grows separately; mappings are below.
pub(super) const HEAP: u32 = 1 << 31;

/// A page that the kernel may take from this time on.
#[derive(Clone, Copy, Debug)]
struct BecameLazy {
    since: u64,
    page: u32,
    number: u64,
}

/// Invariant: resident = pages whose state is not `Absent`.
#[derive(Debug, Default)]
pub(super) struct Space {
    mapped: Vec<u8>,
    heap: Vec<u8>,
    /// Unmapped address space, for the next mapping.
    unmapped: Ranges,
    /// Pages in the order in which they became lazy; some have changed state since.
    lazy: VecDeque<BecameLazy>,
    /// For each page, the running number of the time it last became lazy.
    lazy_number: HashMap<u32, u64>,
    lazy_count: u64,
    resident: u64,
}

impl Space {
    pub fn resident(&self) -> u64 {
        self.resident
    }

    pub fn page(&self, page: u32) -> Page {
        PAGES[usize::from(self.state(page) & !LIVE)]
    }

    fn state(&self, page: u32) -> u8 {
        let states = if page >= HEAP { &self.heap } else { &self.mapped };
        states.get((page % HEAP) as usize).copied().unwrap_or(0)
    }

    fn state_mut(&mut self, page: u32) -> &mut u8 {
        let states = if page >= HEAP { &mut self.heap } else { &mut self.mapped };
        let index = (page % HEAP) as usize;
        if index >= states.len() {
            states.resize(index + 1, 0);
        }
        &mut states[index]
    }

    pub fn set(&mut self, page: u32, to: Page, now: u64, frames: &mut Frames) {
        let state = self.state_mut(page);
        let (is_live, was) = (*state & LIVE != 0, *state & !LIVE != 0);
        *state = to as u8 | *state & LIVE;
        let is = to != Page::Absent;
        self.resident = self.resident + u64::from(is) - u64::from(was);
        frames.resident = frames.resident + u64::from(is) - u64::from(was);
        if is_live {
            frames.live = frames.live + u64::from(is) - u64::from(was);
        }
        if to == Page::Lazy {
            self.lazy_count += 1;
            let number = self.lazy_count;
            self.lazy.push_back(BecameLazy { since: now, page, number });
            self.lazy_number.insert(page, number);
        }
    }

    /// Sets whether a range belongs to a block that the program has.
    pub fn set_live(&mut self, first: u32, pages: u32, is_live: bool, frames: &mut Frames) {
        for page in first..first + pages {
            let state = self.state_mut(page);
            let (was_live, is_resident) = (*state & LIVE != 0, *state & !LIVE != 0);
            *state = *state & !LIVE | if is_live { LIVE } else { 0 };
            if is_resident {
                frames.live = frames.live + u64::from(is_live) - u64::from(was_live);
            }
        }
    }

    /// Address space for a mapping.
    pub fn place(&mut self, pages: u32) -> u32 {
        self.unmapped.take_best(pages).unwrap_or_else(|| self.reserve(pages))
    }

    /// Address space that was never used.
    pub fn reserve(&mut self, pages: u32) -> u32 {
        let first = self.mapped.len();
        self.mapped.resize(first + pages as usize, 0);
        first as u32
    }

    /// Gives address space back.
    pub fn forget(&mut self, first: u32, pages: u32) {
        self.unmapped.insert(first, pages);
    }

    /// When the longest lazy page became lazy.
    pub fn lazy_since(&mut self) -> Option<u64> {
        while let Some(&BecameLazy { since, page, number }) = self.lazy.front() {
            if self.page(page) == Page::Lazy && self.lazy_number.get(&page) == Some(&number) {
                return Some(since);
            }
            self.lazy.pop_front();
        }
        None
    }

    /// Takes the frame of the longest lazy page; false if there is none.
    pub fn take_lazy(&mut self, frames: &mut Frames) -> bool {
        let is_there = self.lazy_since().is_some();
        if is_there && let Some(BecameLazy { since, page, .. }) = self.lazy.pop_front() {
            self.set(page, Page::Absent, since, frames);
        }
        is_there
    }

    /// Takes every frame, when the process ends.
    pub fn clear(&mut self, frames: &mut Frames) {
        let live = self.mapped.iter().chain(&self.heap);
        let live = live.filter(|&&state| state > LIVE).count() as u64;
        frames.live -= live;
        frames.resident -= self.resident;
        *self = Space::default();
    }
}
