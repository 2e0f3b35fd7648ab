//! W-TinyLFU (Einziger, Friedman and Manes, ACM TOS 13(4), 2017): new pages live in an LRU window;
//! a page that leaves it enters the main memory only if it was requested more often than the page
//! that would leave there. The main memory is a segmented LRU of which 80 % is protected.
//!
//! Departs from the paper: there is no doorkeeper, a Bloom filter ahead of the sketch.

use super::queues::Queues;
use super::sketch::Sketch;
use super::{Build, Eviction, online};
use crate::options::{OptionRow, Values};
use types::PageId;

pub const OPTIONS: &[OptionRow] = &[
    OptionRow {
        name: "window",
        default: "1",
        summary: "the window in per cent of the frames, from 0 to 100; at least one frame",
    },
    OptionRow {
        name: "sample",
        default: "10",
        summary: "requests for each frame, from 1 to 1000, after which all counts are halved",
    },
];

pub fn make(values: &Values<'_>) -> Result<Build, String> {
    let window = values.number("window", 0..=100)?;
    let sample = values.number("sample", 1..=1000)?;
    online(move |frames| TinyLfu::new(frames, window, sample))
}

/// Admits a page to the main memory if it was requested more often than the page it would replace.
///
/// Invariant: `WINDOW` has at most `window_frames` pages, `PROTECTED` at most `protected_frames`;
/// when memory is full, `WINDOW` is full.
pub struct TinyLfu {
    frames: u32,
    window_frames: u32,
    protected_frames: u32,
    pages: Queues<3>,
    sketch: Sketch,
}

const WINDOW: usize = 0;
const PROBATION: usize = 1;
const PROTECTED: usize = 2;
const PROTECTED_PERCENT: u64 = 80;

impl TinyLfu {
    fn new(frames: u32, window_percent: u64, sample: u64) -> TinyLfu {
        let share = |frames: u32, percent: u64| (u64::from(frames) * percent / 100) as u32;
        let window_frames = share(frames, window_percent).max(1);
        TinyLfu {
            frames,
            window_frames,
            protected_frames: share(frames - window_frames, PROTECTED_PERCENT),
            pages: Queues::default(),
            sketch: Sketch::new(frames, u64::from(frames) * sample),
        }
    }

    fn resident(&self) -> u32 {
        [WINDOW, PROBATION, PROTECTED].map(|queue| self.pages.len(queue)).iter().sum()
    }

    /// The page of the main memory that leaves next, if any.
    fn main_victim(&mut self) -> Option<PageId> {
        self.pages.oldest(PROBATION).or_else(|| self.pages.oldest(PROTECTED))
    }
}

impl Eviction for TinyLfu {
    fn grow(&mut self, pages: usize) {
        self.pages.grow(pages);
    }

    #[inline(always)]
    fn read_ahead(&self, pages: &[PageId]) {
        self.pages.read_ahead(pages);
    }

    fn hit(&mut self, page: PageId) -> Option<PageId> {
        self.sketch.add(page);
        if self.pages.queue_of(page) == Some(WINDOW) {
            self.pages.refresh(WINDOW, page);
            return None;
        }
        self.pages.promote(PROTECTED, page);
        if self.pages.len(PROTECTED) > self.protected_frames {
            self.pages.shift(PROTECTED, PROBATION);
        }
        None
    }

    fn miss(&mut self, page: PageId) -> bool {
        self.sketch.add(page);
        true
    }

    fn make_room(&mut self, _incoming: PageId) -> Option<PageId> {
        if self.resident() < self.frames {
            return None;
        }
        let candidate = self.pages.oldest(WINDOW)?;
        let Some(victim) = self.main_victim() else { return self.pages.pop(WINDOW) };
        if self.sketch.estimate(candidate) <= self.sketch.estimate(victim) {
            return self.pages.pop(WINDOW);
        }
        self.pages.remove(victim);
        self.pages.shift(WINDOW, PROBATION);
        Some(victim)
    }

    fn insert(&mut self, page: PageId) {
        self.pages.push(WINDOW, page);
        if self.pages.len(WINDOW) > self.window_frames {
            self.pages.shift(WINDOW, PROBATION);
        }
    }
}
