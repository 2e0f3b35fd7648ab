//! Signs of memory shortage in a recording besides its events: stalls and kills.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::recording::moments::Moment;

/// Largest number of stalls; beyond it every second stall is dropped.
const STALLS_KEPT: usize = 2048;

/// Largest number of kills that are listed.
const KILLS_KEPT: usize = 1024;

/// Stalls for memory and processes that were killed, each in order of time on the recording's own
/// clock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Shortage {
    /// Whether the stalls are those of the recorded cgroup; otherwise those of the machine.
    pub is_of_cgroup: bool,
    /// Sums of stall time at several instants.
    pub stalls: Vec<Stall>,
    /// The first processes that were killed.
    pub kills: Vec<Killed>,
    /// Number of further kills.
    pub kills_left_out: u64,
    /// Names by pid at the last moment, because a victim may be missing in the next moment.
    #[serde(skip)]
    names: BTreeMap<u32, String>,
}

/// Sums of stall time (PSI) at an instant.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub struct Stall {
    /// Time of the sums, in nanoseconds.
    pub time_ns: i64,
    /// Microseconds in which some task stalled for memory, so far.
    pub some_us: u64,
    /// Microseconds in which every task stalled for memory, so far.
    pub full_us: u64,
}

/// A process that got SIGKILL.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Killed {
    /// Time of the kill, in nanoseconds.
    pub time_ns: i64,
    /// Pid of the process.
    pub pid: u32,
    /// Name of the process; empty if the recording has none.
    pub name: String,
    /// Whether the kernel's OOM killer chose the process.
    pub is_of_kernel: bool,
}

impl Shortage {
    /// The shortage for a header; `None` if the recording has neither stalls nor kills.
    pub(crate) fn known(&self) -> Option<Shortage> {
        let is_known = !self.stalls.is_empty() || !self.kills.is_empty();
        is_known.then(|| Shortage { names: BTreeMap::new(), ..self.clone() })
    }

    /// Adds the machine's sums, unless those of a cgroup are known.
    pub(crate) fn stall_of_machine(&mut self, stall: Stall) {
        if !self.is_of_cgroup {
            self.stall(stall);
        }
    }

    /// Adds a moment of the recorded cgroup or, unless `is_of_cgroup`, of the machine.
    pub(crate) fn moment(&mut self, moment: &Moment, is_of_cgroup: bool) {
        let named = moment.processes.iter().map(|process| (process.process, process.name.clone()));
        self.names = named.collect();
        for kill in self.kills.iter_mut().filter(|kill| kill.name.is_empty()) {
            kill.name = self.names.get(&kill.pid).cloned().unwrap_or_default();
        }
        let (Some(some_us), Some(full_us)) = (moment.memory.some_us, moment.memory.full_us) else {
            return;
        };
        if is_of_cgroup {
            if !self.is_of_cgroup {
                self.stalls.clear();
            }
            self.is_of_cgroup = true;
            self.stall(Stall { time_ns: moment.time_ns as i64, some_us, full_us });
        }
    }

    fn stall(&mut self, stall: Stall) {
        self.stalls.push(stall);
        if self.stalls.len() == STALLS_KEPT {
            // These are sums, so a later sum includes the dropped stalls before it.
            let mut is_kept = false;
            self.stalls.retain(|_| {
                is_kept = !is_kept;
                is_kept
            });
        }
    }

    /// Adds a kill. If the same process gets a second SIGKILL, the kill counts as the kernel's own if
    /// either is.
    pub(crate) fn kill(&mut self, mut kill: Killed) {
        if kill.name.is_empty() {
            kill.name = self.names.get(&kill.pid).cloned().unwrap_or_default();
        }
        let before = self.kills.iter_mut().rev().find(|before| before.pid == kill.pid);
        if let Some(before) = before
            && kill.time_ns.saturating_sub(before.time_ns) < SAME_KILL_NS
        {
            before.is_of_kernel |= kill.is_of_kernel;
        } else if self.kills.len() < KILLS_KEPT {
            self.kills.push(kill);
        } else {
            self.kills_left_out += 1;
        }
    }

    /// Keeps the stalls and kills in a range of times, whose end is exclusive.
    pub(crate) fn keep(&mut self, (from_ns, to_ns): (i64, i64)) {
        let times = from_ns..to_ns;
        self.stalls.retain(|stall| times.contains(&stall.time_ns));
        self.kills.retain(|kill| times.contains(&kill.time_ns));
    }

    /// Adds the stalls and kills of another slice of the same recording.
    pub(crate) fn join(&mut self, other: Shortage) {
        self.is_of_cgroup |= other.is_of_cgroup;
        self.stalls.extend(other.stalls);
        self.stalls.sort_unstable();
        self.stalls.dedup();
        self.kills.extend(other.kills);
        self.kills.sort_unstable();
        self.kills.dedup();
        self.kills_left_out = self.kills_left_out.max(other.kills_left_out);
    }
}

/// Two signals to the same process within this time are one kill.
const SAME_KILL_NS: i64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::moments::{MemoryState, ProcessState};

    fn killed(time_ns: i64, pid: u32, is_of_kernel: bool) -> Killed {
        Killed { time_ns, pid, name: String::new(), is_of_kernel }
    }

    #[test]
    fn stalls_are_thinned_out_and_keep_their_first_and_last() {
        let mut shortage = Shortage::default();
        for second in 0..10_000 {
            let us = second as u64 * 3;
            let time_ns = second * 1_000_000_000;
            shortage.stall_of_machine(Stall { time_ns, some_us: us, full_us: us });
        }
        let stalls = &shortage.stalls;
        assert!(stalls.len() < STALLS_KEPT && stalls.len() > STALLS_KEPT / 4, "{}", stalls.len());
        assert!(stalls.is_sorted() && stalls[0].time_ns == 0);
        assert!(stalls.last().unwrap().time_ns > 9_990_000_000_000);
    }

    #[test]
    fn moments_name_victims_and_replace_the_stalls_of_the_machine() {
        let mut shortage = Shortage::default();
        shortage.stall_of_machine(Stall { time_ns: 5, some_us: 9, full_us: 9 });
        shortage.kill(killed(7, 3, false));
        shortage.kill(killed(8, 3, true));
        let process = ProcessState { process: 3, name: "hog".into(), ..Default::default() };
        let memory = MemoryState { some_us: Some(2), full_us: Some(1), ..Default::default() };
        let moment = Moment { time_ns: 9, memory, processes: vec![process], victim: None };
        shortage.moment(&moment, true);
        shortage.stall_of_machine(Stall { time_ns: 10, some_us: 90, full_us: 90 });
        assert_eq!(shortage.stalls, [Stall { time_ns: 9, some_us: 2, full_us: 1 }]);
        let kill = Killed { name: "hog".into(), ..killed(7, 3, true) };
        assert_eq!(shortage.kills, [kill]);
        assert!(shortage.is_of_cgroup);
        // The process is missing in the moment after its end.
        shortage.kill(killed(9_000_000_000, 3, false));
        shortage.moment(&Moment { time_ns: 9_000_000_001, ..Default::default() }, true);
        assert_eq!(shortage.kills[1].name, "hog");
    }

    #[test]
    fn a_later_kill_of_the_same_pid_is_another_kill() {
        let mut shortage = Shortage::default();
        shortage.kill(killed(0, 3, false));
        shortage.kill(killed(SAME_KILL_NS, 3, false));
        assert_eq!(shortage.kills.len(), 2);
    }

    #[test]
    fn joined_slices_have_the_stalls_and_kills_of_the_whole() {
        let mut whole = Shortage::default();
        for time_ns in 0..10 {
            whole.stall_of_machine(Stall { time_ns, some_us: 1, full_us: 0 });
            whole.kill(killed(time_ns, time_ns as u32, false));
        }
        let (mut first, mut second) = (whole.clone(), whole.clone());
        first.keep((0, 6));
        second.keep((4, 10));
        assert_eq!(first.stalls.len(), 6);
        first.join(second);
        assert_eq!(first, whole);
    }
}
