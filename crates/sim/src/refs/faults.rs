//! Minor faults of a program with ample memory, at several sizes of transparent huge pages.
//!
//! The kernel decides at the first touch of a page what it maps (mm/memory.c, mm/huge_memory.c of Linux 6.18):
//! - A write to private memory without a file maps a block of the size, if no page of the block is
//!   mapped yet and the block lies in memory for which huge pages were requested; else one page.
//! - A read of it maps the page of zeros, and a later write takes a second fault, which maps one
//!   page. Only huge pages of 2 MiB have zeros of their own size.
//! - A read of a file maps the cached pages of the aligned 64 KiB around it. A write copies one page.
//!
//! With [`Enabled::Madvise`], memory gets huge pages if the program requests them (MADV_HUGEPAGE).
//! Until its first request, the count is that of a program whose `malloc` would request them: its
//! blocks need no mapped neighbours, because glibc then extends the heap by 2 MiB. With
//! [`Enabled::Always`], all private memory without a file gets them, if the block lies in one mapping
//! as it is at the fault.
//!
//! It departs from the kernel in two ways. A write that the filter hides is known
//! only when its block leaves the filter. And a block that is unmapped and mapped again while the
//! filter holds it shows no second first touch.

use super::mappings::{Mappings, Memory};
use crate::Error;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use trace::references::{Change, MAPPED_PAGE_BYTES, MappingChange};
use types::{BLOCK_BYTES, ReferenceKind, ReferenceStep};

/// Pages of the largest block, 2 MiB.
const CHUNK_PAGES: u64 = 512;

/// Pages that the kernel maps around a read of a file (`fault_around_bytes`).
const AROUND_PAGES: u64 = 16;

/// Most pages that one system call writes to, 2 GiB.
const FILLED_PAGES_MAX: u64 = 1 << 19;

/// Bits of the state of a page for one size.
const STATE_BITS: u32 = 2;

/// Sizes whose states fit into a word.
const SIZES_MAX: usize = (u32::BITS / STATE_BITS) as usize;

/// The memory that gets huge pages: settings of `/sys/kernel/mm/transparent_hugepage/hugepages-*kB/enabled`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Enabled {
    /// What the program requests; until its first request, what its `malloc` could.
    #[default]
    Madvise,
    /// All private memory without a file.
    Always,
}

/// Minor faults at one size, by what the memory is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MinorFaults {
    /// Bytes of a huge page; 4096 for none.
    pub page_bytes: u64,
    /// Faults in memory for which `malloc` can request huge pages.
    pub heap: u64,
    /// Faults in other private memory without a file.
    pub anonymous: u64,
    /// Faults in mapped files and shared memory.
    pub file: u64,
}

/// What is mapped at a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Nothing = 0,
    /// The page of zeros, or a page of a file, which a write replaces.
    Clean = 1,
    Written = 2,
}

/// Counts minor faults while steps and changes of mappings arrive.
pub struct Faults {
    enabled: Enabled,
    counts: Vec<MinorFaults>,
    /// Pages of a block, by size.
    block_pages: Vec<u64>,
    mappings: Mappings,
    /// States of the pages of each chunk, with those of each size in `STATE_BITS`.
    chunks: Vec<[u32; CHUNK_PAGES as usize]>,
    numbers: BTreeMap<u64, usize>,
    /// The chunk found last: address and number.
    last: Option<(u64, usize)>,
    changes: VecDeque<MappingChange>,
    /// The range that the next change moves.
    moved: Option<(u64, u64)>,
    steps: u64,
    has_changes: bool,
    has_requests: bool,
    /// Words in which every size is clean, and written.
    all_clean: u32,
    all_written: u32,
}

impl Faults {
    /// No pages yet. Sizes are bytes of a page.
    ///
    /// # Errors
    /// A size that is not a power of two from 4 KiB to 2 MiB.
    pub fn new(page_bytes: &[u64], enabled: Enabled) -> Result<Faults, Error> {
        let is_possible = |&size: &u64| {
            let pages = size / MAPPED_PAGE_BYTES;
            size.is_power_of_two() && (1..=CHUNK_PAGES).contains(&pages)
        };
        if let Some(size) = page_bytes.iter().find(|size| !is_possible(size)) {
            return Err(Error::usage(format!(
                "no huge page of {size} bytes; there are the powers of two from 4096 to 2097152"
            )));
        }
        if page_bytes.len() > SIZES_MAX {
            return Err(Error::usage(format!("at most {SIZES_MAX} sizes of huge pages")));
        }
        let count = |&page_bytes| MinorFaults { page_bytes, ..MinorFaults::default() };
        let all_clean = (0..page_bytes.len()).map(|size| 1 << (size as u32 * STATE_BITS)).sum();
        Ok(Faults {
            enabled,
            counts: page_bytes.iter().map(count).collect(),
            block_pages: page_bytes.iter().map(|size| size / MAPPED_PAGE_BYTES).collect(),
            mappings: Mappings::default(),
            chunks: Vec::new(),
            numbers: BTreeMap::new(),
            last: None,
            changes: VecDeque::new(),
            moved: None,
            steps: 0,
            has_changes: false,
            has_requests: false,
            all_clean,
            all_written: all_clean << 1,
        })
    }

    /// Adds changes of mappings, which are among the steps to come.
    pub fn add_changes(&mut self, changes: &[MappingChange]) {
        self.has_changes |= !changes.is_empty();
        self.changes.extend(changes);
    }

    /// Counts the next steps.
    pub fn push(&mut self, steps: &[ReferenceStep]) {
        for step in steps {
            while self.changes.front().is_some_and(|change| change.steps <= self.steps) {
                if let Some(change) = self.changes.pop_front() {
                    self.apply(change);
                }
            }
            self.steps += 1;
            if let Some(left) = step.left
                && left.is_written
            {
                self.write_late(page_of(left.block));
            }
            self.touch(page_of(step.block), step.kind == ReferenceKind::Write);
        }
    }

    /// Faults by size, in the order asked for; none for a trace without mappings.
    pub fn counts(&self) -> Option<Vec<MinorFaults>> {
        self.has_changes.then(|| self.counts.clone())
    }

    fn apply(&mut self, change: MappingChange) {
        let MappingChange { change, first, pages, .. } = change;
        let end = first.saturating_add(pages);
        match change {
            Change::Heap => self.map(first, end, Memory::Heap),
            Change::Anonymous => self.map(first, end, Memory::Anonymous),
            Change::File => self.map(first, end, Memory::File),
            Change::Removed => {
                self.mappings.unmap(first, end);
                self.forget(first, end);
            }
            Change::Discarded => self.forget(first, end),
            Change::Filled => self.fill(first, end.min(first.saturating_add(FILLED_PAGES_MAX))),
            Change::Requested => self.request(first, end),
            Change::MovedFrom => self.moved = Some((first, end)),
            Change::MovedTo => {
                if let Some(from) = self.moved.take() {
                    self.relocate(from, first);
                }
            }
        }
    }

    /// Maps a range. The heap may grow into a block that is mapped already.
    fn map(&mut self, first: u64, end: u64, memory: Memory) {
        let is_new = !self.mappings.has_range(first, end);
        if memory != Memory::Heap || !is_new {
            self.forget(first, end);
        }
        self.mappings.unmap(first, end);
        if first < end {
            self.mappings.insert(first, end, memory);
        }
    }

    /// Huge pages are requested for the private memory of a range.
    fn request(&mut self, first: u64, end: u64) {
        self.has_requests = true;
        for (start, stop, memory) in self.mappings.ranges_within(first, end) {
            if memory != Memory::File && start < stop {
                self.mappings.unmap(start, stop);
                self.mappings.insert(start, stop, Memory::Requested);
            }
        }
    }

    /// The kernel wrote to the mapped pages of a range, which in a damaged trace may be very long.
    fn fill(&mut self, first: u64, end: u64) {
        for (start, stop, _) in self.mappings.ranges_within(first, end) {
            for page in start..stop {
                self.touch(page, true);
            }
        }
    }

    /// Whether a block of this memory can be huge.
    fn is_possible(&self, first: u64, end: u64, memory: Memory) -> bool {
        match (self.enabled, memory) {
            (Enabled::Always, _) => self.mappings.is_covered(first, end, memory),
            (Enabled::Madvise, Memory::Anonymous | Memory::File) => false,
            (Enabled::Madvise, _) if self.has_requests => {
                self.mappings.is_covered(first, end, Memory::Requested)
            }
            (Enabled::Madvise, _) => self.mappings.is_heap(first, end),
        }
    }

    /// The pages of a range are not mapped any more.
    fn forget(&mut self, first: u64, end: u64) {
        let numbers = self.numbers.range(first / CHUNK_PAGES..end.div_ceil(CHUNK_PAGES));
        for (&chunk, &number) in numbers {
            let start = chunk * CHUNK_PAGES;
            let (first, end) = (first.max(start) - start, end.min(start + CHUNK_PAGES) - start);
            self.chunks[number][first as usize..end as usize].fill(0);
        }
    }

    /// Moves the pages of a range, which becomes unmapped, to another place. They stay what they are.
    fn relocate(&mut self, (first, end): (u64, u64), to: u64) {
        let memory = self.mappings.range_of(first).map_or(Memory::Heap, |(.., memory)| memory);
        let pages = self.numbers.range(first / CHUNK_PAGES..end.div_ceil(CHUNK_PAGES));
        let pages: Vec<(u64, u32)> = pages
            .flat_map(|(&chunk, &number)| {
                let words = self.chunks[number].iter().enumerate();
                words.map(move |(at, &word)| (chunk * CHUNK_PAGES + at as u64, word))
            })
            .filter(|&(page, word)| word != 0 && (first..end).contains(&page))
            .collect();
        self.mappings.unmap(first, end);
        self.forget(first, end);
        let stop = to.saturating_add(end - first);
        self.forget(to, stop);
        self.map(to, stop, memory);
        for (page, word) in pages {
            *self.word(page - first + to) = word;
        }
    }

    /// The states of a page.
    fn word(&mut self, page: u64) -> &mut u32 {
        let chunk = page / CHUNK_PAGES;
        let number = match self.last {
            Some((last, number)) if last == chunk => number,
            _ => *self.numbers.entry(chunk).or_insert_with(|| {
                self.chunks.push([0; CHUNK_PAGES as usize]);
                self.chunks.len() - 1
            }),
        };
        self.last = Some((chunk, number));
        &mut self.chunks[number][(page % CHUNK_PAGES) as usize]
    }

    /// A block of the page left the filter, in which it was written.
    fn write_late(&mut self, page: u64) {
        let range = self.mappings.range_of(page);
        for size in 0..self.counts.len() {
            // A page that was unmapped since has no state.
            if self.state(page, size) == State::Clean {
                self.fault(page, size, true, range);
            }
        }
    }

    fn touch(&mut self, page: u64, is_write: bool) {
        let word = *self.word(page);
        let is_settled = if is_write {
            word & self.all_written == self.all_written
        } else {
            (word | word >> 1) & self.all_clean == self.all_clean
        };
        if is_settled {
            return;
        }
        let range = self.mappings.range_of(page);
        for size in 0..self.counts.len() {
            match (self.state(page, size), is_write) {
                (State::Nothing, _) | (State::Clean, true) => {
                    self.fault(page, size, is_write, range)
                }
                _ => {}
            }
        }
    }

    fn fault(&mut self, page: u64, size: usize, is_write: bool, range: Option<(u64, u64, Memory)>) {
        let block = self.block_pages[size];
        let first = page / block * block;
        match range {
            Some((start, end, Memory::File)) => {
                self.counts[size].file += 1;
                let around = page / AROUND_PAGES * AROUND_PAGES;
                if !is_write {
                    for near in around.max(start)..(around + AROUND_PAGES).min(end) {
                        if self.state(near, size) == State::Nothing {
                            self.set(near, size, State::Clean);
                        }
                    }
                }
            }
            Some((.., memory)) => {
                let counts = &mut self.counts[size];
                match memory {
                    Memory::Anonymous => counts.anonymous += 1,
                    _ => counts.heap += 1,
                }
                let before = self.state(page, size);
                let is_huge = is_write && before == State::Nothing || block == CHUNK_PAGES;
                if is_huge
                    && (first..first + block).all(|page| self.state(page, size) == before)
                    && self.is_possible(first, first + block, memory)
                {
                    let state = if is_write { State::Written } else { State::Clean };
                    (first..first + block).for_each(|page| self.set(page, size, state));
                }
            }
            None => self.counts[size].anonymous += 1,
        }
        self.set(page, size, if is_write { State::Written } else { State::Clean });
    }

    fn state(&mut self, page: u64, size: usize) -> State {
        match *self.word(page) >> (size as u32 * STATE_BITS) & 3 {
            0 => State::Nothing,
            1 => State::Clean,
            _ => State::Written,
        }
    }

    fn set(&mut self, page: u64, size: usize, state: State) {
        let shift = size as u32 * STATE_BITS;
        let word = self.word(page);
        *word = *word & !(3 << shift) | (state as u32) << shift;
    }
}

/// The page that holds a block of the filter.
fn page_of(block: u64) -> u64 {
    block / (MAPPED_PAGE_BYTES / BLOCK_BYTES)
}
