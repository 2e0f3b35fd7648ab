//! Builds a history from records. A block's touched pages are known when the program frees it, but belong
//! to the step that allocated it, so the history is complete only at the end of the recording.

use std::collections::{BTreeMap, BTreeSet};

use types::PAGE_BYTES;

use super::history::{Action, Block, History, HistoryStep, PageExtent, ProcessHistory, Usage};
use super::lives::{Live, Lives};
use crate::Loss;
use crate::recording::{Record, flag, kind};

/// Builds a history from records in the order of the recording.
#[derive(Default)]
pub(super) struct Builder {
    history: History,
    /// Touched pages, each with the step after which it was untouched.
    touched: Vec<(u32, PageExtent)>,
    processes: BTreeMap<u32, Process>,
    first_ns: Option<u64>,
    last_ns: u64,
    twice: u64,
    senseless: u64,
}

/// A process that has not ended.
#[derive(Default)]
struct Process {
    index: u32,
    lives: Lives,
    /// Per thread: touched ranges, in pages, of the block that it frees next.
    pending: BTreeMap<u32, Vec<(u64, u64)>>,
    /// Per thread: a freeing step that becomes a resize if an allocation follows.
    resizing: BTreeMap<u32, u32>,
}

/// 1 TiB. A program that allocates more keeps a sparse table, and touches little of it.
const PAGES_MAX: u64 = 1 << 28;

/// A range of pages of an address space.
#[derive(Clone, Copy)]
struct Range {
    first: u64,
    pages: u64,
}

impl Range {
    fn of(record: &Record) -> Option<Range> {
        let end =
            record.address.checked_add(record.object)?.checked_next_multiple_of(PAGE_BYTES)?;
        let first = record.address / PAGE_BYTES;
        let pages = end / PAGE_BYTES - first;
        (1..PAGES_MAX).contains(&pages).then_some(Range { first, pages })
    }
}

impl Builder {
    /// Adds the next record.
    pub fn take(&mut self, record: &Record) {
        let first_ns = *self.first_ns.get_or_insert(record.time_ns);
        // Records are in the order of the events, but threads may read the clock out of order.
        self.last_ns = self.last_ns.max(record.time_ns.saturating_sub(first_ns));
        match record.kind {
            kind::FORK => self.begin(record.process, ""),
            kind::EXEC => self.name(record),
            kind::EXIT => self.end(record.process),
            kind::USAGE => {
                let index = self.process(record.process).index as usize;
                self.history.processes[index].usage = Some(Usage {
                    user_ns: record.address,
                    system_ns: record.object,
                    minor_faults: record.device,
                    major_faults: record.auxiliary,
                });
            }
            kind::SMALL => {
                let small = &mut self.history.small;
                small.calls = small.calls.saturating_add(record.device.into());
                small.bytes = small.bytes.saturating_add(record.object);
            }
            kind::ALLOCATE | kind::FREE | kind::DISCARD | kind::TOUCHED => {
                match Range::of(record) {
                    Some(range) => self.block_record(record, range),
                    None => self.senseless += 1,
                }
            }
            _ => {}
        }
    }

    fn block_record(&mut self, record: &Record, range: Range) {
        match record.kind {
            kind::ALLOCATE => self.allocate(record, range),
            kind::FREE => self.free(record, range),
            kind::DISCARD => self.discard(record, range),
            _ => {
                let process = self.process(record.process);
                let pending = process.pending.entry(record.auxiliary).or_default();
                pending.push((range.first, range.pages));
            }
        }
    }

    /// Returns the history after the last record; `losses` are those of the recording itself.
    pub fn finish(mut self, mut losses: Vec<Loss>) -> History {
        let processes: Vec<u32> = self.processes.keys().copied().collect();
        processes.into_iter().for_each(|pid| self.end(pid));
        self.history.ends_unseen = self.ends_unseen();
        let History { blocks_unknown, ends_unseen, .. } = self.history;
        for (what, count) in [
            ("blocks whose touched pages are unknown, counted as touched whole", blocks_unknown),
            ("processes whose end, time and faults were not recorded", ends_unseen),
            ("blocks allocated twice, their release not recorded", self.twice),
            ("records of an empty range, or of 1 TiB and more", self.senseless),
        ] {
            if count > 0 {
                losses.push(Loss { what: what.to_owned(), count });
            }
        }
        let mut history = self.history;
        self.touched.sort_unstable();
        for (number, step) in history.steps.iter_mut().enumerate() {
            let from = self.touched.partition_point(|(opener, _)| (*opener as usize) < number);
            let to = self.touched.partition_point(|(opener, _)| (*opener as usize) <= number);
            step.touched = (from as u32, to as u32);
        }
        history.extents = self.touched.into_iter().map(|(_, extent)| extent).collect();
        history.losses = losses;
        history
    }

    /// Processes with blocks that have no usage record and did not exec another program.
    fn ends_unseen(&self) -> u64 {
        let History { processes, steps, .. } = &self.history;
        let last_of: BTreeMap<u32, u32> =
            (0..).zip(processes).map(|(number, process)| (process.pid, number)).collect();
        let with_blocks: BTreeSet<u32> = steps
            .iter()
            .filter(|step| step.action != Action::Exit)
            .map(|step| step.process)
            .collect();
        let is_unseen = |number: &&u32| {
            let process = &processes[**number as usize];
            process.usage.is_none() && last_of[&process.pid] == **number
        };
        with_blocks.iter().filter(is_unseen).count() as u64
    }

    fn process(&mut self, pid: u32) -> &mut Process {
        self.processes.entry(pid).or_insert_with(|| {
            let index = self.history.processes.len() as u32;
            self.history.processes.push(ProcessHistory { pid, ..ProcessHistory::default() });
            Process { index, ..Process::default() }
        })
    }

    /// Begins a process or, after an exec, another program; ends the process that had its pid.
    fn begin(&mut self, pid: u32, name: &str) {
        self.end(pid);
        let index = self.process(pid).index as usize;
        self.history.processes[index].name = name.to_owned();
    }

    fn name(&mut self, record: &Record) {
        let name = String::from_utf8_lossy(&record.program()).into_owned();
        // A fork began the process without a name.
        let is_new = self.processes.get(&record.process).is_some_and(|process| {
            let known = &self.history.processes[process.index as usize];
            known.name.is_empty() && known.usage.is_none()
        });
        if is_new {
            let index = self.process(record.process).index as usize;
            self.history.processes[index].name = name;
        } else {
            self.begin(record.process, &name);
        }
    }

    fn end(&mut self, pid: u32) {
        let Some(mut process) = self.processes.remove(&pid) else { return };
        for live in process.lives.take() {
            self.history.blocks_unknown += 1;
            self.report(&live, live.whole());
        }
        self.push(process.index, 0, Action::Exit);
    }

    fn push(&mut self, process: u32, block: u32, action: Action) -> u32 {
        let step = HistoryStep { time_ns: self.last_ns, process, block, action, touched: (0, 0) };
        self.history.steps.push(step);
        self.history.steps.len() as u32 - 1
    }

    fn report(&mut self, live: &Live, extent: PageExtent) {
        let touched = &mut self.touched;
        live.report(extent, &mut |step, extent| touched.push((step, extent)));
    }

    fn allocate(&mut self, record: &Record, range: Range) {
        let is_mapped = record.flags & flag::MAPPED != 0;
        self.history.in_heap += u64::from(record.flags & flag::IN_HEAP != 0);
        let process = self.process(record.process);
        let index = process.index;
        let resized = match record.flags & flag::RESIZED {
            0 => None,
            _ => match process.resizing.remove(&record.auxiliary) {
                // The history has no block for the old mapping, so the new mapping gets none either.
                None if is_mapped => return,
                found => found,
            },
        };
        let block = self.history.blocks.len() as u32;
        self.history.blocks.push(Block {
            bytes: record.object,
            pages: range.pages as u32,
            is_zeroed: record.flags & flag::ZEROED != 0,
            is_mapped,
        });
        let step = match resized {
            Some(step) => {
                self.history.steps[step as usize].action = Action::Resize { to: block };
                step
            }
            None => self.push(index, block, Action::Allocate),
        };
        let live = Live::new(block, is_mapped, range.first, range.pages as u32, step);
        if let Some(old) = self.process(record.process).lives.insert(live) {
            self.twice += 1;
            self.report(&old, old.whole());
            self.push(index, old.block, Action::Free);
        }
    }

    fn free(&mut self, record: &Record, range: Range) {
        let extents = self.reported(record, range);
        let process = self.process(record.process);
        let index = process.index;
        process.resizing.remove(&record.auxiliary);
        let is_mapped = record.flags & flag::MAPPED != 0;
        let found = match is_mapped {
            true => process.lives.overlapping(range.first, range.pages),
            false => vec![range.first],
        };
        for start in found {
            let Some(live) = self.process(record.process).lives.get(start).cloned() else {
                continue;
            };
            let Some(part) = live.part(range.first, range.pages) else { continue };
            if is_mapped && !live.is_mapped {
                continue;
            }
            self.report_extents(&live, &extents);
            let lives = &mut self.process(record.process).lives;
            if record.flags & flag::AT_END != 0 {
                lives.remove(start);
            } else if is_mapped && lives.get_mut(start).is_some_and(|live| !live.cut(part)) {
                self.push(index, live.block, Action::Cut(part));
            } else {
                let step = self.push(index, live.block, Action::Free);
                let process = self.process(record.process);
                process.lives.remove(start);
                if record.flags & flag::RESIZED != 0 {
                    process.resizing.insert(record.auxiliary, step);
                }
            }
        }
    }

    fn discard(&mut self, record: &Record, range: Range) {
        let extents = self.reported(record, range);
        let process = self.process(record.process);
        let index = process.index;
        for start in process.lives.overlapping(range.first, range.pages) {
            let Some(live) = self.process(record.process).lives.get(start).cloned() else {
                continue;
            };
            let Some(extent) = live.part(range.first, range.pages) else { continue };
            self.report_extents(&live, &extents);
            let is_lazy = record.flags & flag::LAZY != 0;
            let step = self.push(index, live.block, Action::Discard { extent, is_lazy });
            if let Some(live) = self.process(record.process).lives.get_mut(start) {
                live.reopen(step, extent);
            }
        }
    }

    fn report_extents(&mut self, live: &Live, extents: &[(u64, u64)]) {
        for &(first, pages) in extents {
            if let Some(extent) = live.part(first, pages) {
                self.report(live, extent);
            }
        }
    }

    /// The touched pages that a record completes: the ranges reported before it, and the first pages of
    /// its own range.
    fn reported(&mut self, record: &Record, range: Range) -> Vec<(u64, u64)> {
        let process = self.process(record.process);
        let mut extents = process.pending.remove(&record.auxiliary).unwrap_or_default();
        if record.flags & flag::UNKNOWN != 0 {
            self.history.blocks_unknown += 1;
            return vec![(range.first, range.pages)];
        }
        let reported: u64 = extents.iter().map(|(_, pages)| pages).sum();
        let first = u64::from(record.device).saturating_sub(reported).min(range.pages);
        if first > 0 {
            extents.push((range.first, first));
        }
        extents
    }
}
