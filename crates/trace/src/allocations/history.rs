//! What a recording of allocations tells: blocks, and what was done with them in which order.

use crate::Loss;
use crate::recording::About;

/// Source and backend of a recording of allocations.
pub const SOURCE: &str = "allocations";

/// Pages that lie one behind the other, counted from the first page of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageRun {
    /// The first of them.
    pub first: u32,
    /// How many.
    pub pages: u32,
}

impl PageRun {
    /// The page behind the last.
    pub const fn end(self) -> u32 {
        self.first + self.pages
    }

    /// The pages that both have; none where there is none.
    pub fn common(self, other: PageRun) -> Option<PageRun> {
        let (first, end) = (self.first.max(other.first), self.end().min(other.end()));
        (first < end).then(|| PageRun { first, pages: end - first })
    }
}

/// One block that a program was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Bytes asked for.
    pub bytes: u64,
    /// Pages that it lies on, glibc's head of 16 bytes included.
    pub pages: u32,
    /// Whether it must read as zero.
    pub is_zeroed: bool,
    /// Whether it came from mmap, past any malloc.
    pub is_mapped: bool,
}

/// What a program did with a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It was given the block.
    Allocate,
    /// It gave the block, or what is left of it, back.
    Free,
    /// It gave the block back for another one, which has its contents.
    Resize {
        /// Number of the other one.
        to: u32,
    },
    /// It unmapped a part.
    Cut(PageRun),
    /// It does not need the contents of a part any more.
    Discard {
        /// The part.
        run: PageRun,
        /// Whether the pages stay until the kernel needs them (MADV_FREE).
        is_lazy: bool,
    },
    /// The process ended, with all blocks that it still had; the step's own block means nothing.
    Exit,
}

/// One step of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Nanoseconds since the recording began; never before the step ahead.
    pub time_ns: u64,
    /// Whose, as an index into [`History::processes`].
    pub process: u32,
    /// Number of the block.
    pub block: u32,
    /// What was done.
    pub action: Action,
    /// What of the block (of the other one after `Resize`) is touched after this step and before
    /// another one says so again: [`History::touched`] gives the runs.
    pub(super) touched: (u32, u32),
}

/// One process, or one program where a process became several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessHistory {
    /// Its number on the recorded machine.
    pub pid: u32,
    /// Name of the program.
    pub name: String,
    /// Time on a processor and faults at its end; none where it was killed.
    pub usage: Option<Usage>,
}

/// What a process used in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Nanoseconds in user mode.
    pub user_ns: u64,
    /// Nanoseconds in the kernel.
    pub system_ns: u64,
    /// Minor faults, of whatever memory.
    pub minor_faults: u32,
    /// Major faults.
    pub major_faults: u32,
}

/// Allocations below 64 KiB, which are summed up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Small {
    /// How many.
    pub calls: u64,
    /// Bytes asked for.
    pub bytes: u64,
}

/// All of a recording's allocations from 64 KiB, and its anonymous mappings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// What the recording says about itself.
    pub about: About,
    /// Whose.
    pub processes: Vec<ProcessHistory>,
    /// The blocks by number.
    pub blocks: Vec<Block>,
    /// What happened, in order.
    pub steps: Vec<Step>,
    /// Small allocations.
    pub small: Small,
    /// Blocks that lie in the heap, on pages that others may have touched before.
    pub in_heap: u64,
    /// What was lost, or is not known.
    pub losses: Vec<Loss>,
    /// Blocks of which it is not known which pages were touched, taken as touched whole.
    pub blocks_unknown: u64,
    /// Processes with blocks that ended without saying what they used, as one does that is killed.
    pub ends_unseen: u64,
    /// Whether the recording stops before its end.
    pub is_cut: bool,
    pub(super) runs: Vec<PageRun>,
}

impl History {
    /// What of a step's block is touched after it: ascending, without a page twice.
    pub fn touched(&self, step: &Step) -> &[PageRun] {
        let (from, to) = step.touched;
        &self.runs[from as usize..to as usize]
    }

    /// Appends a step with what is touched after it: a history made by hand.
    pub fn push(&mut self, step: StepParts, touched: &[PageRun]) {
        let from = self.runs.len() as u32;
        self.runs.extend_from_slice(touched);
        let StepParts { time_ns, process, block, action } = step;
        let touched = (from, self.runs.len() as u32);
        self.steps.push(Step { time_ns, process, block, action, touched });
    }

    /// Nanoseconds from the first to the last step.
    pub fn duration_ns(&self) -> u64 {
        self.steps.last().map_or(0, |step| step.time_ns)
    }
}

/// A step without what is touched after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepParts {
    /// As of [`Step`].
    pub time_ns: u64,
    /// As of [`Step`].
    pub process: u32,
    /// As of [`Step`].
    pub block: u32,
    /// As of [`Step`].
    pub action: Action,
}
