//! What a recording of allocations tells: blocks, and what was done with them in which order.

use crate::Loss;
use crate::recording::About;

/// Source and backend of a recording of allocations.
pub const SOURCE: &str = "allocations";

/// Consecutive pages, counted from the first page of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageExtent {
    /// First page of the extent.
    pub first: u32,
    /// Number of pages.
    pub pages: u32,
}

impl PageExtent {
    /// The page after the last.
    pub const fn end(self) -> u32 {
        self.first + self.pages
    }

    /// The pages in both extents; `None` if the extents do not overlap.
    pub fn common(self, other: PageExtent) -> Option<PageExtent> {
        let (first, end) = (self.first.max(other.first), self.end().min(other.end()));
        (first < end).then(|| PageExtent { first, pages: end - first })
    }
}

/// A block of memory that a program allocated or mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Bytes asked for.
    pub bytes: u64,
    /// Pages that the block spans, including glibc's header of 16 bytes.
    pub pages: u32,
    /// Whether the block must read as zero.
    pub is_zeroed: bool,
    /// Whether the program mapped the block with mmap, without malloc.
    pub is_mapped: bool,
}

/// What a program did with a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The program got the block.
    Allocate,
    /// The program freed the block, or the rest of it.
    Free,
    /// The program exchanged the block for another block with the same contents.
    Resize {
        /// Number of the new block.
        to: u32,
    },
    /// The program unmapped a part of the block.
    Cut(PageExtent),
    /// The program discarded the contents of a part of the block.
    Discard {
        /// The discarded part.
        extent: PageExtent,
        /// Whether the pages stay until the kernel needs them (MADV_FREE).
        is_lazy: bool,
    },
    /// The process ended and freed all its blocks; the block number of this step is meaningless.
    Exit,
}

/// One step of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryStep {
    /// Nanoseconds since the recording began; never less than in the step before.
    pub time_ns: u64,
    /// The process, as an index into [`History::processes`].
    pub process: u32,
    /// Number of the block.
    pub block: u32,
    /// What the process did with the block.
    pub action: Action,
    /// Range in `History::extents` of the pages of the block (the new block for `Resize`) that are touched
    /// after this step and before a later step on the same pages.
    pub(super) touched: (u32, u32),
}

/// A process, or one of its programs if it called exec.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessHistory {
    /// The pid on the recorded machine.
    pub pid: u32,
    /// Name of the program.
    pub name: String,
    /// CPU time and faults at its end; `None` if it was killed.
    pub usage: Option<Usage>,
}

/// Total CPU time and faults of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Nanoseconds in user mode.
    pub user_ns: u64,
    /// Nanoseconds in the kernel.
    pub system_ns: u64,
    /// Minor faults, on any memory.
    pub minor_faults: u32,
    /// Major faults.
    pub major_faults: u32,
}

/// The sum of all allocations below 64 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Small {
    /// Number of allocations.
    pub calls: u64,
    /// Bytes asked for.
    pub bytes: u64,
}

/// All allocations of 64 KiB and more in a recording, and all anonymous mappings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// What the recording says about itself.
    pub about: About,
    /// The processes, by index.
    pub processes: Vec<ProcessHistory>,
    /// The blocks, by number.
    pub blocks: Vec<Block>,
    /// The steps, in order of time.
    pub steps: Vec<HistoryStep>,
    /// The sum of small allocations.
    pub small: Small,
    /// Blocks in the heap, on pages that earlier blocks may have touched.
    pub in_heap: u64,
    /// What the recording lost or does not know.
    pub losses: Vec<Loss>,
    /// Blocks whose touched pages are unknown; every page counts as touched.
    pub blocks_unknown: u64,
    /// Processes with blocks that ended without a usage record, as they do after a SIGKILL.
    pub ends_unseen: u64,
    /// Whether the recording stops before its end.
    pub is_cut: bool,
    pub(super) extents: Vec<PageExtent>,
}

impl History {
    /// The pages of a step's block that are touched after the step, ascending and disjoint.
    pub fn touched(&self, step: &HistoryStep) -> &[PageExtent] {
        let (from, to) = step.touched;
        &self.extents[from as usize..to as usize]
    }

    /// Appends a step and the pages touched after it. For histories that are not read from a recording.
    pub fn push(&mut self, step: StepParts, touched: &[PageExtent]) {
        let from = self.extents.len() as u32;
        self.extents.extend_from_slice(touched);
        let StepParts { time_ns, process, block, action } = step;
        let touched = (from, self.extents.len() as u32);
        self.steps.push(HistoryStep { time_ns, process, block, action, touched });
    }

    /// Nanoseconds from the first to the last step.
    pub fn duration_ns(&self) -> u64 {
        self.steps.last().map_or(0, |step| step.time_ns)
    }
}

/// A [`HistoryStep`] without the pages touched after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepParts {
    /// [`HistoryStep::time_ns`] of the step.
    pub time_ns: u64,
    /// [`HistoryStep::process`] of the step.
    pub process: u32,
    /// [`HistoryStep::block`] of the step.
    pub block: u32,
    /// [`HistoryStep::action`] of the step.
    pub action: Action,
}
