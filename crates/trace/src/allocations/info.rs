//! A summary of a history in a few numbers.

use schemars::JsonSchema;
use serde::Serialize;
use types::PAGE_BYTES;

use super::history::{Action, Block, History, Usage};
use crate::Loss;

/// A summary of a history.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Info {
    /// The recorded command.
    pub command: Vec<String>,
    /// Names of the processes with blocks, each with its number of blocks, most blocks first.
    pub processes: Vec<(String, u64)>,
    /// All processes of the command.
    pub processes_all: usize,
    /// Nanoseconds from the first step to the last.
    pub duration_ns: u64,
    /// Blocks given by malloc and its relatives.
    pub allocated: u64,
    /// Blocks given by mmap.
    pub mapped: u64,
    /// Blocks that were resized.
    pub resized: u64,
    /// Blocks that must read as zero.
    pub zeroed: u64,
    /// Blocks in the heap, whose touched pages may be those of earlier blocks.
    pub in_heap: u64,
    /// Bytes of all blocks.
    pub bytes: u64,
    /// Pages that were touched after their block was given or discarded; `None` if this is unknown for
    /// any block.
    pub pages_touched: Option<u64>,
    /// Pages of all blocks.
    pub pages: u64,
    /// Most bytes that were held at a time, over all processes.
    pub live_bytes_max: u64,
    /// Blocks and bytes by size.
    pub sizes: Vec<SizeClass>,
    /// Allocations below 64 KiB.
    pub small_calls: u64,
    /// Bytes of the allocations below 64 KiB.
    pub small_bytes: u64,
    /// CPU time of all processes; `None` if the recording lacks the end of a process with blocks, as it
    /// does after a SIGKILL.
    pub processor_ns: Option<u64>,
    /// CPU time that the processes spent in the kernel.
    pub system_ns: Option<u64>,
    /// Minor faults of the processes, on any memory.
    pub minor_faults: Option<u64>,
    /// Whether the recording stops before its end.
    pub is_cut: bool,
    /// What the recording lost or does not know.
    pub losses: Vec<Loss>,
}

/// Blocks of similar size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SizeClass {
    /// Upper bound of the class, exclusive; the lower bound is that of the class before.
    pub below_bytes: Option<u64>,
    /// Number of blocks.
    pub blocks: u64,
    /// Bytes of the blocks.
    pub bytes: u64,
}

/// Upper bounds of the size classes.
const BELOW_BYTES: [u64; 4] = [256 << 10, 1 << 20, 4 << 20, 32 << 20];

/// Summarizes `history`.
pub fn info(history: &History) -> Info {
    let mut info = Info {
        command: history.about.command.clone(),
        processes_all: history.processes.len(),
        duration_ns: history.duration_ns(),
        sizes: sizes(&history.blocks),
        small_calls: history.small.calls,
        small_bytes: history.small.bytes,
        in_heap: history.in_heap,
        is_cut: history.is_cut,
        losses: history.losses.clone(),
        ..Info::default()
    };
    info.sum_up_usage(history);
    let mut blocks_of = vec![0u64; history.processes.len()];
    let mut live = vec![0u64; history.processes.len()];
    let (mut live_all, mut pages_touched) = (0u64, 0u64);
    for step in &history.steps {
        let process = step.process as usize;
        let bytes = |block: u32| u64::from(history.blocks[block as usize].pages) * PAGE_BYTES;
        let (given, taken) = match step.action {
            Action::Allocate => (Some(step.block), 0),
            Action::Resize { to } => (Some(to), bytes(step.block)),
            Action::Free => (None, bytes(step.block)),
            Action::Exit => (None, live[process]),
            Action::Cut(_) | Action::Discard { .. } => (None, 0),
        };
        info.resized += u64::from(matches!(step.action, Action::Resize { .. }));
        if let Some(given) = given {
            blocks_of[process] += 1;
            info.count(&history.blocks[given as usize]);
        }
        let given_bytes = given.map_or(0, bytes);
        live[process] = live[process].saturating_add(given_bytes).saturating_sub(taken);
        live_all = live_all.saturating_add(given_bytes).saturating_sub(taken);
        info.live_bytes_max = info.live_bytes_max.max(live_all);
        pages_touched +=
            history.touched(step).iter().map(|extent| u64::from(extent.pages)).sum::<u64>();
    }
    info.pages_touched = (history.blocks_unknown == 0).then_some(pages_touched);
    info.processes = busiest(history, &blocks_of);
    info
}

impl Info {
    /// Adds up time and faults of the processes, unless the end of any process was not recorded.
    fn sum_up_usage(&mut self, history: &History) {
        let used: Vec<Usage> =
            history.processes.iter().filter_map(|process| process.usage).collect();
        if history.ends_unseen > 0 || used.is_empty() {
            return;
        }
        let sum = |of: fn(&Usage) -> u64| used.iter().map(of).fold(0, u64::saturating_add);
        self.processor_ns = Some(sum(|usage| usage.user_ns.saturating_add(usage.system_ns)));
        self.system_ns = Some(sum(|usage| usage.system_ns));
        self.minor_faults = Some(sum(|usage| usage.minor_faults.into()));
    }

    fn count(&mut self, block: &Block) {
        match block.is_mapped {
            true => self.mapped += 1,
            false => self.allocated += 1,
        }
        self.zeroed += u64::from(block.is_zeroed);
        self.bytes = self.bytes.saturating_add(block.bytes);
        self.pages += u64::from(block.pages);
    }
}

fn sizes(blocks: &[Block]) -> Vec<SizeClass> {
    let ends = BELOW_BYTES.iter().map(|&end| Some(end)).chain([None]);
    let mut classes: Vec<SizeClass> =
        ends.map(|below_bytes| SizeClass { below_bytes, ..SizeClass::default() }).collect();
    for block in blocks {
        let class = &mut classes[BELOW_BYTES.partition_point(|&end| end <= block.bytes)];
        class.blocks += 1;
        class.bytes = class.bytes.saturating_add(block.bytes);
    }
    classes
}

fn busiest(history: &History, blocks_of: &[u64]) -> Vec<(String, u64)> {
    let mut named: Vec<(String, u64)> = history
        .processes
        .iter()
        .zip(blocks_of)
        .filter(|(_, blocks)| **blocks > 0)
        .map(|(process, &blocks)| (process.name.clone(), blocks))
        .collect();
    named.sort_by(|left, right| right.1.cmp(&left.1).then_with(|| left.0.cmp(&right.0)));
    named
}
