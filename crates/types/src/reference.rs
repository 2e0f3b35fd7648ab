//! Memory references of a program, thinned by a filter that keeps every page size comparable.

/// Bytes of a block, the unit of the filter and the smallest page size.
pub const BLOCK_BYTES: u64 = 512;

/// Blocks the filter holds. What is derived from a filtered trace is exact for every TLB of at
/// least so many entries and every memory of at least so many frames.
pub const FILTER_BLOCKS: usize = 64;

/// What a program did at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ReferenceKind {
    /// An instruction was fetched.
    Instruction = 0,
    /// Data were read.
    Read = 1,
    /// Data were written, or read and written by one instruction.
    Write = 2,
}

impl ReferenceKind {
    /// Every kind, in the order of its number.
    pub const ALL: [ReferenceKind; 3] =
        [ReferenceKind::Instruction, ReferenceKind::Read, ReferenceKind::Write];

    /// Its name in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            ReferenceKind::Instruction => "instruction",
            ReferenceKind::Read => "read",
            ReferenceKind::Write => "write",
        }
    }
}

/// A block that the filter gave up to make room, the one used longest ago.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeftBlock {
    /// Its address divided by [`BLOCK_BYTES`].
    pub block: u64,
    /// Whether it was written while the filter held it.
    pub is_written: bool,
}

/// One step of a filtered trace: a reference to a block that the filter did not hold.
///
/// Blocks leave in the order of their last use, so the steps rebuild the LRU stack below the
/// filter for every page size from one block up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReferenceStep {
    /// References of the program since the step before, this one included. 0 where a reference
    /// that crosses a block's end brings in its second block: the step before counts it.
    pub references: u64,
    /// What the reference did.
    pub kind: ReferenceKind,
    /// The block that entered, its address divided by [`BLOCK_BYTES`].
    pub block: u64,
    /// The block that left for it; none while the filter fills.
    pub left: Option<LeftBlock>,
}

/// How often a program referred to memory, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReferenceTotals {
    /// Instructions fetched.
    pub instructions: u64,
    /// Data read.
    pub reads: u64,
    /// Data written, or read and written by one instruction.
    pub writes: u64,
}

impl ReferenceTotals {
    /// Counts one more reference of `kind`.
    pub fn add(&mut self, kind: ReferenceKind) {
        match kind {
            ReferenceKind::Instruction => self.instructions += 1,
            ReferenceKind::Read => self.reads += 1,
            ReferenceKind::Write => self.writes += 1,
        }
    }

    /// References of every kind; none where they are more than a number holds.
    pub fn all(self) -> Option<u64> {
        self.instructions.checked_add(self.reads)?.checked_add(self.writes)
    }
}
