//! Page faults of a program in a memory group with a limit, on a kernel with transparent huge pages of one size.
//!
//! Follows Linux 6.12 with multi-generational LRU and base pages of 4 KiB (mm/memory.c, mm/memcontrol.c, mm/filemap.c,
//! mm/readahead.c, mm/vmscan.c, and for the lists [`Generations`]):
//! - A huge page is charged to the group without reclaim. If it exceeds the limit, the fault maps one base page.
//! - Other charges reclaim until they fit, at least 32 pages, and 64 at once.
//! - Huge pages leave memory as a whole and come back by base pages. A page that leaves is written first: until it is
//!   written it stays in memory, and a touch maps all that is left of it.
//! - A fault on a page of a file that is not in memory reads 32 pages around it, and maps those in memory of the
//!   aligned 64 KiB. A fault on a marked page reads 32 more.
//!
//! It departs from the kernel in these ways. Pages of files are known by the addresses at which they
//! are mapped, so a file mapped twice is read twice, and pages that only system calls read or write are
//! missing. Pages of zeros are written to swap as others are, although Linux only notes them. All
//! writes to swap end before reclaim raises its priority, or ends. Pages with blocks in the filter
//! count as used. Swap is never full, and a group that cannot be reclaimed exceeds its limit instead
//! of being killed.

mod faulting;
mod reclaim;
#[cfg(test)]
mod tests;

use super::lru_generations::{Generations, Kind};
use super::mappings::{Mappings, Memory};
use crate::Error;
use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use trace::references::{Change, MAPPED_PAGE_BYTES, MappingChange, Reader};
use types::{BLOCK_BYTES, Progress, ReferenceKind, ReferenceStep};

/// Pages of the largest block, 2 MiB.
const CHUNK_PAGES: u64 = 512;
/// Most pages that one system call writes to, 2 GiB.
const FILLED_PAGES_MAX: u64 = 1 << 19;

/// The setting of a limited memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Bytes of a huge page; 4096 for none.
    pub page_bytes: u64,
    /// Pages of 4 KiB that the program may have in memory.
    pub pages: u64,
    /// Pages of 4 KiB by which the program lies at higher addresses than in the trace.
    pub shift_pages: u64,
}

/// Page faults in a limited memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LimitedFaults {
    /// First touches of private memory without a file, and first writes after a read.
    pub anonymous: u64,
    /// Faults in mapped files and shared memory.
    pub file: u64,
    /// Faults on private memory that left memory.
    pub swap: u64,
    /// Huge pages that were mapped.
    pub huge_pages: u64,
    /// Huge pages for which the limit left no room.
    pub fallbacks: u64,
    /// Pages read from files.
    pub file_pages_read: u64,
    /// Pages read from swap.
    pub swap_pages_read: u64,
}

/// Reads the trace to its end and counts the faults in each memory; none for a trace without mappings.
///
/// # Errors
/// An impossible page size, a trace that cannot be read, or a caller that stops.
pub fn limited_faults(
    reader: &mut Reader,
    limits: &[Limit],
    progress: &dyn Progress,
) -> Result<Option<Vec<LimitedFaults>>, Error> {
    let memories = limits.iter().map(|&limit| LimitedMemory::new(limit));
    let mut memories: Vec<LimitedMemory> = memories.collect::<Result<_, _>>()?;
    let (mut steps, mut has_mappings) = (Vec::new(), false);
    while reader.next_steps(&mut steps)? {
        let changes = reader.changes();
        has_mappings |= !changes.is_empty();
        memories.par_iter_mut().for_each(|memory| {
            memory.add_changes(changes);
            memory.push(&steps);
        });
        let (done, total) = reader.progress();
        progress.advance(done, total)?;
    }
    Ok(has_mappings.then(|| memories.iter().map(LimitedMemory::faults).collect()))
}

/// No folio.
const NONE: u32 = u32::MAX;

/// What is at a page of the program.
#[derive(Clone, Copy, Debug)]
struct PageState {
    is_present: bool,
    is_writable: bool,
    is_dirty: bool,
    is_young: bool,
    /// Left memory, or is being written out.
    is_swapped: bool,
    /// Reading on starts at this page of a file.
    is_marked: bool,
    has_left: bool,
    /// Blocks in the filter.
    held: u8,
    /// Private memory.
    folio: u32,
    /// The page cache.
    cached: u32,
    /// The token of [`Generations::evict`], if `has_left`.
    token: u64,
}

const EMPTY: PageState = PageState {
    is_present: false,
    is_writable: false,
    is_dirty: false,
    is_young: false,
    is_swapped: false,
    is_marked: false,
    has_left: false,
    held: 0,
    folio: NONE,
    cached: NONE,
    token: 0,
};

/// Consecutive pages that are in memory as one.
#[derive(Clone, Copy, Debug)]
struct Folio {
    first: u64,
    pages: u64,
    /// Pages that still belong to it; 0 if it was freed.
    left: u64,
    kind: Kind,
    generation: u64,
    /// A page of a file that no address leads to any more.
    is_orphan: bool,
    is_being_written: bool,
    /// Reclaim spares it once, because it came back soon after it had left.
    is_protected: bool,
    /// Swap has its content.
    is_clean: bool,
}

/// A file as it is mapped, and how far it was read ahead.
#[derive(Clone, Copy, Debug)]
struct File {
    end: u64,
    read_from: u64,
    read_pages: u64,
    next_pages: u64,
    /// Programs and libraries have a header that is read before anything else.
    has_header: bool,
}

impl File {
    fn new(end: u64) -> File {
        File { end, read_from: 0, read_pages: 0, next_pages: 0, has_header: false }
    }
}

/// A program in a memory group with a limit.
pub struct LimitedMemory {
    limit: Limit,
    block: u64,
    mappings: Mappings,
    /// By first page.
    files: BTreeMap<u64, File>,
    chunks: Vec<Box<[PageState; CHUNK_PAGES as usize]>>,
    numbers: BTreeMap<u64, usize>,
    last: Option<(u64, usize)>,
    folios: Vec<Folio>,
    generations: Generations,
    /// Folios that reclaim writes to swap.
    written: Vec<u32>,
    used_pages: u64,
    changes: VecDeque<MappingChange>,
    moved: Option<(u64, u64)>,
    steps: u64,
    faults: LimitedFaults,
}

impl LimitedMemory {
    /// No pages yet.
    ///
    /// # Errors
    /// A page size that is not a power of two from 4 KiB to 2 MiB.
    pub fn new(limit: Limit) -> Result<LimitedMemory, Error> {
        let block = limit.page_bytes / MAPPED_PAGE_BYTES;
        if !limit.page_bytes.is_power_of_two() || !(1..=CHUNK_PAGES).contains(&block) {
            return Err(Error::usage(format!(
                "no huge page of {} bytes; there are the powers of two from 4096 to 2097152",
                limit.page_bytes
            )));
        }
        Ok(LimitedMemory {
            limit,
            block,
            mappings: Mappings::default(),
            files: BTreeMap::new(),
            chunks: Vec::new(),
            numbers: BTreeMap::new(),
            last: None,
            folios: Vec::new(),
            generations: Generations::default(),
            written: Vec::new(),
            used_pages: 0,
            changes: VecDeque::new(),
            moved: None,
            steps: 0,
            faults: LimitedFaults::default(),
        })
    }

    /// Adds changes of mappings, which are among the steps to come.
    pub fn add_changes(&mut self, changes: &[MappingChange]) {
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
            if let Some(left) = step.left {
                let page = self.page_of(left.block);
                let is_write_late = {
                    let found = self.page(page);
                    found.held = found.held.saturating_sub(1);
                    found.is_young = true;
                    // A page that was unmapped since has no state.
                    left.is_written && found.is_present && !found.is_writable
                };
                if is_write_late {
                    self.fault(page, true);
                }
            }
            let page = self.page_of(step.block);
            self.touch(page, step.kind == ReferenceKind::Write);
            let found = self.page(page);
            found.held = found.held.saturating_add(1);
        }
    }

    /// The faults up to now.
    pub fn faults(&self) -> LimitedFaults {
        self.faults
    }

    fn page_of(&self, block: u64) -> u64 {
        block / (MAPPED_PAGE_BYTES / BLOCK_BYTES) + self.limit.shift_pages
    }

    fn apply(&mut self, change: MappingChange) {
        let MappingChange { change, first, pages, .. } = change;
        let first = first.saturating_add(self.limit.shift_pages);
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
            Change::Requested => {}
            Change::MovedFrom => self.moved = Some((first, end)),
            Change::MovedTo => {
                if let Some(from) = self.moved.take() {
                    self.relocate(from, first);
                }
            }
        }
    }

    fn map(&mut self, first: u64, end: u64, memory: Memory) {
        if first >= end {
            return;
        }
        let is_new = !self.mappings.has_range(first, end);
        if memory != Memory::Heap || !is_new {
            self.forget(first, end);
        }
        if memory == Memory::File {
            self.add_file(first, end);
        } else {
            self.drop_cached(first, end);
        }
        self.mappings.unmap(first, end);
        self.mappings.insert(first, end, memory);
    }

    /// A file is mapped; a part of one that is mapped again stays part of it.
    fn add_file(&mut self, first: u64, end: u64) {
        let before = self.files.range(..=first).next_back().map(|(&start, &file)| (start, file));
        match before {
            // The loader maps a library as a whole, and then its segments.
            Some((start, file)) if end <= file.end => {
                let has_header = file.has_header || file.read_pages == 0;
                self.files.insert(start, File { has_header, ..file });
            }
            // The kernel maps the segments of a program one by one.
            Some((start, file)) if self.steps == 0 && file.end == first => {
                self.files.insert(start, File { end, ..file });
            }
            _ => {
                self.drop_cached(first, end);
                self.files.insert(first, File { has_header: self.steps == 0, ..File::new(end) });
            }
        }
    }

    fn fill(&mut self, first: u64, end: u64) {
        for (start, stop, _) in self.mappings.ranges_within(first, end) {
            for page in start..stop {
                self.touch(page, true);
            }
        }
    }

    /// The pages of a range are not mapped any more. Those of files stay in memory.
    fn forget(&mut self, first: u64, end: u64) {
        for page in self.known_pages(first, end) {
            let found = self.page(page);
            let folio = found.folio;
            *found = PageState {
                held: found.held,
                cached: found.cached,
                is_marked: found.is_marked,
                ..EMPTY
            };
            self.leave(folio);
        }
    }

    /// The addresses of a range do not lead to pages of a file any more.
    fn drop_cached(&mut self, first: u64, end: u64) {
        for page in self.known_pages(first, end) {
            let found = self.page(page);
            let cached = std::mem::replace(&mut found.cached, NONE);
            found.is_marked = false;
            found.has_left &= found.is_swapped;
            if cached != NONE {
                self.folios[cached as usize].is_orphan = true;
            }
        }
    }

    /// Pages of a range that something is known of.
    fn known_pages(&self, first: u64, end: u64) -> Vec<u64> {
        let chunks = self.numbers.range(first / CHUNK_PAGES..end.div_ceil(CHUNK_PAGES));
        let pages = chunks.flat_map(|(&chunk, _)| {
            let start = chunk * CHUNK_PAGES;
            first.max(start)..end.min(start + CHUNK_PAGES)
        });
        pages.collect()
    }

    /// A page does not belong to a folio any more.
    fn leave(&mut self, number: u32) {
        if number == NONE {
            return;
        }
        self.folios[number as usize].left -= 1;
        let Folio { left, kind, generation, pages, .. } = self.folios[number as usize];
        if left == 0 {
            self.generations.unlist(kind, generation, number);
            self.generations.shrink(kind, generation, pages);
            self.used_pages -= pages;
        }
    }

    fn relocate(&mut self, (first, end): (u64, u64), to: u64) {
        let memory = self.mappings.range_of(first).map_or(Memory::Heap, |(.., memory)| memory);
        let mut moved = Vec::new();
        let pages = self.known_pages(first, end);
        for &page in &pages {
            self.split_unless_within(page, first, end);
        }
        for page in pages {
            let found = *self.page(page);
            *self.page(page) = PageState { held: found.held, ..EMPTY };
            moved.push((page, found));
        }
        self.mappings.unmap(first, end);
        let stop = to.saturating_add(end - first);
        self.forget(to, stop);
        self.drop_cached(to, stop);
        self.map(to, stop, memory);
        let mut numbers = BTreeSet::new();
        for (page, found) in moved {
            let place = page - first + to;
            let held = self.page(place).held;
            *self.page(place) = PageState { held, ..found };
            numbers.extend([found.folio, found.cached].into_iter().filter(|&of| of != NONE));
        }
        for number in numbers {
            let folio = &mut self.folios[number as usize];
            folio.first = folio.first - first + to;
        }
    }

    /// Splits the folio of a page into base pages, unless all of it is within a range.
    fn split_unless_within(&mut self, page: u64, start: u64, end: u64) {
        let number = self.page(page).folio;
        if number == NONE {
            return;
        }
        let Folio { first, pages, generation, is_being_written, is_clean, .. } =
            self.folios[number as usize];
        if start <= first && first + pages <= end {
            return;
        }
        for page in first..first + pages {
            if self.page(page).folio == number {
                let single = self.add_folio_to(generation, page, 1, Kind::Anonymous);
                let folio = &mut self.folios[single as usize];
                folio.is_being_written = is_being_written;
                folio.is_clean = is_clean;
                if is_being_written {
                    self.written.push(single);
                }
                self.page(page).folio = single;
                self.leave(number);
            }
        }
    }

    fn page(&mut self, page: u64) -> &mut PageState {
        let chunk = page / CHUNK_PAGES;
        let number = match self.last {
            Some((last, number)) if last == chunk => number,
            _ => *self.numbers.entry(chunk).or_insert_with(|| {
                self.chunks.push(Box::new([EMPTY; CHUNK_PAGES as usize]));
                self.chunks.len() - 1
            }),
        };
        self.last = Some((chunk, number));
        &mut self.chunks[number][(page % CHUNK_PAGES) as usize]
    }

    fn touch(&mut self, page: u64, is_write: bool) {
        let found = self.page(page);
        if found.is_present && (found.is_writable || !is_write) {
            found.is_young = true;
            found.is_dirty |= is_write;
        } else {
            self.fault(page, is_write);
        }
    }

    fn add_folio(&mut self, first: u64, pages: u64, kind: Kind) -> u32 {
        self.add_folio_to(self.generations.newest(), first, pages, kind)
    }

    fn add_folio_to(&mut self, generation: u64, first: u64, pages: u64, kind: Kind) -> u32 {
        let number = self.folios.len() as u32;
        self.folios.push(Folio {
            first,
            pages,
            left: pages,
            kind,
            generation,
            is_orphan: false,
            is_being_written: false,
            is_protected: false,
            is_clean: false,
        });
        self.generations.add(kind, generation, number, pages);
        self.used_pages += pages;
        number
    }
}
