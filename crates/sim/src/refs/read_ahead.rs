//! LRU memories that read a whole window of pages on a fault.
//!
//! A window is a number of pages, aligned, as swap readahead of Linux reads them (mm/swap_state.c). Pages
//! brought along have not been used: they enter the LRU list below the pages of the `FILTER_BLOCKS`
//! blocks used last, which makes counts exact, and near the end at which Linux puts them.

use super::level;
use crate::Error;
use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::VecDeque;
use trace::renumber::Renumber;
use types::{FILTER_BLOCKS, ReferenceStep};

/// A memory that reads ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadAhead {
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Frames of the memory, at least [`FILTER_BLOCKS`].
    pub frames: u32,
    /// Pages of a window, a power of two up to [`WINDOW_MAX`].
    pub window: u32,
}

/// Most pages of a window: 4 MiB of pages of 4 KiB, more than any kernel reads at once.
pub const WINDOW_MAX: u32 = 1024;

/// What an LRU memory did that reads a whole window of pages on a fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "ReadAheadFaults")]
pub struct ReadAheadCounts {
    /// Page faults; each reads storage once.
    pub faults: u64,
    /// Faults on pages that were never used before.
    pub cold: u64,
    /// Pages that a fault on another page brought in.
    pub brought: u64,
    /// Of the pages brought in, those evicted before any use.
    pub unused: u64,
}

impl ReadAheadCounts {
    /// The counts without those of `before`.
    pub(super) fn since(self, before: ReadAheadCounts) -> ReadAheadCounts {
        ReadAheadCounts {
            faults: self.faults - before.faults,
            cold: self.cold - before.cold,
            brought: self.brought - before.brought,
            unused: self.unused - before.unused,
        }
    }
}

/// Several memories that read ahead.
pub struct ReadAheads(Vec<Memory>);

impl ReadAheads {
    /// Empty memories.
    ///
    /// # Errors
    /// An unknown page size, too few frames, or an invalid window.
    pub fn new(questions: &[ReadAhead]) -> Result<ReadAheads, Error> {
        Ok(ReadAheads(questions.iter().copied().map(Memory::new).collect::<Result<_, _>>()?))
    }

    /// Counts the next steps.
    pub fn push(&mut self, steps: &[ReferenceStep]) {
        self.0.par_iter_mut().for_each(|memory| memory.push(steps));
    }

    /// Counts of each memory, with its question.
    pub fn counts(&self) -> impl Iterator<Item = (ReadAhead, ReadAheadCounts)> {
        self.0.iter().map(|memory| (memory.question, memory.counts))
    }
}

/// One memory. Pages in the filter are resident and not in `below`. Any other resident page is in
/// `below` once with its current `turn`, and possibly with former ones.
struct Memory {
    question: ReadAhead,
    level: u32,
    windows: Renumber,
    pages: Vec<Page>,
    resident: u32,
    /// Pages from the next victim to the last used, with the turn at which they entered.
    below: VecDeque<(u32, u64)>,
    turn: u64,
    counts: ReadAheadCounts,
    /// Scratch for the numbers of windows.
    keys: Vec<u64>,
    found: Vec<u32>,
}

#[derive(Clone, Copy, Default)]
struct Page {
    /// Number of its blocks in the filter.
    held: u16,
    is_resident: bool,
    is_used: bool,
    /// Whether the page was brought along, and not used since.
    is_brought: bool,
    turn: u64,
}

impl Memory {
    fn new(question: ReadAhead) -> Result<Memory, Error> {
        let ReadAhead { frames, window, .. } = question;
        if (frames as usize) < FILTER_BLOCKS {
            let why = format!("read-ahead needs at least {FILTER_BLOCKS} frames, not {frames}");
            return Err(Error::usage(why));
        }
        if !window.is_power_of_two() || window > WINDOW_MAX {
            let why = format!("a window has 1, 2, 4, ... {WINDOW_MAX} pages, not {window}");
            return Err(Error::usage(why));
        }
        Ok(Memory {
            question,
            level: level(question.page_bytes)? as u32,
            windows: Renumber::unlimited(),
            pages: Vec::new(),
            resident: 0,
            below: VecDeque::new(),
            turn: 0,
            counts: ReadAheadCounts::default(),
            keys: Vec::new(),
            found: Vec::new(),
        })
    }

    fn push(&mut self, steps: &[ReferenceStep]) {
        let left = |step: &ReferenceStep| step.left.map_or(step.block, |left| left.block);
        let blocks = steps.iter().flat_map(|step| [step.block, left(step)]);
        let window = self.question.window;
        self.keys.clear();
        self.keys.extend(blocks.map(|block| (block >> self.level) / u64::from(window)));
        let mut found = std::mem::take(&mut self.found);
        found.clear();
        self.windows.number_batch(&self.keys, &mut found).expect("memory ends before 2^31 pages");
        self.pages.resize(self.windows.len() * window as usize, Page::default());

        for (step, windows) in steps.iter().zip(found.chunks_exact(2)) {
            let is_fault = self.enter(self.page(windows[0], step.block));
            if step.left.is_some() {
                self.leave(self.page(windows[1], left(step)));
            }
            if is_fault {
                self.bring(windows[0]);
            }
            self.evict();
        }
        self.found = found;
        self.squeeze();
    }

    /// Number of the page of `block`, which is in this window.
    fn page(&self, window: u32, block: u64) -> u32 {
        let place = (block >> self.level) % u64::from(self.question.window);
        window * self.question.window + place as u32
    }

    /// Handles a block of the page that enters the filter; returns whether that is a page fault.
    fn enter(&mut self, number: u32) -> bool {
        let page = &mut self.pages[number as usize];
        page.held += 1;
        if page.is_resident {
            page.is_brought = false;
            page.is_used = true;
            return false;
        }
        self.counts.faults += 1;
        self.counts.cold += u64::from(!page.is_used);
        page.is_used = true;
        page.is_resident = true;
        self.resident += 1;
        true
    }

    /// Handles a block of the page that leaves the filter.
    fn leave(&mut self, number: u32) {
        let page = &mut self.pages[number as usize];
        page.held -= 1;
        if page.held == 0 {
            self.append(number);
        }
    }

    /// Brings in the other pages of the window.
    fn bring(&mut self, window: u32) {
        for number in window * self.question.window..(window + 1) * self.question.window {
            let page = &mut self.pages[number as usize];
            if !page.is_resident {
                page.is_resident = true;
                page.is_brought = true;
                self.resident += 1;
                self.counts.brought += 1;
                self.append(number);
            }
        }
    }

    fn append(&mut self, number: u32) {
        self.turn += 1;
        self.pages[number as usize].turn = self.turn;
        self.below.push_back((number, self.turn));
    }

    fn evict(&mut self) {
        while self.resident > self.question.frames
            && let Some((number, turn)) = self.below.pop_front()
        {
            let page = &mut self.pages[number as usize];
            if page.is_below(turn) {
                page.is_resident = false;
                self.resident -= 1;
                self.counts.unused += u64::from(std::mem::take(&mut page.is_brought));
            }
        }
    }

    /// Removes entries with former turns when they are most of the list.
    fn squeeze(&mut self) {
        if self.below.len() > 2 * self.resident as usize + FILTER_BLOCKS {
            self.below.retain(|&(number, turn)| self.pages[number as usize].is_below(turn));
        }
    }
}

impl Page {
    /// Whether the page is in the list since this turn.
    fn is_below(&self, turn: u64) -> bool {
        self.is_resident && self.held == 0 && self.turn == turn
    }
}
