//! Naive models of a phone's memory and of the order of touches in a launch: lists are vectors that are
//! searched, and every count is recomputed.

use types::{Event, EventFlags, EventKind, PageId, ProcessId};

/// Pages per batch of reclaim.
const BATCH: usize = 32;

#[derive(Clone, Copy, Default)]
struct Page {
    is_file: bool,
    is_referenced: bool,
    is_dirty: bool,
    has_slot: bool,
    owner: u32,
}

/// A memory with frames and swap slots. Lists begin with the oldest page.
pub struct NaiveMemory {
    frames: usize,
    slots: usize,
    pages: Vec<Page>,
    inactive: Vec<u32>,
    active: Vec<u32>,
    held: Vec<u32>,
    /// Events so far.
    pub events: Vec<Event>,
}

impl NaiveMemory {
    /// An empty memory; without slots swap is off.
    pub fn new(frames: usize, slots: usize) -> NaiveMemory {
        NaiveMemory {
            frames,
            slots,
            pages: Vec::new(),
            inactive: Vec::new(),
            active: Vec::new(),
            held: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Adds a page.
    pub fn map(&mut self, owner: u32, is_file: bool) {
        self.pages.push(Page { is_file, owner, ..Page::default() });
    }

    /// Number of free frames.
    pub fn free(&self) -> usize {
        self.frames - self.inactive.len() - self.active.len() - self.held.len()
    }

    /// Whether a page is in memory.
    pub fn is_resident(&self, page: u32) -> bool {
        [&self.inactive, &self.active, &self.held].iter().any(|list| list.contains(&page))
    }

    /// The process touches a page. A page that is not in memory gets a free frame.
    pub fn touch(&mut self, page: u32, is_write: bool) {
        let is_resident = self.is_resident(page);
        let state = &mut self.pages[page as usize];
        if is_resident {
            state.is_referenced = true;
            state.is_dirty |= is_write;
            return;
        }
        let (is_file, has_slot) = (state.is_file, state.has_slot);
        state.is_referenced = false;
        state.is_dirty = is_write || (!is_file && !has_slot);
        if is_file {
            self.push_event(EventKind::Request, page, EventFlags::FILE);
        } else if has_slot {
            self.push_event(EventKind::SwapIn, page, EventFlags::default());
        }
        if !is_file && self.slots == 0 {
            self.held.push(page);
        } else {
            self.inactive.push(page);
        }
    }

    /// Scans a batch of pages; returns the numbers of scanned and evicted pages.
    pub fn reclaim(&mut self) -> (u64, u64) {
        let all = self.inactive.len() + self.active.len();
        while self.inactive.len() < all / 3 + BATCH && !self.active.is_empty() {
            let page = self.active.remove(0);
            self.pages[page as usize].is_referenced = false;
            self.inactive.push(page);
        }
        let (mut judged, mut evicted) = (0, 0);
        for _ in 0..BATCH {
            if self.inactive.is_empty() {
                break;
            }
            judged += 1;
            let page = self.inactive.remove(0);
            if std::mem::take(&mut self.pages[page as usize].is_referenced) || !self.evict(page) {
                self.active.push(page);
            } else {
                evicted += 1;
            }
        }
        (judged, evicted)
    }

    fn evict(&mut self, page: u32) -> bool {
        let used = self.pages.iter().filter(|page| page.has_slot).count();
        let state = &mut self.pages[page as usize];
        if state.is_file {
            self.push_event(EventKind::Evict, page, EventFlags::FILE);
            return true;
        }
        if !state.has_slot && used == self.slots {
            return false;
        }
        state.has_slot = true;
        let is_dirty = std::mem::take(&mut state.is_dirty);
        let flags = if is_dirty { EventFlags::DIRTY } else { EventFlags::default() };
        self.push_event(EventKind::SwapOut, page, flags);
        true
    }

    /// Frees a page of a process that ends; returns whether the page was in memory.
    pub fn release(&mut self, page: u32) -> bool {
        let was_resident = self.is_resident(page);
        for list in [&mut self.inactive, &mut self.active, &mut self.held] {
            list.retain(|&other| other != page);
        }
        let owner = self.pages[page as usize].owner;
        self.pages[page as usize] = Page { owner, ..Page::default() };
        was_resident
    }

    fn push_event(&mut self, kind: EventKind, page: u32, flags: EventFlags) {
        let process = ProcessId(self.pages[page as usize].owner);
        self.events.push(Event { kind, flags, page: PageId(page), process });
    }
}

/// Touches of `runs` runs in the order of their numbers, repeated at distances: pairs of the number of other
/// runs touched in between and of the number of touches.
///
/// The touches at a distance are spread evenly over the first touches from the first one on that
/// leaves a run so far behind.
pub fn naive_touch_order(runs: u32, repeats: &[(u32, u64)]) -> Vec<u32> {
    let mut order = Vec::new();
    // The run touched longest ago comes first.
    let mut stack: Vec<u32> = Vec::new();
    let mut made = vec![0; repeats.len()];
    for run in 0..runs {
        order.push(run);
        stack.push(run);
        for (&(distance, count), made) in repeats.iter().zip(&mut made) {
            if run < distance {
                continue;
            }
            let part = f64::from(run + 1 - distance) / f64::from(runs - distance);
            while *made < (count as f64 * part + 1e-9).floor() as u64 {
                let again = stack.remove(stack.len() - 1 - distance as usize);
                order.push(again);
                stack.push(again);
                *made += 1;
            }
        }
    }
    order
}
