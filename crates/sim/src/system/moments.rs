//! Memory and processes of a trace as the moments that `replay-kills` replays.

use policy::kill;
use trace::recording::moments::{Found, Liveness, MemoryState as Memory, Moment, ProcessState};
use trace::system::Names;

use super::memory::{Meminfo, StallSample};
use super::tasks::Tasks;
use crate::kills::{ReplayOutcome, Replayer, Settings};

/// Policies that are replayed.
const POLICIES: [&str; 2] = ["lmkd", "largest"];

/// Moments that are replayed; further samples are not.
const MOMENTS_MAX: u64 = 100_000;

/// Processes of a moment.
const PROCESSES_MAX: usize = 4096;

/// The fewest processes with known memory and oom_score_adj that a replay needs.
const PROCESSES_MIN: usize = 2;

/// Replays kill policies on the samples of a trace.
pub struct TraceReplay {
    replayer: Replayer,
    moments: u64,
    last_ns: i64,
}

impl Default for TraceReplay {
    fn default() -> TraceReplay {
        let policies = POLICIES
            .iter()
            .filter_map(|&name| Some((name.to_owned(), kill::find(name).ok()?.build(&[]).ok()?)))
            .collect();
        TraceReplay {
            replayer: Replayer::new(policies, Settings::default()),
            moments: 0,
            last_ns: i64::MIN,
        }
    }
}

impl TraceReplay {
    /// Takes the state of memory and processes at this time, before the kill of `victim` if it is one.
    pub fn take(
        &mut self,
        time_ns: i64,
        victim: Option<(u32, bool)>,
        memory: Meminfo,
        stall: Option<StallSample>,
        (tasks, names): (&Tasks, &Names),
    ) {
        let Some(time) = u64::try_from(time_ns).ok().filter(|_| time_ns >= self.last_ns) else {
            return;
        };
        if let Some((process, is_of_kernel)) = victim {
            self.replayer.take(Found::Kill { time_ns: time, process, sender: 0, is_of_kernel });
        }
        let (Some(total), Some(free), Some(available)) =
            (memory.total, memory.free, memory.available)
        else {
            return;
        };
        let processes = processes(tasks, names);
        if processes.len() < PROCESSES_MIN || self.moments >= MOMENTS_MAX {
            return;
        }
        self.last_ns = time_ns;
        self.moments += 1;
        let swap_total = memory.swap_total.unwrap_or(0);
        let swap_free = memory.swap_free.unwrap_or(0);
        let moment = Moment {
            time_ns: time,
            memory: Memory {
                total,
                free,
                available,
                files: memory.cached.unwrap_or(0),
                swap_total,
                swap_free,
                some_us: stall.map(|stall| stall.some_us),
                full_us: stall.and_then(|stall| stall.full_us),
                ..Memory::default()
            },
            processes,
            victim: victim.map(|(pid, _)| pid),
        };
        self.replayer.take(Found::Moment(Box::new(moment)));
    }

    /// The outcome; `None` if the trace does not have memory and processes.
    pub fn finish(self) -> Option<ReplayOutcome> {
        (self.moments > 0).then(|| self.replayer.finish())
    }
}

/// The living processes with known memory and oom_score_adj, by pid.
fn processes(tasks: &Tasks, names: &Names) -> Vec<ProcessState> {
    let mut found: Vec<ProcessState> = tasks
        .all()
        .filter(|(_, process)| process.end_ns.is_none())
        .filter_map(|(index, process)| {
            let resident = process.resident_bytes().filter(|&bytes| bytes > 0)?;
            Some(ProcessState {
                process: process.pid,
                name: process.text(names),
                start: u64::from(index),
                adj: i16::try_from(process.adj?).ok()?,
                resident,
                swapped: process.swap_bytes.unwrap_or(0),
                own: process.anonymous_bytes,
                life: Liveness::default(),
                parent: process.parent,
                ..ProcessState::default()
            })
        })
        .take(PROCESSES_MAX)
        .collect();
    found.sort_by_key(|state| state.process);
    // Of two with one number, the later one lives.
    found.dedup_by(|later, earlier| {
        let is_same = later.process == earlier.process;
        if is_same && later.start > earlier.start {
            std::mem::swap(later, earlier);
        }
        is_same
    });
    found
}
