//! Naive models of the swap architectures, the oracle of the fast simulator: hash maps, vectors searched
//! from end to end, and the terms of the specification sheets (S0.4, S1.3).

mod adaptive;
mod machine;
mod queue;
mod readahead;
mod rules;

pub use adaptive::Latencies;
pub use machine::Counts;
pub use queue::{Issued, waited_ns};
pub use readahead::with_kernel_readahead;

use machine::Machine;
use std::collections::BTreeMap;
use types::{Event, EventFlags, EventKind};

/// The settings of a replay.
#[derive(Clone, Debug)]
pub struct Replay {
    /// Name of the architecture.
    pub architecture: String,
    /// Every option of the architecture with its value.
    pub options: BTreeMap<String, String>,
    /// Frames of the fast tier.
    pub capacity: usize,
    /// Whether pages that the events show as read ahead count.
    pub counts_readahead: bool,
    /// Whether a swap-in after a swap-in implies a clean page-out between them.
    pub infers_clean: bool,
    /// Costs of operations; only `adaptive` uses them.
    pub latencies: Latencies,
}

/// The counts of a replay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Operations by process number; each counts for the owner of the page.
    pub processes: BTreeMap<u32, Counts>,
    /// Writes to the fast tier while a swap-in waited.
    pub fast_writes_stalling: u64,
    /// Writes to the slow tier while a swap-in waited.
    pub slow_writes_stalling: u64,
    /// Page-outs and page-ins of pages of zeros.
    pub zero_pages: (u64, u64),
    /// Pages read ahead from the fast tier and from the slow one, and those that a swap-in used.
    pub readahead: (u64, u64, u64),
}

/// Replays `events` by the rules of one architecture.
pub fn replay(replay: &Replay, events: &[Event]) -> Outcome {
    let mut machine = Machine::new(replay.clone());
    for event in events {
        let (page, process) = (event.page.0, event.process.0);
        let is_dirty = event.flags.contains(EventFlags::DIRTY);
        let is_zero = event.flags.contains(EventFlags::ZERO);
        match event.kind {
            EventKind::SwapOut if is_zero => {
                machine.outcome.zero_pages.0 += 1;
                machine.holds_zeros(page, process);
            }
            EventKind::SwapIn if is_zero => {
                machine.outcome.zero_pages.1 += 1;
                machine.holds_zeros(page, process);
            }
            EventKind::SwapOut => machine.page_out(page, process, is_dirty, false),
            EventKind::SwapIn => {
                let is_major = event.flags.contains(EventFlags::MAJOR);
                let is_ahead = machine.ahead.remove(&page);
                let is_used = replay.counts_readahead && !is_major;
                machine.infer_page_out(page, process, false);
                if is_used {
                    if !is_ahead {
                        machine.read_ahead(page, process);
                        machine.ahead.remove(&page);
                    }
                    machine.outcome.readahead.2 += 1;
                }
                machine.is_read = is_used;
                machine.page_in(page, process, false);
                machine.is_read = false;
            }
            EventKind::Evict => machine.page_out(page, process, is_dirty, true),
            EventKind::Request => machine.page_in(page, process, true),
            EventKind::Read => {
                machine.infer_page_out(page, process, true);
                machine.page_in(page, process, true);
            }
            EventKind::Write => machine.page_out(page, process, true, true),
            EventKind::Exit => machine.exit(process),
            EventKind::DeviceRead => {
                if replay.counts_readahead {
                    machine.read_ahead(page, process);
                }
            }
            EventKind::DeviceWrite => {}
            EventKind::Void => machine.void(page),
        }
    }
    machine.end();
    machine.outcome
}
