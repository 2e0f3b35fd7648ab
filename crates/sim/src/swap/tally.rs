//! The counts of a replay. Only the driver counts; a placement cannot misreport.

use schemars::JsonSchema;
use serde::Serialize;
use types::{EventKind, ProcessId};

/// Page operations of one process, or of a whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "PageOperations")]
pub struct Counts {
    /// Pages read from the fast tier.
    pub fast_reads: u64,
    /// Pages written to the fast tier.
    pub fast_writes: u64,
    /// Pages read from the slow tier.
    pub slow_reads: u64,
    /// Pages written to the slow tier.
    pub slow_writes: u64,
    /// Known pages that entered the fast tier.
    pub promotions: u64,
    /// Pages that lost their frame in the fast tier to another page, written out or not.
    pub demotions: u64,
}

impl Counts {
    /// Adds the counts of another.
    pub(crate) fn add(&mut self, other: &Counts) {
        self.fast_reads += other.fast_reads;
        self.fast_writes += other.fast_writes;
        self.slow_reads += other.slow_reads;
        self.slow_writes += other.slow_writes;
        self.promotions += other.promotions;
        self.demotions += other.demotions;
    }

    /// The counts since an `earlier` state of the same account.
    pub(crate) fn since(&self, earlier: &Counts) -> Counts {
        Counts {
            fast_reads: self.fast_reads - earlier.fast_reads,
            fast_writes: self.fast_writes - earlier.fast_writes,
            slow_reads: self.slow_reads - earlier.slow_reads,
            slow_writes: self.slow_writes - earlier.slow_writes,
            promotions: self.promotions - earlier.promotions,
            demotions: self.demotions - earlier.demotions,
        }
    }
}

/// Page-outs and page-ins of pages of zeros.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ZeroPages {
    /// Page-outs that wrote nothing.
    pub outs: u64,
    /// Page-ins that read nothing.
    pub ins: u64,
}

impl ZeroPages {
    /// Counts an event of a page of zeros.
    pub fn count(&mut self, kind: EventKind) {
        match kind {
            EventKind::SwapOut => self.outs += 1,
            _ => self.ins += 1,
        }
    }
}

/// Pages read ahead, for which no page fault waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadaheadReads {
    /// From the fast tier.
    pub fast: u64,
    /// From the slow tier.
    pub slow: u64,
    /// Pages that a swap-in found in memory.
    pub used: u64,
}

/// All counts of a run.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Operations by `ProcessId`, charged to the owner of the page that moved.
    pub processes: Vec<Counts>,
    /// Pages read ahead; part of the reads.
    pub readahead: ReadaheadReads,
    /// Time that page faults waited for a unit of the slow device; absent if it has no queue.
    pub queue_ns: Option<u128>,
    /// Fast writes done while a page fault waited.
    pub fast_writes_stalling: u64,
    /// Slow writes done while a page fault waited.
    pub slow_writes_stalling: u64,
    /// Pages whose only copy is in the fast tier when the trace ends: slow writes that are not done yet.
    pub fast_only_pages: u64,
    /// Page-outs of unmodified pages.
    pub clean_page_outs: u64,
    /// Page-outs and page-ins of pages of zeros, which no tier holds.
    pub zero_pages: ZeroPages,
    /// Notes that the reader needs to interpret the result.
    pub notes: Vec<String>,
}

impl Tally {
    /// Makes room for processes below `processes`.
    pub fn grow(&mut self, processes: usize) {
        if self.processes.len() < processes {
            self.processes.resize(processes, Counts::default());
        }
    }

    /// The account of one process.
    #[inline(always)]
    pub fn of(&mut self, process: ProcessId) -> &mut Counts {
        &mut self.processes[process.index()]
    }

    /// The sum over all processes.
    pub fn total(&self) -> Counts {
        let mut total = Counts::default();
        for counts in &self.processes {
            total.add(counts);
        }
        total
    }
}
