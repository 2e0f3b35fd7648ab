//! Memory references of a program, thinned by a filter that keeps every page size comparable.

/// Bytes of a block, the unit of the filter and the smallest page size.
pub const BLOCK_BYTES: u64 = 512;

/// Blocks that the filter holds. Results from a filtered trace are exact for every TLB with at least
/// this number of entries and every memory with at least this number of frames.
pub const FILTER_BLOCKS: usize = 64;

/// What a program did at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ReferenceKind {
    /// An instruction fetch.
    Instruction = 0,
    /// A read of data.
    Read = 1,
    /// A write of data, or a modification by one instruction.
    Write = 2,
}

impl ReferenceKind {
    /// Every kind, ordered by number.
    pub const ALL: [ReferenceKind; 3] =
        [ReferenceKind::Instruction, ReferenceKind::Read, ReferenceKind::Write];

    /// Name of the kind in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            ReferenceKind::Instruction => "instruction",
            ReferenceKind::Read => "read",
            ReferenceKind::Write => "write",
        }
    }
}

/// The least recently used block, which left the filter to make room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeftBlock {
    /// Address of the block divided by [`BLOCK_BYTES`].
    pub block: u64,
    /// Whether the block was written while the filter held it.
    pub is_written: bool,
}

/// One step of a filtered trace: a reference to a block that the filter did not hold.
///
/// Blocks leave in the order of their last use, so the steps rebuild the LRU stack below the
/// filter for every page size from one block up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReferenceStep {
    /// References of the program since the step before, including this reference. 0 for the second
    /// block of a reference that crosses the end of a block: the step before counts that reference.
    pub references: u64,
    /// What the reference did.
    pub kind: ReferenceKind,
    /// Address of the block that entered, divided by [`BLOCK_BYTES`].
    pub block: u64,
    /// The block that left for it; `None` while the filter fills.
    pub left: Option<LeftBlock>,
}

/// Memory references of a program, counted by kind.
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

    /// References of all kinds; `None` if the sum overflows.
    pub fn all(self) -> Option<u64> {
        self.instructions.checked_add(self.reads)?.checked_add(self.writes)
    }
}
