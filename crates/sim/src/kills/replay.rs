//! Drives kill policies with recorded moments.

use std::collections::{BTreeMap, BTreeSet};

use policy::kill::{self, Candidate, KillPolicy, Memory, PressureShares, Stall, Watermarks};
use trace::recording::moments::{Found, MemoryState, Moment, ProcessState};
use types::{Bytes, Nanos};

use super::freezes::{Finder, Trailing};
use super::killer::{ReplayedKiller, SeenMoment};
use super::outcome::{Decision, Freeze, Judgement, Point, RecordedKill, Replay, ReplayOutcome};
use super::{Identity, Settings};

/// A process that is killed twice within this time, in seconds, is killed once: in between its number cannot be used
/// again.
const SAME_KILL_S: f64 = 1.0;

/// Points of memory kept at most; once full, at least half as many.
const POINTS_KEPT: usize = 4096;
const SECOND_NS: u64 = 1_000_000_000;
/// A tick of processor times (USER_HZ): the same on every Linux.
const TICK_NS: i64 = 10_000_000;
/// Kills that are less apart than this can be a batch, whose killer does not wait for the first victim.
const BATCH_NS: u64 = 20_000_000;

/// Replays a recording moment by moment.
pub struct Replayer {
    settings: Settings,
    begin_ns: Option<u64>,
    end_s: f64,
    moments: u64,
    total_bytes: u64,
    has_watermarks: bool,
    has_weights: bool,
    points: Points,
    some: Trailing,
    full: Trailing,
    finder: Finder,
    /// When each process last used a processor, and its processor time by then.
    used: BTreeMap<Identity, (u64, u64)>,
    names: BTreeMap<u32, String>,
    /// Every process and the available memory at the last moment.
    last: BTreeMap<u32, Sizes>,
    available_bytes: Option<u64>,
    /// The kills with their times in nanoseconds, by the clock of the recording.
    recorded: Vec<(u64, RecordedKill)>,
    /// Moments of kills: time in nanoseconds, and process.
    at_kills: BTreeSet<(u64, u32)>,
    /// The sender of the last signal to each process that got one.
    senders: BTreeMap<u32, u32>,
    policies: Vec<ReplayedKiller>,
}

/// What is kept of a process at a moment.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    adj: i16,
    resident_bytes: u64,
    swapped_bytes: u64,
}

impl Sizes {
    fn of(state: &ProcessState) -> Sizes {
        let ProcessState { adj, resident, swapped, .. } = *state;
        Sizes { adj, resident_bytes: resident, swapped_bytes: swapped }
    }
}

impl Replayer {
    /// A replayer for policies with their names.
    pub fn new(policies: Vec<(String, Box<dyn KillPolicy>)>, settings: Settings) -> Replayer {
        Replayer {
            settings,
            begin_ns: None,
            end_s: 0.0,
            moments: 0,
            total_bytes: 0,
            has_watermarks: true,
            has_weights: false,
            points: Points::default(),
            some: Trailing::default(),
            full: Trailing::default(),
            finder: Finder::new(&settings),
            used: BTreeMap::new(),
            names: BTreeMap::new(),
            last: BTreeMap::new(),
            available_bytes: None,
            recorded: Vec::new(),
            at_kills: BTreeSet::new(),
            senders: BTreeMap::new(),
            policies: policies
                .into_iter()
                .map(|(name, policy)| ReplayedKiller::new(name, policy, settings.is_batch))
                .collect(),
        }
    }

    /// Processes the next item of the recording.
    pub fn take(&mut self, found: Found) {
        match found {
            Found::Moment(moment) => self.moment(&moment),
            Found::Kill { time_ns, process, sender, is_of_kernel } => {
                self.senders.insert(process, sender);
                let killer = (sender != 0 && !is_of_kernel).then_some(sender);
                let named = |process| self.names.get(&process).cloned();
                let sizes = self.last.get(&process);
                let kill = RecordedKill {
                    adj: sizes.map(|sizes| sizes.adj),
                    resident_bytes: sizes.map(|sizes| sizes.resident_bytes),
                    swapped_bytes: sizes.map(|sizes| sizes.swapped_bytes),
                    available_bytes: self.available_bytes,
                    time_s: 0.0,
                    process,
                    name: named(process),
                    is_of_kernel,
                    killer,
                    killer_name: killer.and_then(named),
                    has_moment: false,
                };
                self.recorded.push((time_ns, kill));
            }
        }
    }

    fn moment(&mut self, moment: &Moment) {
        let begin_ns = *self.begin_ns.get_or_insert(moment.time_ns);
        let time_ns = moment.time_ns.saturating_sub(begin_ns);
        let time_s = time_ns as f64 / 1e9;
        self.end_s = time_s;
        self.moments += 1;
        self.at_kills.extend(moment.victim.map(|process| (moment.time_ns, process)));
        self.total_bytes = moment.memory.total;
        self.available_bytes = Some(moment.memory.available);
        self.last =
            moment.processes.iter().map(|state| (state.process, Sizes::of(state))).collect();
        self.has_watermarks &= moment.memory.watermarks.is_some();
        self.points.take(Point {
            time_s,
            available_bytes: moment.memory.available,
            swap_free_bytes: moment.memory.swap_free,
        });
        let longest_ns = 10 * SECOND_NS;
        if let (Some(some_us), Some(full_us)) = (moment.memory.some_us, moment.memory.full_us) {
            self.some.take(time_ns, some_us, longest_ns);
            self.full.take(time_ns, full_us, longest_ns);
            self.finder.moment(time_s, full_us);
        }
        let memory = self.memory(&moment.memory);
        let candidates = self.candidates(time_ns, &moment.processes);
        let time = Nanos(time_ns as i64);
        let killer = moment.victim.and_then(|victim| self.senders.get(&victim));
        let batch = (moment.time_ns.saturating_sub(BATCH_NS), 0)..;
        let is_of_batch =
            |process: u32| self.at_kills.range(batch.clone()).any(|(_, victim)| *victim == process);
        let is_same_killer =
            &|process: u32| killer.is_some() && self.senders.get(&process) == killer;
        for policy in &mut self.policies {
            policy.moment(SeenMoment {
                time,
                memory,
                moment,
                candidates: &candidates,
                is_same_killer,
                is_of_batch: &is_of_batch,
            });
        }
    }

    fn memory(&self, state: &MemoryState) -> Memory {
        let pressure = state.full_us.map(|_| PressureShares {
            some_basis_points: (self.some.share(10 * SECOND_NS) * 1e4) as u32,
            full_basis_points: (self.full.share(10 * SECOND_NS) * 1e4) as u32,
        });
        let stalled = |trailing: &Trailing| Nanos((trailing.share(SECOND_NS) * 1e9) as i64);
        let watermarks = state.watermarks.map(|bytes| {
            let [min, low, high] = bytes.map(Bytes);
            Watermarks { min, low, high }
        });
        Memory {
            total: Bytes(state.total),
            free: Bytes(state.free),
            available: Bytes(state.available),
            reserved: Bytes(state.reserved),
            files: Bytes(state.files),
            swap_total: Bytes(state.swap_total),
            swap_free: Bytes(state.swap_free),
            disk_swap_total: Bytes(state.disk_swap_total),
            disk_swap_free: Bytes(state.disk_swap_free),
            watermarks,
            pressure,
            scanned_directly: state.scanned_directly,
            scanned_by_kswapd: state.scanned_by_kswapd,
            file_refaults: state.file_refaults,
            stall: Stall::of(stalled(&self.some), stalled(&self.full)),
        }
    }

    /// The processes as candidates, in the same order.
    fn candidates(&mut self, time_ns: u64, processes: &[ProcessState]) -> Vec<Candidate> {
        let before = std::mem::take(&mut self.used);
        let mut candidates = Vec::with_capacity(processes.len());
        for state in processes {
            let identity = (state.process, state.start);
            let since = match before.get(&identity) {
                Some(&(since, ticks)) if ticks == state.ticks => since,
                _ => time_ns,
            };
            self.used.insert(identity, (since, state.ticks));
            if self.names.get(&state.process) != Some(&state.name) {
                self.names.insert(state.process, state.name.clone());
            }
            // Older recordings have only the sum with the kernel's time.
            let ticks = state.user_ticks.unwrap_or(state.ticks);
            let cpu = i64::try_from(ticks).unwrap_or(i64::MAX).saturating_mul(TICK_NS);
            let weight = state.freed();
            self.has_weights |= state.weight.is_some();
            candidates.push(Candidate {
                process: state.process,
                group: group_of(state),
                adj: state.adj,
                resident: Bytes(weight.memory),
                swapped: Bytes(weight.swapped),
                idle: Nanos(time_ns.saturating_sub(since) as i64),
                restart_cost: kill::start_cost(Nanos(cpu), state.major_faults),
                ..Candidate::default()
            });
        }
        candidates
    }

    /// Whether the recording has the moment of the kill of `process` at this time. The kernel's own killer sends
    /// the signal before it reports its victim, and a process may be reported again while it dies.
    fn has_moment(&self, time_ns: u64, process: u32) -> bool {
        let since_ns = time_ns.saturating_sub(SECOND_NS);
        self.at_kills
            .range((since_ns, 0)..=(time_ns, u32::MAX))
            .any(|&(_, victim)| victim == process)
    }

    /// Returns the results.
    pub fn finish(mut self) -> ReplayOutcome {
        let begin_ns = self.begin_ns.unwrap_or(0);
        let recorded: Vec<RecordedKill> = std::mem::take(&mut self.recorded)
            .into_iter()
            .map(|(time_ns, kill)| RecordedKill {
                time_s: (time_ns as f64 - begin_ns as f64) / 1e9,
                has_moment: self.has_moment(time_ns, kill.process),
                ..kill
            })
            .fold(Vec::new(), merged);
        for kill in recorded.iter().filter(|kill| kill.is_of_kernel) {
            self.finder.kernel_kill(kill.time_s);
        }
        let freezes = self.finder.finish();
        let window_s = self.settings.window.0 as f64 / 1e9;
        let judge = Judge { freezes: &freezes, recorded: &recorded, window_s, end_s: self.end_s };
        let policies =
            self.policies.into_iter().map(|policy| judge.judge(policy.into_replay())).collect();
        ReplayOutcome {
            moments: self.moments,
            duration_s: self.end_s,
            total_bytes: self.total_bytes,
            has_watermarks: self.has_watermarks,
            has_weights: self.has_weights,
            memory: self.points.kept,
            freezes,
            recorded,
            policies,
        }
    }
}

/// The kills with the next one. A second SIGKILL for the same process is no other kill: the kernel's OOM killer
/// shows its victim, and then sends it the signal.
fn merged(mut kills: Vec<RecordedKill>, kill: RecordedKill) -> Vec<RecordedKill> {
    let before = kills.iter_mut().rev().find(|before| before.process == kill.process);
    match before {
        Some(before) if kill.time_s - before.time_s < SAME_KILL_S => {
            before.is_of_kernel |= kill.is_of_kernel;
            before.has_moment |= kill.has_moment;
            if before.is_of_kernel {
                (before.killer, before.killer_name) = (None, None);
            }
        }
        _ => kills.push(kill),
    }
    kills
}

/// A number for the memory cgroup of a process. If groups were not recorded, each process is
/// a group of its own, with a number that no cgroup has.
fn group_of(state: &ProcessState) -> u64 {
    match state.group {
        0 => u64::from(state.process) | 1 << 32,
        group => u64::from(group),
    }
}

/// Compares decisions with the recording.
struct Judge<'a> {
    freezes: &'a [Freeze],
    recorded: &'a [RecordedKill],
    window_s: f64,
    end_s: f64,
}

impl Judge<'_> {
    fn judge(&self, mut replay: Replay) -> Replay {
        for decision in &mut replay.decisions {
            decision.judgement = self.judgement(decision.time_s);
        }
        let is_false = |decision: &&Decision| decision.judgement == Judgement::FalseAlarm;
        replay.false_alarms = replay.decisions.iter().filter(is_false).count() as u64;
        let is_met = |freeze: &Freeze| {
            let (from_s, to_s) = (freeze.from_s - self.window_s, freeze.to_s);
            replay.decisions.iter().any(|decision| (from_s..=to_s).contains(&decision.time_s))
        };
        replay.missed_freezes = self.freezes.iter().filter(|freeze| !is_met(freeze)).count() as u64;
        // A process that was signalled more than once is one victim.
        let mut first = BTreeMap::new();
        self.recorded.iter().for_each(|kill| {
            first.entry(kill.process).or_insert(kill);
        });
        for kill in first.into_values() {
            let count = match (self.is_named(&replay, kill), kill.has_moment) {
                (true, _) => &mut replay.victims_named,
                (false, true) => &mut replay.victims_not_named,
                (false, false) => &mut replay.victims_unknown,
            };
            *count += 1;
        }
        replay
    }

    /// Whether a policy would have killed a recorded victim at its kill or within the window before.
    fn is_named(&self, replay: &Replay, kill: &RecordedKill) -> bool {
        let times = kill.time_s - self.window_s..=kill.time_s;
        let decisions = replay.decisions.iter().filter(|made| times.contains(&made.time_s));
        decisions.flat_map(|made| &made.victims).any(|victim| victim.process == kill.process)
    }

    fn judgement(&self, time_s: f64) -> Judgement {
        let until_s = time_s + self.window_s;
        let is_frozen =
            self.freezes.iter().any(|freeze| freeze.from_s <= until_s && freeze.to_s >= time_s);
        let is_killed = self.recorded.iter().any(|kill| (time_s..=until_s).contains(&kill.time_s));
        match is_frozen || is_killed {
            true => Judgement::Needed,
            false if until_s > self.end_s => Judgement::Undecided,
            false => Judgement::FalseAlarm,
        }
    }
}

/// Points of memory over time, as many as a chart needs.
#[derive(Debug, Default)]
struct Points {
    kept: Vec<Point>,
    /// Moments per point as a power of two, and the moments in the last point.
    doublings: u32,
    taken: u64,
}

impl Points {
    fn take(&mut self, point: Point) {
        let step = 1 << self.doublings;
        match self.kept.last_mut() {
            Some(last) if self.taken < step => {
                *last = lower(*last, point);
                self.taken += 1;
            }
            _ => {
                self.kept.push(point);
                self.taken = 1;
            }
        }
        if self.kept.len() > POINTS_KEPT {
            self.kept =
                self.kept.chunks(2).map(|pair| lower(pair[0], pair[pair.len() - 1])).collect();
            // The last point stays single, as half of an incomplete pair.
            self.doublings += 1;
        }
    }
}

/// The point of `first`, with the lower values of both.
fn lower(first: Point, other: Point) -> Point {
    Point {
        available_bytes: first.available_bytes.min(other.available_bytes),
        swap_free_bytes: first.swap_free_bytes.min(other.swap_free_bytes),
        ..first
    }
}
