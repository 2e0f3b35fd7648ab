//! Plays a history to one allocator per process, touches the same pages as the program, and takes frames
//! back in the paper's order when memory is short (S3.4, M3): compaction, which frees nothing when
//! every frame is one page; reclaim, which takes the frames of pools, since there are no others to
//! take without swap; and only then a kill of the largest process.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;
use trace::allocations::{Action, History, HistoryStep, PageExtent};
use types::{Bytes, PAGE_BYTES};

use super::allocators::{Allocator, Held, Row, Wanted};
use super::kernel::Kernel;
use super::outcome::{AllocatorOutcome, Counts, InUse};
use super::space::{Frames, Page, Space};

/// Frames reclaimed at a time, as in kernels.
const RECLAIM_BATCH: u64 = 32;

/// Idle time after the last step, before idle memory is measured.
const IDLE_NS: u64 = 5_000_000_000;

/// Number of steps of the timeline.
const PARTS: u64 = 200;

/// Options of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Frames of the machine; none: no limit.
    pub budget_pages: Option<u64>,
    /// Whether an allocator in the program learns of pressure before a kill. In bursts it does not
    /// (programs of 160 MiB in 200 died so).
    pub hears_pressure: bool,
}

/// Replays `history` once per run, on all cores; outcomes in the order of the runs.
pub fn replay_all(history: &History, runs: &[(&Row, Options)]) -> Vec<AllocatorOutcome> {
    runs.par_iter().map(|(row, options)| replay(history, row, *options)).collect()
}

/// Replays `history` against the allocator `row`.
pub fn replay(history: &History, row: &Row, options: Options) -> AllocatorOutcome {
    let memory = match (options.budget_pages, history.about.memory_bytes) {
        (Some(pages), _) => pages * PAGE_BYTES,
        (None, 0) => u64::MAX,
        (None, bytes) => bytes,
    };
    let machine = Machine {
        options,
        processes: history.processes.iter().map(|_| Process::new(row, Bytes(memory))).collect(),
        active: Vec::new(),
        frames: Frames::default(),
        counts: Counts::default(),
        now: 0,
    };
    let mut driver = Driver {
        history,
        machine,
        outcome: AllocatorOutcome {
            allocator: row.name.to_owned(),
            budget_pages: options.budget_pages,
            ..AllocatorOutcome::default()
        },
    };
    history.steps.iter().for_each(|step| driver.step(step));
    driver.finish()
}

/// One process: its memory, its allocator, and the places of its blocks.
struct Process {
    space: Space,
    allocator: Box<dyn Allocator>,
    /// First page of each of its blocks.
    blocks: BTreeMap<u32, u32>,
    /// Unmapped parts, as pages of the space.
    cut: BTreeSet<u32>,
    is_over: bool,
}

impl Process {
    fn new(row: &Row, memory: Bytes) -> Process {
        Process {
            space: Space::default(),
            allocator: (row.build)(memory),
            blocks: BTreeMap::new(),
            cut: BTreeSet::new(),
            is_over: false,
        }
    }
}

/// All processes and the frames that they share.
struct Machine {
    options: Options,
    processes: Vec<Process>,
    /// Processes with a block that have not ended: most of a command's processes never are among them.
    active: Vec<usize>,
    frames: Frames,
    counts: Counts,
    now: u64,
}

impl Machine {
    /// Runs `work` with the allocator of a process and the kernel.
    fn with<T>(
        &mut self,
        process: usize,
        work: impl FnOnce(&mut dyn Allocator, &mut Kernel<'_>) -> T,
    ) -> T {
        let Machine { processes, frames, counts, now, .. } = self;
        let Process { space, allocator, .. } = &mut processes[process];
        work(&mut **allocator, &mut Kernel { space, frames, counts, now: *now })
    }

    fn set(&mut self, process: usize, page: u32, to: Page) {
        self.processes[process].space.set(page, to, self.now, &mut self.frames);
    }

    fn touch(&mut self, process: usize, page: u32) {
        match self.processes[process].space.page(page) {
            Page::Absent => {
                if !self.make_room(true) || self.processes[process].is_over {
                    return;
                }
                self.counts.faults += 1;
                self.set(process, page, Page::Dirty);
            }
            Page::Zero => self.set(process, page, Page::Dirty),
            Page::Lazy => {
                self.counts.lazy_touches += 1;
                self.set(process, page, Page::Dirty);
            }
            Page::Dirty => {}
        }
    }

    fn populate(&mut self, process: usize, page: u32) {
        let is_absent = self.processes[process].space.page(page) == Page::Absent;
        // No process is killed for pages that are not touched yet.
        if is_absent && self.make_room(false) {
            self.counts.pages_populated += 1;
            self.set(process, page, Page::Zero);
        }
    }

    /// Makes a frame free; false if it cannot.
    fn make_room(&mut self, may_kill: bool) -> bool {
        let Some(budget) = self.options.budget_pages else { return true };
        while self.frames.resident >= budget {
            self.reclaim();
            if self.frames.resident >= budget && self.options.hears_pressure {
                self.report_pressure();
            }
            if self.frames.resident >= budget && !(may_kill && self.kill_largest()) {
                return false;
            }
        }
        true
    }

    fn report_pressure(&mut self) {
        for place in 0..self.active.len() {
            self.with(self.active[place], |allocator, kernel| allocator.pressure(kernel));
        }
    }

    /// Takes lazily freed pages, the oldest first; among equals those of the largest process.
    fn reclaim(&mut self) {
        for _ in 0..RECLAIM_BATCH {
            let processes = &mut self.processes;
            let ages = self.active.iter().filter_map(|&number| {
                let space = &mut processes[number].space;
                Some((space.lazy_since()?, Reverse(space.resident()), number))
            });
            let oldest = ages.min();
            let Some((_, _, number)) = oldest else { return };
            if self.processes[number].space.take_lazy(&mut self.frames) {
                self.counts.pages_reclaimed += 1;
            }
        }
    }

    fn kill_largest(&mut self) -> bool {
        let sizes = self
            .active
            .iter()
            .map(|&number| (self.processes[number].space.resident(), Reverse(number)));
        let largest = sizes.filter(|(resident, _)| *resident > 0).max();
        let Some((_, Reverse(number))) = largest else { return false };
        let pooled = self.frames.resident - self.frames.live;
        self.counts.kills += 1;
        self.counts.pages_pooled_at_kill = self.counts.pages_pooled_at_kill.max(pooled);
        self.end(number);
        true
    }

    fn end(&mut self, process: usize) {
        let ended = &mut self.processes[process];
        ended.is_over = true;
        ended.space.clear(&mut self.frames);
        ended.blocks.clear();
        self.active.retain(|&other| other != process);
    }
}

struct Driver<'a> {
    history: &'a History,
    machine: Machine,
    outcome: AllocatorOutcome,
}

impl Driver<'_> {
    fn step(&mut self, step: &HistoryStep) {
        self.pass_time(step.time_ns);
        let process = step.process as usize;
        if self.machine.processes[process].is_over {
            return;
        }
        match step.action {
            Action::Allocate => self.allocate(process, step.block),
            Action::Free => self.free(process, step.block),
            Action::Resize { to } => self.resize(process, step.block, to),
            Action::Cut(extent) => self.cut(process, step.block, extent),
            Action::Discard { extent, is_lazy } => {
                self.discard(process, step.block, extent, is_lazy)
            }
            Action::Exit => return self.exit(process),
        }
        let touched = match step.action {
            Action::Resize { to } => to,
            _ => step.block,
        };
        for &extent in self.history.touched(step) {
            self.touch(process, touched, extent);
        }
        self.note();
    }

    /// Lets threads of allocators act at their due time, not at the next step.
    fn pass_time(&mut self, until: u64) {
        const STEP_NS: u64 = 100_000_000;
        while self.machine.now + STEP_NS < until {
            self.machine.now += STEP_NS;
            self.act_on_time();
            self.note();
        }
        self.machine.now = until.max(self.machine.now);
        self.act_on_time();
    }

    fn act_on_time(&mut self) {
        for place in 0..self.machine.active.len() {
            let process = self.machine.active[place];
            self.machine.with(process, |allocator, kernel| allocator.pass_time(kernel));
        }
    }

    fn wanted(&self, block: u32) -> Wanted {
        let block = &self.history.blocks[block as usize];
        Wanted { pages: block.pages, is_zeroed: block.is_zeroed, is_mapped: block.is_mapped }
    }

    fn held(&self, block: u32, first: u32) -> Held {
        let block = &self.history.blocks[block as usize];
        Held { first, pages: block.pages, is_mapped: block.is_mapped }
    }

    fn allocate(&mut self, process: usize, block: u32) {
        let wanted = self.wanted(block);
        if !self.machine.active.contains(&process) {
            self.machine.active.push(process);
        }
        let placed = self.machine.with(process, |allocator, kernel| {
            let placed = allocator.allocate(wanted, kernel);
            kernel.space.set_live(placed.first, wanted.pages, true, kernel.frames);
            placed
        });
        self.machine.processes[process].blocks.insert(block, placed.first);
        for page in placed.first..placed.first + placed.populated_pages {
            self.machine.populate(process, page);
        }
    }

    fn free(&mut self, process: usize, block: u32) {
        let Some(first) = self.machine.processes[process].blocks.remove(&block) else { return };
        let held = self.held(block, first);
        for part in self.machine.processes[process].parts(held) {
            self.machine.with(process, |allocator, kernel| {
                kernel.space.set_live(part.first, part.pages, false, kernel.frames);
                allocator.free(part, kernel);
            });
        }
    }

    fn resize(&mut self, process: usize, block: u32, to: u32) {
        let Some(&first) = self.machine.processes[process].blocks.get(&block) else { return };
        let (held, wanted) = (self.held(block, first), self.wanted(to));
        let kept = held.pages.min(wanted.pages);
        let carried: Vec<u32> = (0..kept)
            .filter(|page| self.machine.processes[process].space.page(first + page) != Page::Absent)
            .collect();
        let moved = self.machine.with(process, |allocator, kernel| {
            kernel.space.set_live(first, held.pages, false, kernel.frames);
            let moved = allocator.resize(held, wanted, kernel);
            match moved {
                Some(to) => kernel.space.set_live(to, wanted.pages, true, kernel.frames),
                None => kernel.space.set_live(first, held.pages, true, kernel.frames),
            }
            moved
        });
        if let Some(place) = moved {
            let blocks = &mut self.machine.processes[process].blocks;
            blocks.remove(&block);
            blocks.insert(to, place);
            return;
        }
        self.allocate(process, to);
        for page in carried {
            self.touch(process, to, PageExtent { first: page, pages: 1 });
        }
        self.note();
        self.free(process, block);
    }

    fn cut(&mut self, process: usize, block: u32, extent: PageExtent) {
        let Some(&first) = self.machine.processes[process].blocks.get(&block) else { return };
        let part = Held { first: first + extent.first, pages: extent.pages, is_mapped: true };
        let parts = self.machine.processes[process].parts(part);
        self.machine.processes[process].cut.extend(part.first..part.first + part.pages);
        for part in parts {
            self.machine.with(process, |allocator, kernel| {
                kernel.space.set_live(part.first, part.pages, false, kernel.frames);
                allocator.free(part, kernel);
            });
        }
    }

    fn discard(&mut self, process: usize, block: u32, extent: PageExtent, is_lazy: bool) {
        let Some(&first) = self.machine.processes[process].blocks.get(&block) else { return };
        self.machine.with(process, |_, kernel| match is_lazy {
            true => kernel.lazily_free(first + extent.first, extent.pages),
            false => kernel.discard(first + extent.first, extent.pages),
        });
    }

    fn touch(&mut self, process: usize, block: u32, extent: PageExtent) {
        for page in extent.first..extent.end() {
            // If the process was killed meanwhile, its blocks are gone.
            let Some(&first) = self.machine.processes[process].blocks.get(&block) else { return };
            self.machine.touch(process, first + page);
        }
    }

    /// Lets the process idle for a while, with its remaining memory, and ends it.
    fn exit(&mut self, process: usize) {
        let (ended_at, counts) = (self.machine.now, self.machine.counts);
        for second in 1..=IDLE_NS / 1_000_000_000 {
            self.machine.now = ended_at + second * 1_000_000_000;
            self.machine.with(process, |allocator, kernel| allocator.pass_time(kernel));
        }
        // The idling was hypothetical.
        (self.machine.now, self.machine.counts) = (ended_at, counts);
        let Machine { processes, frames, .. } = &mut self.machine;
        let (live_all, ended) = (frames.live, &mut processes[process]);
        self.outcome.pages_resident_idle += ended.space.resident();
        self.machine.end(process);
        self.outcome.pages_live_idle += live_all - self.machine.frames.live;
    }

    /// Records memory in use: the maximum of each step of the timeline.
    fn note(&mut self) {
        let Frames { resident, live } = self.machine.frames;
        let outcome = &mut self.outcome;
        outcome.pages_resident_max = outcome.pages_resident_max.max(resident);
        outcome.pages_live_max = outcome.pages_live_max.max(live);
        let part_ns = (self.history.duration_ns() / PARTS).max(1);
        let time_ns = self.machine.now / part_ns * part_ns;
        let noted = InUse { time_ns, pages_resident: resident, pages_live: live };
        match outcome.timeline.last_mut() {
            Some(last) if last.time_ns == time_ns => {
                if resident > last.pages_resident {
                    *last = noted;
                }
            }
            _ => outcome.timeline.push(noted),
        }
    }

    fn finish(self) -> AllocatorOutcome {
        AllocatorOutcome { counts: self.machine.counts, ..self.outcome }
    }
}

impl Process {
    /// The parts of a range that were not unmapped before.
    fn parts(&mut self, held: Held) -> Vec<Held> {
        let mut parts: Vec<Held> = Vec::new();
        let end = held.first + held.pages;
        let cut: Vec<u32> = self.cut.range(held.first..end).copied().collect();
        let mut first = held.first;
        for page in cut.into_iter().chain([end]) {
            if page > first {
                parts.push(Held { first, pages: page - first, ..held });
            }
            first = page + 1;
        }
        for page in held.first..end {
            self.cut.remove(&page);
        }
        parts
    }
}
