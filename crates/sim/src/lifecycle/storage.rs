//! The storage below memory: a swap architecture that is fed during the life, and the time that
//! faulting tasks wait for it.

use super::memory::Memory;
use crate::Error;
use crate::devices::Device;
use crate::swap::{Counts, LiveCell, SimulateRequest};
use std::collections::BTreeMap;

/// Pages of a file that one read brings: the kernel's read-around (VM_READAHEAD_PAGES, 128 KiB).
const READ_AROUND_PAGES: u64 = 32;

/// Time waited for storage, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Waited {
    pub(super) swap_ns: u64,
    pub(super) file_ns: u64,
}

/// Operations of storage, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Traffic {
    pub(super) fast_reads: u64,
    pub(super) fast_writes: u64,
    pub(super) slow_reads: u64,
    pub(super) slow_writes: u64,
}

#[derive(Clone, Copy, Default)]
struct Seen {
    swap: Counts,
    files: Counts,
    fast_writes_stalling: u64,
    slow_writes_stalling: u64,
}

/// An architecture at work.
pub(super) struct Storage {
    cell: LiveCell,
    fast: Device,
    slow: Device,
    file_read_ns: u64,
    /// The process to which reads of files are charged.
    files_process: usize,
    seen: Seen,
    /// File pages read past the tiers.
    untiered_reads: u64,
    untiered_seen: u64,
}

impl Storage {
    /// # Errors
    /// `Usage` for an unknown architecture, option, value or profile, and for an architecture that
    /// must know the future.
    pub(super) fn new(
        request: &SimulateRequest,
        files_process: usize,
        file_read_ns: Option<u64>,
    ) -> Result<Storage, Error> {
        Ok(Storage {
            cell: LiveCell::start(request)?,
            file_read_ns: file_read_ns.unwrap_or_else(|| file_page_ns(&request.slow)),
            fast: request.fast.clone(),
            slow: request.slow.clone(),
            files_process,
            seen: Seen::default(),
            untiered_reads: 0,
            untiered_seen: 0,
        })
    }

    /// Reads a file page from the slow device past the tiers.
    pub(super) fn read_file(&mut self) {
        self.untiered_reads += 1;
    }

    /// Performs the moves that `memory` recorded; returns the time that the faulting task waited.
    pub(super) fn settle(&mut self, memory: &mut Memory) -> Waited {
        let untiered = self.untiered_reads - self.untiered_seen;
        self.untiered_seen = self.untiered_reads;
        let mut waited = Waited { swap_ns: 0, file_ns: untiered * self.file_read_ns };
        if memory.events.is_empty() {
            return waited;
        }
        self.cell.replay(&memory.events);
        memory.events.clear();
        let (before, now) = (self.seen, self.now());
        self.seen = now;
        let reads = |now: Counts, before: Counts| {
            (now.fast_reads - before.fast_reads, now.slow_reads - before.slow_reads)
        };
        let (fast, slow) = reads(now.swap, before.swap);
        waited.swap_ns = fast * self.fast.read.typical_ns
            + slow * self.slow.read.typical_ns
            + (now.fast_writes_stalling - before.fast_writes_stalling) * self.fast.write.typical_ns
            + (now.slow_writes_stalling - before.slow_writes_stalling) * self.slow.write.typical_ns;
        let (fast, slow) = reads(now.files, before.files);
        waited.file_ns += fast * self.fast.read.typical_ns + slow * self.file_read_ns;
        waited
    }

    /// Operations so far.
    pub(super) fn traffic(&self) -> Traffic {
        let (swap, files) = (self.seen.swap, self.seen.files);
        Traffic {
            fast_reads: swap.fast_reads + files.fast_reads,
            fast_writes: swap.fast_writes + files.fast_writes,
            slow_reads: swap.slow_reads + files.slow_reads + self.untiered_reads,
            slow_writes: swap.slow_writes + files.slow_writes,
        }
    }

    /// Every option of the architecture with its value in effect.
    pub(super) fn into_options(self) -> BTreeMap<&'static str, String> {
        self.cell.into_options()
    }

    fn now(&self) -> Seen {
        let tally = self.cell.tally();
        let mut seen = Seen {
            fast_writes_stalling: tally.fast_writes_stalling,
            slow_writes_stalling: tally.slow_writes_stalling,
            ..Seen::default()
        };
        for (process, counts) in tally.processes.iter().enumerate() {
            let sum = if process == self.files_process { &mut seen.files } else { &mut seen.swap };
            sum.add(counts);
        }
        seen
    }
}

/// Time for one page of a file that is read with its neighbours: from the device's bandwidth if it is
/// known, else the time of a single page.
fn file_page_ns(device: &Device) -> u64 {
    match &device.transfer {
        None => device.read.typical_ns,
        Some(transfer) => {
            let page_ns = types::PAGE_BYTES as f64 / transfer.bandwidth_mb_s.typical * 1e3;
            transfer.setup.typical_ns / READ_AROUND_PAGES + page_ns.round() as u64
        }
    }
}
