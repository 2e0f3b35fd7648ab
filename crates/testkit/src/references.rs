//! Memory references: random programs, and naive models of the filter and of LRU memories as lists.

use crate::generate::SplitMix;
use std::collections::HashSet;
use types::{BLOCK_BYTES, FILTER_BLOCKS, LeftBlock, ReferenceKind, ReferenceStep};

/// A memory reference of a program.
#[derive(Clone, Copy, Debug)]
pub struct Reference {
    /// Kind of the reference.
    pub kind: ReferenceKind,
    /// Address of the first byte.
    pub address: u64,
    /// Number of bytes, at least one.
    pub bytes: u64,
}

impl Reference {
    /// The touched pages of `page_bytes`, in order.
    pub fn pages(self, page_bytes: u64) -> impl Iterator<Item = u64> {
        self.address / page_bytes..=(self.address + self.bytes - 1) / page_bytes
    }
}

/// A random program: code in loops, a stack, scattered records read and written, and scans, in distant
/// areas of memory. Some references cross blocks, pages, or the largest page.
pub fn program(seed: u64, length: usize) -> Vec<Reference> {
    let mut random = SplitMix(seed);
    // Used bytes of each area, so that programs are small or large.
    let span = 1 << (13 + random.below(12));
    let (mut code, mut scanned) = (0, 0);
    (0..length)
        .map(|_| match random.below(20) {
            0..8 => {
                code = if random.below(30) == 0 { random.below(span / 4) } else { code + 5 };
                Reference { kind: ReferenceKind::Instruction, address: 0x40_0000 + code, bytes: 5 }
            }
            8..12 => {
                let depth = random.below(64) * random.below(64);
                let kind = if depth.is_multiple_of(3) {
                    ReferenceKind::Write
                } else {
                    ReferenceKind::Read
                };
                Reference { kind, address: 0x7fff_ffff_f000 - depth * 8, bytes: 8 }
            }
            12..15 => {
                scanned += 24;
                let address = 0x7000_0000_0000 + scanned % (span * 4);
                Reference { kind: ReferenceKind::Read, address, bytes: 32 }
            }
            choice => {
                let record = random.below(span) * random.below(span) / span;
                let stretch = random.below(3) << 33;
                let address = 0x5555_0000_0000 + stretch + record * 40;
                let kind = if choice < 18 { ReferenceKind::Read } else { ReferenceKind::Write };
                Reference { kind, address, bytes: 1 << random.below(10) }
            }
        })
        .collect()
}

/// The steps of a filter of [`FILTER_BLOCKS`].
pub fn filtered(references: &[Reference]) -> Vec<ReferenceStep> {
    filtered_by(FILTER_BLOCKS, references)
}

/// The steps of a filter of `blocks`, with a list of blocks, the most recently used first.
pub fn filtered_by(blocks: usize, references: &[Reference]) -> Vec<ReferenceStep> {
    let mut held: Vec<LeftBlock> = Vec::new();
    let mut steps = Vec::new();
    let mut since = 0;
    for reference in references {
        since += 1;
        for block in reference.pages(BLOCK_BYTES) {
            let place = held.iter().position(|other| other.block == block);
            let mut used = LeftBlock { block, is_written: false };
            if let Some(place) = place {
                used = held.remove(place);
            } else {
                let left = if held.len() == blocks { held.pop() } else { None };
                steps.push(ReferenceStep { references: since, kind: reference.kind, block, left });
                since = 0;
            }
            used.is_written |= reference.kind == ReferenceKind::Write;
            held.insert(0, used);
        }
    }
    steps
}

/// An LRU memory as a list, the most recently used page first.
pub struct Memory {
    frames: usize,
    page_bytes: u64,
    /// Pages, and whether each is dirty.
    pages: Vec<(u64, bool)>,
    /// Misses by kind of reference, including cold misses.
    pub misses: [u64; ReferenceKind::ALL.len()],
    /// Dirty pages that were evicted.
    pub write_backs: u64,
}

impl Memory {
    /// An empty memory.
    pub fn new(page_bytes: u64, frames: usize) -> Memory {
        let misses = [0; ReferenceKind::ALL.len()];
        Memory { frames, page_bytes, pages: Vec::new(), misses, write_backs: 0 }
    }

    /// Number of frames.
    pub fn frames(&self) -> usize {
        self.frames
    }

    /// The program refers to memory.
    pub fn refer(&mut self, reference: Reference) {
        for page in reference.pages(self.page_bytes) {
            let place = self.pages.iter().position(|&(other, _)| other == page);
            let place = place.unwrap_or_else(|| {
                self.misses[reference.kind as usize] += 1;
                self.pages.push((page, false));
                self.pages.len() - 1
            });
            self.pages[..=place].rotate_right(1);
            self.pages[0].1 |= reference.kind == ReferenceKind::Write;
            if self.pages.len() > self.frames
                && let Some((_, true)) = self.pages.pop()
            {
                self.write_backs += 1;
            }
        }
    }
}

/// A TLB of entries in sets. Each set is a list, the most recently used page first.
pub struct Tlb {
    sets: Vec<Vec<u64>>,
    ways: usize,
    /// References that miss, by kind.
    pub misses: [u64; ReferenceKind::ALL.len()],
}

impl Tlb {
    /// An empty TLB.
    pub fn new((entries, ways): (u32, u32)) -> Tlb {
        let sets = vec![Vec::new(); (entries / ways) as usize];
        Tlb { sets, ways: ways as usize, misses: [0; ReferenceKind::ALL.len()] }
    }

    /// Looks up a page and puts it in front of its set; returns whether it misses.
    pub fn look_up(&mut self, page: u64, kind: ReferenceKind) -> bool {
        let set = page % self.sets.len() as u64;
        let is_miss = !is_found(&mut self.sets[set as usize], page, self.ways);
        self.misses[kind as usize] += u64::from(is_miss);
        is_miss
    }
}

/// A TLB and, behind it, a second TLB for the misses of the first.
pub struct TwoTlbs {
    page_bytes: u64,
    /// The first TLB.
    pub first: Tlb,
    /// The TLB behind it.
    pub second: Tlb,
}

impl TwoTlbs {
    /// Empty TLBs with these numbers of entries and ways.
    pub fn new(page_bytes: u64, first: (u32, u32), second: (u32, u32)) -> Self {
        TwoTlbs { page_bytes, first: Tlb::new(first), second: Tlb::new(second) }
    }

    /// The program refers to memory.
    pub fn refer(&mut self, reference: Reference) {
        for page in reference.pages(self.page_bytes) {
            if self.first.look_up(page, reference.kind) {
                self.second.look_up(page, reference.kind);
            }
        }
    }
}

/// Moves `page` to the front of a list of at most `length`; returns whether it was in the list.
fn is_found(pages: &mut Vec<u64>, page: u64, length: usize) -> bool {
    let place = pages.iter().position(|&other| other == page);
    if let Some(place) = place {
        pages.remove(place);
    }
    pages.insert(0, page);
    pages.truncate(length);
    place.is_some()
}

/// An LRU memory that reads the whole aligned window of a faulting page. The other pages of the window
/// enter the list below the pages of the filter's blocks.
pub struct ReadingAhead {
    page_bytes: u64,
    frames: usize,
    window: u64,
    /// The blocks of the filter.
    blocks: Vec<u64>,
    /// Pages, and whether each was read ahead and not used since.
    pages: Vec<(u64, bool)>,
    used: HashSet<u64>,
    /// Page faults.
    pub faults: u64,
    /// Page faults on pages that were never used before.
    pub cold: u64,
    /// Pages that were read ahead.
    pub brought: u64,
    /// Pages that were read ahead and evicted unused.
    pub unused: u64,
}

impl ReadingAhead {
    /// An empty memory; `window` is in pages.
    pub fn new(page_bytes: u64, frames: usize, window: u64) -> ReadingAhead {
        ReadingAhead {
            page_bytes,
            frames,
            window,
            blocks: Vec::new(),
            pages: Vec::new(),
            used: HashSet::new(),
            faults: 0,
            cold: 0,
            brought: 0,
            unused: 0,
        }
    }

    /// The program refers to memory.
    pub fn refer(&mut self, reference: Reference) {
        for block in reference.pages(BLOCK_BYTES) {
            is_found(&mut self.blocks, block, FILTER_BLOCKS);
            self.touch(block * BLOCK_BYTES / self.page_bytes);
        }
    }

    fn touch(&mut self, page: u64) {
        let place = self.pages.iter().position(|&(other, _)| other == page);
        if let Some(place) = place {
            self.pages.remove(place);
        }
        self.pages.insert(0, (page, false));
        if place.is_none() {
            self.faults += 1;
            self.cold += u64::from(!self.used.contains(&page));
            self.bring(page / self.window);
        }
        self.used.insert(page);
        let evicted = self.pages.split_off(self.pages.len().min(self.frames));
        self.unused += evicted.iter().filter(|(_, is_brought)| *is_brought).count() as u64;
    }

    fn bring(&mut self, window: u64) {
        let held: HashSet<u64> =
            self.blocks.iter().map(|block| block * BLOCK_BYTES / self.page_bytes).collect();
        let below = self.pages.iter().filter(|(page, _)| held.contains(page)).count();
        for page in window * self.window..(window + 1) * self.window {
            if self.pages.iter().all(|&(other, _)| other != page) {
                self.brought += 1;
                self.pages.insert(below, (page, true));
            }
        }
    }
}
