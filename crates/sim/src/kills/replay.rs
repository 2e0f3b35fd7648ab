//! Drives kill policies with recorded moments.

use std::collections::{BTreeMap, BTreeSet};

use policy::kill::{
    self, Candidate, KillPolicy, Memory, PressureShares, Ranked, Ranking, Snapshot, Stall,
    Watermarks,
};
use trace::recording::moments::{Found, Liveness, MemoryState, Moment, ProcessState};
use types::{Bytes, Nanos};

use super::Settings;
use super::freezes::{Finder, Trailing};
use super::outcome::{
    Decision, Freeze, Judgement, Point, Reason, RecordedKill, Replay, ReplayOutcome, Victim,
};

/// Candidates for which a ranking has room.
const CANDIDATES_MAX: usize = 1 << 16;
/// Candidates listed after the victims of a decision.
const SPARED_KEPT: usize = 5;
/// Rows of reasons kept per policy.
const REASONS_KEPT: usize = 10_000;
/// Points of memory kept at most; once full, at least half as many.
const POINTS_KEPT: usize = 4096;
const SECOND_NS: u64 = 1_000_000_000;
/// A tick of processor times (USER_HZ): the same on every Linux.
const TICK_NS: i64 = 10_000_000;

/// A process: its id, and its start, which distinguishes it from later processes with that id.
type Who = (u32, u64);

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
    used: BTreeMap<Who, (u64, u64)>,
    names: BTreeMap<u32, String>,
    /// Time in nanoseconds, process, whether the kernel killed it, and its name.
    recorded: Vec<(u64, u32, bool, Option<String>)>,
    /// Moments of kills: time in nanoseconds, and process.
    at_kills: BTreeSet<(u64, u32)>,
    policies: Vec<ReplayedPolicy>,
}

/// A policy under replay, with the processes that it killed.
struct ReplayedPolicy {
    policy: Box<dyn KillPolicy>,
    ranking: Ranking,
    dead: BTreeSet<Who>,
    replay: Replay,
}

impl Replayer {
    /// A replayer for policies with their names.
    pub fn new(policies: Vec<(String, Box<dyn KillPolicy>)>, settings: Settings) -> Replayer {
        let replayed = |(name, policy)| ReplayedPolicy {
            policy,
            ranking: Ranking::with_room(CANDIDATES_MAX),
            dead: BTreeSet::new(),
            replay: Replay {
                policy: name,
                decisions: Vec::new(),
                reasons: Vec::new(),
                reasons_left_out: 0,
                false_alarms: 0,
                missed_freezes: 0,
                victims_named: 0,
                victims_not_named: 0,
                victims_unknown: 0,
            },
        };
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
            recorded: Vec::new(),
            at_kills: BTreeSet::new(),
            policies: policies.into_iter().map(replayed).collect(),
        }
    }

    /// Processes the next item of the recording.
    pub fn take(&mut self, found: Found) {
        match found {
            Found::Moment(moment) => self.moment(&moment),
            Found::Kill { time_ns, process, is_of_kernel } => {
                let name = self.names.get(&process).cloned();
                self.recorded.push((time_ns, process, is_of_kernel, name));
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
        for policy in &mut self.policies {
            policy.moment(time, memory, &moment.processes, &candidates);
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
            let who = (state.process, state.start);
            let since = match before.get(&who) {
                Some(&(since, ticks)) if ticks == state.ticks => since,
                _ => time_ns,
            };
            self.used.insert(who, (since, state.ticks));
            if self.names.get(&state.process) != Some(&state.name) {
                self.names.insert(state.process, state.name.clone());
            }
            let cpu = i64::try_from(state.ticks).unwrap_or(i64::MAX).saturating_mul(TICK_NS);
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
            .map(|(time_ns, process, is_of_kernel, name)| RecordedKill {
                time_s: (time_ns as f64 - begin_ns as f64) / 1e9,
                process,
                name,
                is_of_kernel,
                has_moment: self.has_moment(time_ns, process),
            })
            .collect();
        for kill in recorded.iter().filter(|kill| kill.is_of_kernel) {
            self.finder.kernel_kill(kill.time_s);
        }
        let freezes = self.finder.finish();
        let window_s = self.settings.window.0 as f64 / 1e9;
        let judge = Judge { freezes: &freezes, recorded: &recorded, window_s, end_s: self.end_s };
        let policies = self.policies.into_iter().map(|policy| judge.judge(policy.replay)).collect();
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

impl ReplayedPolicy {
    fn moment(
        &mut self,
        time: Nanos,
        memory: Memory,
        processes: &[ProcessState],
        candidates: &[Candidate],
    ) {
        let time_s = time.0 as f64 / 1e9;
        let mut memory = memory;
        let mut alive = Vec::with_capacity(candidates.len());
        // The processes of the candidates in `alive`, in the same order.
        let mut living = Vec::with_capacity(candidates.len());
        for (state, candidate) in processes.iter().zip(candidates) {
            let is_dead = self.dead.contains(&(state.process, state.start));
            match state.life {
                // The killer waits for its memory, for a limited time.
                Liveness::Dying => memory = memory.once_back(candidate.resident, candidate.swapped),
                Liveness::Stuck => {}
                Liveness::Living if is_dead => {
                    memory = memory.once_back(candidate.resident, candidate.swapped);
                }
                Liveness::Living => {
                    alive.push(*candidate);
                    living.push(state);
                }
            }
        }
        let snapshot = Snapshot { time, memory, candidates: &alive };
        match self.policy.decide(&snapshot, &mut self.ranking) {
            kill::Decision::Spare { why } => self.spare(time_s, why),
            kill::Decision::Kill { why, victims } => {
                let state = |ranked: &Ranked| living[ranked.candidate.0];
                let as_victim = |ranked: &Ranked| victim(state(ranked), ranked);
                let ranked = self.ranking.ranked();
                let (dying, others) = ranked.split_at(victims.min(ranked.len()));
                self.dead.extend(dying.iter().map(|ranked| {
                    let state = state(ranked);
                    (state.process, state.start)
                }));
                self.replay.decisions.push(Decision {
                    time_s,
                    why,
                    available_bytes: memory.available.0,
                    victims: dying.iter().map(as_victim).collect(),
                    spared: others.iter().take(SPARED_KEPT).map(as_victim).collect(),
                    judgement: Judgement::Undecided,
                });
            }
        }
    }

    fn spare(&mut self, time_s: f64, why: &'static str) {
        let last_kill_s = self.replay.decisions.last().map_or(-1.0, |decision| decision.time_s);
        if let Some(reason) = self.replay.reasons.last_mut()
            && reason.why == why
            && reason.to_s > last_kill_s
        {
            reason.to_s = time_s;
        } else if self.replay.reasons.len() < REASONS_KEPT {
            self.replay.reasons.push(Reason { from_s: time_s, to_s: time_s, why });
        } else {
            self.replay.reasons_left_out += 1;
        }
    }
}

/// A number for the memory cgroup of a process. If groups were not recorded, each process is
/// a group of its own, with a number that no cgroup has.
fn group_of(state: &ProcessState) -> u64 {
    match state.group {
        0 => u64::from(state.process) | 1 << 32,
        group => u64::from(group),
    }
}

fn victim(state: &ProcessState, ranked: &Ranked) -> Victim {
    Victim {
        process: state.process,
        name: state.name.clone(),
        adj: state.adj,
        resident_bytes: state.resident,
        swapped_bytes: state.swapped,
        own_bytes: state.own,
        weight_bytes: state.weight.map(|weight| weight.memory),
        score: (ranked.score.0, ranked.score.1),
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
