//! The slots of the filter, reconstructed only from its steps.

use types::{FILTER_BLOCKS, LeftBlock, ReferenceKind, ReferenceStep};

/// A step as the filter makes it and the file stores it: a slot identifies the block that left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotStep {
    /// References since the step before, as in [`ReferenceStep`].
    pub references: u64,
    /// What the reference did.
    pub kind: ReferenceKind,
    /// The block that entered.
    pub block: u64,
    /// The slot of the block, below [`FILTER_BLOCKS`].
    pub slot: u8,
    /// Whether the block that left was written; false if the slot was empty.
    pub is_left_written: bool,
}

/// The block in each slot. Slots fill in order and stay full.
#[derive(Clone, Debug)]
pub struct Slots {
    blocks: [u64; FILTER_BLOCKS],
    filled: usize,
    /// Number of slots.
    count: usize,
}

impl Slots {
    /// Empty slots, at most [`FILTER_BLOCKS`].
    pub fn new(count: usize) -> Slots {
        Slots { blocks: [0; FILTER_BLOCKS], filled: 0, count: count.min(FILTER_BLOCKS) }
    }

    /// Applies a step and adds the block that left; `None` if no filter makes such a step.
    pub fn enter(&mut self, step: SlotStep) -> Option<ReferenceStep> {
        let SlotStep { references, kind, block, slot, is_left_written } = step;
        let is_next = usize::from(slot) == self.filled;
        if usize::from(slot) >= self.count
            || usize::from(slot) > self.filled
            || is_next && is_left_written
        {
            return None;
        }
        let held = self.blocks.get_mut(usize::from(slot))?;
        let left = std::mem::replace(held, block);
        self.filled += usize::from(is_next);
        let left = (!is_next).then_some(LeftBlock { block: left, is_written: is_left_written });
        Some(ReferenceStep { references, kind, block, left })
    }
}
