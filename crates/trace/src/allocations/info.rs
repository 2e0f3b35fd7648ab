//! What a history holds, in a few numbers.

use schemars::JsonSchema;
use serde::Serialize;
use types::PAGE_BYTES;

use super::{Action, Block, History, Usage};
use crate::Loss;

/// What a history holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Info {
    /// The recorded command.
    pub command: Vec<String>,
    /// Names of the processes that had a block, by how many they had.
    pub processes: Vec<(String, u64)>,
    /// Processes of the command in all.
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
    /// Pages that were touched after a block was given or discarded; none where that is not known of
    /// some block.
    pub pages_touched: Option<u64>,
    /// Pages of all blocks.
    pub pages: u64,
    /// Most bytes that were held at a time, over all processes.
    pub live_bytes_max: u64,
    /// Blocks and bytes by size.
    pub sizes: Vec<SizeClass>,
    /// Allocations below 64 KiB.
    pub small_calls: u64,
    /// Their bytes.
    pub small_bytes: u64,
    /// Time on processors of all processes; none where a process with blocks ended unseen, as one
    /// does that is killed.
    pub processor_ns: Option<u64>,
    /// What of it was in the kernel.
    pub system_ns: Option<u64>,
    /// Minor faults of the processes, of whatever memory.
    pub minor_faults: Option<u64>,
    /// Whether the recording stops before its end.
    pub is_cut: bool,
    /// What was lost, or is not known.
    pub losses: Vec<Loss>,
}

/// Blocks of similar size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SizeClass {
    /// Blocks of less than so many bytes, and not less than the class before.
    pub below_bytes: Option<u64>,
    /// How many.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Ends of the classes of sizes.
const BELOW_BYTES: [u64; 4] = [256 << 10, 1 << 20, 4 << 20, 32 << 20];

/// What `history` holds.
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
        pages_touched += history.touched(step).iter().map(|run| u64::from(run.pages)).sum::<u64>();
    }
    info.pages_touched = (history.blocks_unknown == 0).then_some(pages_touched);
    info.processes = busiest(history, &blocks_of);
    info
}

impl Info {
    /// What the processes used, unless one of them ended unseen.
    fn sum_up_usage(&mut self, history: &History) {
        let used: Vec<Usage> =
            history.processes.iter().filter_map(|process| process.usage).collect();
        if history.ends_unseen > 0 || used.is_empty() {
            return;
        }
        let sum = |of: fn(&Usage) -> u64| used.iter().map(of).fold(0, u64::saturating_add);
        self.processor_ns = Some(sum(|one| one.user_ns.saturating_add(one.system_ns)));
        self.system_ns = Some(sum(|one| one.system_ns));
        self.minor_faults = Some(sum(|one| one.minor_faults.into()));
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
    named.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
    named
}
