//! Moments at kills. A look at `/proc` after a kill does not show what the killer saw, because the victim
//! frees its memory within milliseconds. So a moment at a kill combines two sources: the kernel's notice from the
//! instant of the signal has the victim and the free memory; a look at once after it has all other
//! processes. A kill without such a notice has no moment.
//!
//! Order of events, by CLOCK_MONOTONIC: last look <= notice <= this look. Memory that a process frees between
//! the notice and this look is added back to the moment.

use std::collections::BTreeMap;

use trace::recording::moments::{
    Liveness, MemoryState, Moment, ProcessState, STUCK_AFTER_NS, Weight,
};

use crate::notices::{Notice, Victim};
use crate::scene::Look;

/// The most moments of kills in a burst, and the rate per second after it. Further kills get no moment: a
/// moment of a hundred processes costs about 6 ms of CPU time.
const BURST: u64 = 32;
const PER_SECOND: u64 = 20;
/// The error of a count in a notice: 32 pages of 4 KiB on each of eight processors (percpu_counter_batch in
/// lib/percpu_counter.c).
const COUNT_ERROR: u64 = 1 << 20;
/// A killed process that does not end is forgotten after this time.
const FORGET_AFTER_NS: u64 = 30_000_000_000;

/// A victim that has ended before the look counts as dying only for this long after its kill. Later, its memory may
/// have come back without a rise of free memory, because other processes took as much.
const ENDED_WITHIN_NS: u64 = 10_000_000;
/// A look at processes follows a notice within this time, unless the recorder is held up.
const SEEN_WITHIN_NS: u64 = 1_000_000;

/// Makes moments from looks and notices.
#[derive(Default)]
pub struct Moments {
    /// All processes at the last look.
    last: BTreeMap<u32, ProcessState>,
    /// Free memory at the last look.
    last_free: Option<u64>,
    dying: Vec<Dying>,
    budget: Budget,
}

/// A process that got SIGKILL.
#[derive(Clone, Debug)]
struct Dying {
    /// The state of the process at the kill.
    had: ProcessState,
    killed_ns: u64,
    /// Free memory at the kill.
    free: u64,
    /// The smallest size that was seen since then, and when.
    least: u64,
    progressed_ns: u64,
    /// When the process was first seen to have ended, since the last look.
    ended_ns: Option<u64>,
}

impl Moments {
    /// Whether a killed process is not known to have ended.
    pub fn is_watching(&self) -> bool {
        self.dying.iter().any(|dying| dying.ended_ns.is_none())
    }

    /// Whether `process` got SIGKILL and is not known to have ended.
    pub fn is_dying(&self, process: u32) -> bool {
        self.dying.iter().any(|dying| dying.had.process == process && dying.ended_ns.is_none())
    }

    /// Notes how much memory the killed processes still have. `now` returns the remaining memory of a process: None
    /// once it has ended, 0 bytes if it has no address space any more.
    pub fn watch(&mut self, time_ns: u64, mut now: impl FnMut(u32) -> Option<Remains>) {
        for dying in &mut self.dying {
            let remains = now(dying.had.process).filter(|now| now.start == dying.had.start);
            let is_late = time_ns.saturating_sub(dying.killed_ns) > FORGET_AFTER_NS;
            match remains {
                Some(remains) if !is_late => {
                    if remains.resident < dying.least {
                        (dying.least, dying.progressed_ns) = (remains.resident, time_ns);
                    }
                }
                _ => drop(dying.ended_ns.get_or_insert(time_ns)),
            }
        }
    }

    /// The moments of `notices`, oldest first, and the look itself. No notice may be younger than the look.
    pub fn take(&mut self, notices: &[Notice], look: Look) -> Vec<Moment> {
        let Look { moment: look, free_by_zones } = look;
        let known = (self.last_free, free_by_zones);
        let seen: BTreeMap<u32, ProcessState> =
            look.processes.iter().map(|state| (state.process, state.clone())).collect();
        let killed: Vec<Killed> =
            notices.iter().filter_map(|notice| self.killed(notice, &seen)).collect();
        let mut moments = Vec::new();
        for (index, kill) in killed.iter().enumerate() {
            let memory = kill.memory(&look.memory, known, &killed[index..], &seen);
            let dying = self.dying_at(kill.time_ns, memory.free, &seen);
            self.dying.push(kill.dying(memory.free));
            if kill.has_victim && self.budget.is_left(kill.time_ns) {
                let alive = killed[index..].iter().map(|kill| kill.state.clone());
                let processes = with(seen.clone(), dying.into_iter().chain(alive));
                let victim = Some(kill.state.process);
                moments.push(Moment { time_ns: kill.time_ns, memory, processes, victim });
            }
        }
        // An ended victim still had memory at the other kills, but has none at the look.
        self.dying.retain(|dying| dying.ended_ns.is_none());
        let dying = self.dying_at(look.time_ns, look.memory.free, &seen);
        (self.last, self.last_free) = (seen.clone(), Some(look.memory.free));
        moments.push(Moment { processes: with(seen, dying.into_iter()), ..look });
        moments
    }

    /// The victim of a notice; None if it is already dying, or unknown.
    fn killed(&self, notice: &Notice, seen: &BTreeMap<u32, ProcessState>) -> Option<Killed> {
        let process = notice.process;
        if self.is_dying(process) {
            return None;
        }
        let known = seen.get(&process).into_iter().chain(self.last.get(&process));
        let state = match &notice.victim {
            Some(victim) => {
                // Figures that the notice lacks are those of the last look.
                let known = known.into_iter().find(|state| state.start == victim.start);
                let before = self.last.get(&process).filter(|state| state.start == victim.start);
                let victim = &before.map_or_else(|| victim.clone(), |state| exact(victim, state));
                ProcessState {
                    process,
                    name: victim.name.clone(),
                    start: victim.start,
                    adj: victim.adj,
                    resident: victim.resident,
                    swapped: victim.swapped,
                    own: Some(victim.anonymous),
                    ticks: known.map_or(0, |state| state.ticks),
                    user_ticks: known.and_then(|state| state.user_ticks),
                    major_faults: victim.major_faults,
                    group: known.map_or(0, |state| state.group),
                    life: Liveness::Living,
                    weight: before.and_then(|before| weight_at_kill(before, victim)),
                    parent: known.map_or(0, |state| state.parent),
                    process_group: known.map_or(0, |state| state.process_group),
                }
            }
            // It had more memory before it began to die.
            None => known.max_by_key(|state| state.resident)?.clone(),
        };
        let Notice { time_ns, used, free, .. } = *notice;
        Some(Killed { time_ns, used, free, state, has_victim: notice.victim.is_some() })
    }

    /// The processes that were killed before `time_ns` and still have memory; `free` bytes were free at that time.
    fn dying_at(
        &self,
        time_ns: u64,
        free: u64,
        seen: &BTreeMap<u32, ProcessState>,
    ) -> Vec<ProcessState> {
        let state = |dying: &Dying| {
            let had = &dying.had;
            let age_ns = time_ns.saturating_sub(dying.killed_ns);
            // If it was seen to have ended right after this kill, it had ended before: a killer waits for that.
            let had_ended =
                |ended_ns: u64| ended_ns <= time_ns + SEEN_WITHIN_NS || age_ns > ENDED_WITHIN_NS;
            if dying.ended_ns.is_some_and(had_ended) {
                return None;
            }
            let counted =
                seen.get(&had.process).filter(|state| state.start == had.start).map(|s| s.resident);
            // `statm` drops before the pages are free: memory that has not become free is still to come.
            // Pages of files that others map too never come back.
            let risen = free.saturating_sub(dying.free);
            let expected =
                had.weight.map_or(had.own.unwrap_or(had.resident), |weight| weight.memory);
            let unseen = match expected.saturating_sub(risen) {
                0 => 0,
                // Rounded up, so that the shares below are not too small.
                rest => scaled(had.resident, rest, expected) + 1,
            };
            let is_giving = time_ns.saturating_sub(dying.progressed_ns) < STUCK_AFTER_NS;
            let left = counted.unwrap_or(0).max(if is_giving { unseen } else { 0 });
            let share = |bytes: u64| scaled(bytes, left, had.resident);
            let life = if is_giving { Liveness::Dying } else { Liveness::Stuck };
            (left > 0).then(|| ProcessState {
                resident: left,
                own: had.own.map(share),
                swapped: share(had.swapped),
                weight: had.weight.map(|weight| Weight {
                    memory: share(weight.memory),
                    swapped: share(weight.swapped),
                    share: weight.share.map(share),
                    shared: share(weight.shared),
                    ..weight
                }),
                life,
                ..had.clone()
            })
        };
        self.dying.iter().filter_map(state).collect()
    }
}

/// The remaining memory of a killed process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remains {
    /// The start time of the process, in clock ticks since boot.
    pub start: u64,
    /// Bytes in memory.
    pub resident: u64,
}

/// A victim at the instant of its kill.
struct Killed {
    time_ns: u64,
    used: Option<u64>,
    free: Option<u64>,
    state: ProcessState,
    /// Whether the notice has the victim's memory. Otherwise its state is that of an earlier look, so the kill gets
    /// no moment.
    has_victim: bool,
}

impl Killed {
    fn dying(&self, free: u64) -> Dying {
        Dying {
            had: self.state.clone(),
            killed_ns: self.time_ns,
            free,
            least: self.state.resident,
            progressed_ns: self.time_ns,
            ended_ns: None,
        }
    }

    /// The state of memory at this kill, from a look after it. `killed` are this victim and all later victims that were
    /// killed before the look.
    fn memory(
        &self,
        look: &MemoryState,
        (last_free, free_by_zones): (Option<u64>, Option<u64>),
        killed: &[Killed],
        seen: &BTreeMap<u32, ProcessState>,
    ) -> MemoryState {
        let swapped_left = |kill: &Killed| {
            let state = seen.get(&kill.state.process);
            state.filter(|state| state.start == kill.state.start).map_or(0, |state| state.swapped)
        };
        let free = match (self.used, self.free.zip(free_by_zones)) {
            (Some(used), _) => look.total.saturating_sub(used),
            // The two counts of free memory differ by a constant amount.
            (None, Some((at_kill, at_look))) => {
                (look.free + at_kill).saturating_sub(at_look).min(look.total)
            }
            // As at the last look, unless less is free now.
            (None, None) => last_free.map_or(look.free, |free| free.min(look.free)),
        };
        // A kill does not change the rest of the available memory.
        let available = (look.available + free).saturating_sub(look.free);
        let given = killed.iter().map(|kill| kill.state.swapped.saturating_sub(swapped_left(kill)));
        let swapped = given.sum();
        MemoryState {
            free,
            available: available.clamp(free.min(look.total), look.total),
            swap_free: look.swap_free.saturating_sub(swapped),
            disk_swap_free: look.disk_swap_free.saturating_sub(swapped),
            ..look.clone()
        }
    }
}

/// The weight of `victim` at its kill: its last weight before, and its growth since then. A look after the kill shows
/// only what is left of its memory.
fn weight_at_kill(before: &ProcessState, victim: &Victim) -> Option<Weight> {
    let weight = before.weight?;
    let since = |now: u64, then: u64, weight: u64| (now + weight).saturating_sub(then);
    if weight.is_borrowed {
        return Some(weight);
    }
    Some(Weight {
        memory: since(victim.anonymous, before.own?, weight.memory),
        swapped: since(victim.swapped, before.swapped, weight.swapped),
        share: weight.share.zip(before.own).map(|(share, own)| since(victim.anonymous, own, share)),
        ..weight
    })
}

/// The memory of `victim`, as in the state `before` it where the two counts differ by no more than the kernel's error. A
/// notice has the kernel's sum of a counter without the parts that its processors have not added yet.
fn exact(victim: &Victim, before: &ProcessState) -> Victim {
    let counted = |now: u64, then: u64| if now.abs_diff(then) <= COUNT_ERROR { then } else { now };
    Victim {
        resident: counted(victim.resident, before.resident),
        anonymous: before.own.map_or(victim.anonymous, |own| counted(victim.anonymous, own)),
        swapped: counted(victim.swapped, before.swapped),
        ..victim.clone()
    }
}

/// `bytes` in the proportion of `part` to `whole`.
fn scaled(bytes: u64, part: u64, whole: u64) -> u64 {
    (u128::from(bytes) * u128::from(part.min(whole)) / u128::from(whole.max(1))) as u64
}

/// The processes `seen`, in which `others` replace those with the same PID.
fn with(
    mut seen: BTreeMap<u32, ProcessState>,
    others: impl Iterator<Item = ProcessState>,
) -> Vec<ProcessState> {
    seen.extend(others.map(|state| (state.process, state)));
    seen.into_values().collect()
}

/// Limits the number of moments at kills.
#[derive(Default)]
struct Budget {
    taken: u64,
    since_ns: u64,
}

impl Budget {
    fn is_left(&mut self, time_ns: u64) -> bool {
        let back = time_ns.saturating_sub(self.since_ns) / (1_000_000_000 / PER_SECOND);
        if back > 0 {
            self.taken = self.taken.saturating_sub(back);
            self.since_ns = time_ns;
        }
        let is_left = self.taken < BURST;
        self.taken += u64::from(is_left);
        is_left
    }
}

#[cfg(test)]
mod tests;
