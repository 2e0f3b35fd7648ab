//! Adds up what each process does while launches last.

use std::collections::BTreeMap;

use super::evicted::FileId;
use super::schedule::{Segment, State};
use super::tasks::ProcessIndex;

/// Processes and files of a launch that have counts of their own; further ones are not counted.
const PROCESSES_MAX: usize = 4096;
const FILES_MAX: usize = 1 << 16;

/// Times of threads, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Running.
    pub running_ns: i64,
    /// Ready, without a CPU.
    pub runnable_ns: i64,
    /// Waiting uninterruptibly for I/O.
    pub io_ns: i64,
    /// Waiting uninterruptibly for something else, or for what the trace does not say.
    pub uninterruptible_ns: i64,
    /// Sleeping.
    pub sleeping_ns: i64,
    /// In direct reclaim.
    pub reclaim_ns: i64,
}

impl Times {
    fn add(&mut self, state: State, time_ns: i64) {
        let time = match state {
            State::Running => &mut self.running_ns,
            State::Runnable => &mut self.runnable_ns,
            State::Io => &mut self.io_ns,
            State::Uninterruptible | State::Unexplained => &mut self.uninterruptible_ns,
            State::Sleeping => &mut self.sleeping_ns,
        };
        *time = time.saturating_add(time_ns);
    }

    /// The sum of two.
    pub fn plus(self, other: Times) -> Times {
        Times {
            running_ns: self.running_ns.saturating_add(other.running_ns),
            runnable_ns: self.runnable_ns.saturating_add(other.runnable_ns),
            io_ns: self.io_ns.saturating_add(other.io_ns),
            uninterruptible_ns: self.uninterruptible_ns.saturating_add(other.uninterruptible_ns),
            sleeping_ns: self.sleeping_ns.saturating_add(other.sleeping_ns),
            reclaim_ns: self.reclaim_ns.saturating_add(other.reclaim_ns),
        }
    }
}

/// When an app's process reached a step of a launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// Whether the process was bound, or started or resumed an activity.
    pub is_of_app: bool,
    /// Whether an activity was made.
    pub is_activity_made: bool,
    /// Whether an activity was made or resumed.
    pub is_activity_shown: bool,
    /// When the app was fully drawn.
    pub fully_drawn_ns: Option<i64>,
}

/// What a process did during a launch.
#[derive(Clone, Copy, Debug, Default)]
pub struct Part {
    /// Times of the first thread.
    pub main: Times,
    /// Times of the other threads.
    pub others: Times,
    /// Time that swap-ins took, by mm_event_record.
    pub swap_in_ns: i64,
    /// Bytes by which swap became smaller.
    pub swap_in_bytes: u64,
    /// Bytes read into the page cache.
    pub cache_bytes: u64,
    /// The part of these that was read again.
    pub refault_bytes: u64,
    /// What the process reached.
    pub steps: Steps,
}

/// What all processes did from a time on.
#[derive(Clone, Debug, Default)]
pub struct Split {
    /// The begin, in nanoseconds.
    pub from_ns: i64,
    /// Parts by process.
    pub parts: BTreeMap<ProcessIndex, Part>,
    /// Bytes by process and file, and how many of these were read again.
    pub files: BTreeMap<(ProcessIndex, FileId), (u64, u64)>,
    /// Processor time of kswapd.
    pub kswapd_ns: i64,
    /// Threads that waited uninterruptibly at the end, for what the trace says only later: the process, whether it
    /// is its first thread, and the time within the launch.
    waits: BTreeMap<u32, (ProcessIndex, bool, i64)>,
}

impl Split {
    /// A split that begins at a time.
    pub fn from(from_ns: i64) -> Split {
        Split { from_ns, ..Split::default() }
    }

    /// The part of a process; `None` if there are too many.
    pub fn part(&mut self, process: ProcessIndex) -> Option<&mut Part> {
        if self.parts.len() >= PROCESSES_MAX && !self.parts.contains_key(&process) {
            return None;
        }
        Some(self.parts.entry(process).or_default())
    }

    /// How much of a time lies after the begin, in nanoseconds.
    pub fn clipped(&self, from_ns: i64, to_ns: i64) -> i64 {
        to_ns.saturating_sub(from_ns.max(self.from_ns)).max(0)
    }

    /// Adds the state of a thread.
    pub fn add_state(
        &mut self,
        process: ProcessIndex,
        is_main: bool,
        state: State,
        (from_ns, to_ns): (i64, i64),
    ) {
        let time_ns = self.clipped(from_ns, to_ns);
        if time_ns == 0 {
            return;
        }
        if let Some(part) = self.part(process) {
            let times = if is_main { &mut part.main } else { &mut part.others };
            times.add(state, time_ns);
        }
    }

    /// Adds the state of a thread that lasts at the end.
    pub fn add_last_state(&mut self, process: ProcessIndex, is_main: bool, segment: &Segment) {
        let times = (segment.from_ns, segment.to_ns);
        self.add_state(process, is_main, segment.state, times);
        if segment.state == State::Unexplained && self.parts.contains_key(&process) {
            let time_ns = self.clipped(times.0, times.1);
            self.waits.insert(segment.tid, (process, is_main, time_ns));
        }
    }

    /// Takes what a thread did that waited at the end: if the wait was for I/O, its part counts as such.
    pub fn explain(&mut self, segment: &Segment) {
        let Some((process, is_main, time_ns)) = self.waits.remove(&segment.tid) else { return };
        if segment.state == State::Io
            && let Some(part) = self.parts.get_mut(&process)
        {
            let times = if is_main { &mut part.main } else { &mut part.others };
            times.uninterruptible_ns -= time_ns;
            times.io_ns = times.io_ns.saturating_add(time_ns);
        }
    }

    /// Adds direct reclaim of a thread.
    pub fn add_reclaim(
        &mut self,
        process: ProcessIndex,
        is_main: bool,
        (from_ns, to_ns): (i64, i64),
    ) {
        let time_ns = self.clipped(from_ns, to_ns);
        if time_ns == 0 {
            return;
        }
        if let Some(part) = self.part(process) {
            let times = if is_main { &mut part.main } else { &mut part.others };
            times.reclaim_ns = times.reclaim_ns.saturating_add(time_ns);
        }
    }

    /// Adds bytes that a process read into the page cache.
    pub fn add_read(&mut self, process: ProcessIndex, file: FileId, bytes: u64, refaults: u64) {
        if let Some(part) = self.part(process) {
            part.cache_bytes = part.cache_bytes.saturating_add(bytes);
            part.refault_bytes = part.refault_bytes.saturating_add(refaults);
        }
        let key = (process, file);
        if self.files.len() < FILES_MAX || self.files.contains_key(&key) {
            let read = self.files.entry(key).or_default();
            read.0 = read.0.saturating_add(bytes);
            read.1 = read.1.saturating_add(refaults);
        }
    }
}
