//! The filter: an exact LRU list of the most recently used blocks. It absorbs references to these blocks;
//! a reference to any other block becomes a step.
//!
//! capture/filter.h does the same inside QEMU; a test runs both on the same addresses.

use types::{BLOCK_BYTES, FILTER_BLOCKS, ReferenceKind, ReferenceTotals};

use super::slots::SlotStep;

/// A memory reference of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Kind of the reference.
    pub kind: ReferenceKind,
    /// Address of the first byte.
    pub address: u64,
    /// Number of bytes; 0 counts as 1.
    pub bytes: u32,
}

impl Reference {
    /// The blocks that the reference touches; more than one if it crosses the end of a block. Blocks
    /// beyond the end of the address space are left out.
    fn blocks(self) -> std::ops::RangeInclusive<u64> {
        let last = self.address.saturating_add(u64::from(self.bytes.max(1)) - 1);
        self.address / BLOCK_BYTES..=last / BLOCK_BYTES
    }
}

/// Content of an empty slot; no block has this number.
const EMPTY: u64 = u64::MAX;

/// Entries of the table that guesses a block's slot: collisions among 64 blocks are rare.
const GUESSES: usize = 4096;

/// The LRU list, by slot. `blocks` are distinct except for `EMPTY`; slots beyond the number of blocks stay empty
/// and count as used last. The slot with the smallest `last_use`
/// holds the least recently used block.
#[derive(Clone, Debug)]
pub struct Filter {
    blocks: [u64; FILTER_BLOCKS],
    last_use: [u64; FILTER_BLOCKS],
    is_written: [bool; FILTER_BLOCKS],
    /// The last slot of the block with this remainder; may be out of date.
    guesses: Box<[u8; GUESSES]>,
    uses: u64,
    totals: ReferenceTotals,
    /// References counted at the last step.
    references_before: u64,
}

impl Filter {
    /// An empty filter of [`FILTER_BLOCKS`].
    pub fn new() -> Filter {
        Filter::of(FILTER_BLOCKS)
    }

    /// An empty filter of `blocks`, at most [`FILTER_BLOCKS`].
    pub fn of(blocks: usize) -> Filter {
        Filter {
            blocks: [EMPTY; FILTER_BLOCKS],
            last_use: std::array::from_fn(|slot| if slot < blocks { 0 } else { u64::MAX }),
            is_written: [false; FILTER_BLOCKS],
            guesses: Box::new([0; GUESSES]),
            uses: 0,
            totals: ReferenceTotals::default(),
            references_before: 0,
        }
    }

    /// All references so far.
    pub fn totals(&self) -> ReferenceTotals {
        self.totals
    }

    /// Counts the next reference, and appends a step for each of its blocks that the filter did not hold.
    pub fn refer(&mut self, reference: Reference, steps: &mut Vec<SlotStep>) {
        self.totals.add(reference.kind);
        for block in reference.blocks() {
            self.touch(reference.kind, block, steps);
        }
    }

    fn touch(&mut self, kind: ReferenceKind, block: u64, steps: &mut Vec<SlotStep>) {
        let guess = (block % GUESSES as u64) as usize;
        let mut slot = usize::from(self.guesses[guess]);
        if self.blocks[slot] != block {
            slot = match self.blocks.iter().position(|&held| held == block) {
                Some(slot) => slot,
                None => self.enter(kind, block, steps),
            };
            self.guesses[guess] = slot as u8;
        }
        self.uses += 1;
        self.last_use[slot] = self.uses;
        self.is_written[slot] |= kind == ReferenceKind::Write;
    }

    /// Puts `block` into the first empty slot or replaces the least recently used block.
    fn enter(&mut self, kind: ReferenceKind, block: u64, steps: &mut Vec<SlotStep>) -> usize {
        let mut slot = 0;
        for other in 1..FILTER_BLOCKS {
            if self.last_use[other] < self.last_use[slot] {
                slot = other;
            }
        }
        let ReferenceTotals { instructions, reads, writes } = self.totals;
        let references = instructions + reads + writes;
        steps.push(SlotStep {
            references: references - self.references_before,
            kind,
            block,
            slot: slot as u8,
            is_left_written: self.is_written[slot],
        });
        self.references_before = references;
        self.blocks[slot] = block;
        self.is_written[slot] = false;
        slot
    }
}

impl Default for Filter {
    fn default() -> Filter {
        Filter::new()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::references::Slots;
    use proptest::prelude::*;
    use testkit::references::{filtered_by, program};
    use types::ReferenceStep;

    /// A random program, as steps of the naive model and as references for the filter.
    pub fn references(seed: u64, length: usize) -> (Vec<ReferenceStep>, Vec<Reference>) {
        references_by(FILTER_BLOCKS, seed, length)
    }

    fn references_by(
        blocks: usize,
        seed: u64,
        length: usize,
    ) -> (Vec<ReferenceStep>, Vec<Reference>) {
        let made = program(seed, length);
        let taken = made.iter().map(|reference| Reference {
            kind: reference.kind,
            address: reference.address,
            bytes: reference.bytes as u32,
        });
        (filtered_by(blocks, &made), taken.collect())
    }

    fn named(references: &[Reference]) -> (Vec<ReferenceStep>, ReferenceTotals) {
        named_by(FILTER_BLOCKS, references)
    }

    fn named_by(blocks: usize, references: &[Reference]) -> (Vec<ReferenceStep>, ReferenceTotals) {
        let (mut filter, mut slots) = (Filter::of(blocks), Slots::new(blocks));
        let mut steps = Vec::new();
        references.iter().for_each(|&reference| filter.refer(reference, &mut steps));
        let named = steps.into_iter().map(|step| slots.enter(step).unwrap()).collect();
        (named, filter.totals())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn the_filter_equals_the_naive_lru_list(seed: u64, blocks in 4..=FILTER_BLOCKS) {
            let (expected, references) = references_by(blocks, seed, 3000);
            let (steps, totals) = named_by(blocks, &references);
            prop_assert_eq!(steps, expected);
            prop_assert_eq!(totals.all(), Some(references.len() as u64));
        }
    }

    #[test]
    fn blocks_whose_guesses_collide_stay_distinct() {
        let far = GUESSES as u64 * BLOCK_BYTES;
        let read = |address| Reference { kind: ReferenceKind::Read, address, bytes: 1 };
        let (steps, _) = named(&[read(0), read(far), read(0), read(far), read(2 * far)]);
        let references_and_blocks: Vec<(u64, u64)> =
            steps.iter().map(|step| (step.references, step.block)).collect();
        let block = GUESSES as u64;
        assert_eq!(references_and_blocks, [(1, 0), (1, block), (3, 2 * block)]);
    }

    #[test]
    fn a_reference_that_crosses_a_block_touches_both_and_counts_once() {
        let read = |address, bytes| Reference { kind: ReferenceKind::Read, address, bytes };
        let (steps, totals) = named(&[read(510, 4), read(0, 0), read(u64::MAX, 8)]);
        let references_and_blocks: Vec<(u64, u64)> =
            steps.iter().map(|step| (step.references, step.block)).collect();
        assert_eq!(references_and_blocks, [(1, 0), (0, 1), (2, u64::MAX / BLOCK_BYTES)]);
        assert_eq!(totals, ReferenceTotals { reads: 3, ..ReferenceTotals::default() });
    }
}
