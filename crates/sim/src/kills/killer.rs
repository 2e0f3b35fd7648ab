//! A killer with one policy, driven with recorded moments as killd drives it with live ones.

use std::collections::BTreeSet;

use policy::kill::search::{
    HolderSearch, Lookalike, Part, Sharer, VALID_NEAR, VALID_SHORT, VICTIMS_MAX, is_near,
};
use policy::kill::{
    self, Candidate, CandidateIndex, KillPolicy, Memory, Ranked, Ranking, Snapshot, Stall, Standing,
};
use trace::recording::moments::{Liveness, Moment, ProcessState};
use types::{Bytes, Nanos};

use super::Identity;
use super::outcome::{Decision, Judgement, Reason, Replay, Victim};
use super::waiting::{At, Awaited, Waiting};
use super::weights::Weights;

/// Candidates for which a ranking has room.
const CANDIDATES_MAX: usize = 1 << 16;
/// Candidates listed after the victims of a decision.
const SPARED_KEPT: usize = 5;
/// Rows of reasons kept per policy.
const REASONS_KEPT: usize = 10_000;
/// Decisions at one moment of which no victim is worth its kill: after that the killer spares all until the next.
const IN_VAIN_MAX: usize = 8;
/// The reason to kill no process while the killer waits.
const WAITS: &str = "the memory of the victims is about to come back";

/// A killer under replay, with the processes that it killed.
pub(super) struct ReplayedKiller {
    policy: Box<dyn KillPolicy>,
    is_batch: bool,
    ranking: Ranking,
    search: HolderSearch,
    weights: Weights,
    waiting: Waiting,
    dead: BTreeSet<Identity>,
    replay: Replay,
}

/// A moment as all killers see it.
#[derive(Clone, Copy)]
pub(super) struct SeenMoment<'a> {
    /// Time since the first moment.
    pub time: Nanos,
    pub memory: Memory,
    pub moment: &'a Moment,
    /// The processes as candidates, in the same order.
    pub candidates: &'a [Candidate],
    /// Whether the process got its signal from the process that kills at this moment.
    pub is_same_killer: &'a dyn Fn(u32) -> bool,
    /// Whether the process was killed so shortly before that its killer may not have waited for it.
    pub is_of_batch: &'a dyn Fn(u32) -> bool,
}

impl SeenMoment<'_> {
    /// The time by CLOCK_MONOTONIC.
    fn clock(&self) -> Nanos {
        Nanos(i64::try_from(self.moment.time_ns).unwrap_or(i64::MAX))
    }
}

/// The candidates at a moment, and what else the search needs; all in the order of process ids.
#[derive(Default)]
struct Scene<'a> {
    states: Vec<&'a ProcessState>,
    candidates: Vec<Candidate>,
    sharers: Vec<Sharer>,
}

/// The result of one decision.
enum Decided {
    /// The policy or the search spares all.
    Spared(&'static str),
    /// No victim was worth its kill.
    InVain,
    /// The policy killed; the memory as it will be once theirs is back.
    Killed(Memory),
}

impl ReplayedKiller {
    /// A killer with this policy.
    pub(super) fn new(name: String, policy: Box<dyn KillPolicy>, is_batch: bool) -> ReplayedKiller {
        ReplayedKiller {
            policy,
            is_batch,
            ranking: Ranking::with_room(CANDIDATES_MAX),
            search: HolderSearch::default(),
            weights: Weights::default(),
            waiting: Waiting::default(),
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
        }
    }

    /// The decisions and the reasons, without their judgement.
    pub(super) fn into_replay(self) -> Replay {
        self.replay
    }

    /// Decides at the next moment.
    pub(super) fn moment(&mut self, seen: SeenMoment<'_>) {
        let SeenMoment { time, moment, is_same_killer, is_of_batch, .. } = seen;
        let at = At { time, moment, is_same_killer, is_of_batch };
        if let Some((batch, last)) = self.waiting.settle(at) {
            self.search.note_batch(&batch, last, &seen.memory);
        }
        if !self.waiting.is_over() {
            return self.spare(time, WAITS);
        }
        for _ in 0..IN_VAIN_MAX {
            match self.decide(seen) {
                Decided::InVain => {}
                Decided::Spared(why) => return self.spare(time, why),
                Decided::Killed(_) => return,
            }
        }
    }

    /// Makes one decision, or with `is_batch` several until the policy spares the rest.
    fn decide(&mut self, seen: SeenMoment<'_>) -> Decided {
        let (mut scene, mut memory) = self.scene(seen);
        self.find_holder(&mut scene, &memory, seen);
        let mut victims = 0;
        loop {
            let decided = self.decide_once(&mut scene, memory, seen);
            match decided {
                Decided::Killed(after) if self.is_batch => {
                    victims += 1;
                    // The stall that woke the killer was before these kills.
                    memory = Memory { stall: Stall::None, ..after };
                    if victims == VICTIMS_MAX {
                        return Decided::Killed(memory);
                    }
                }
                Decided::Killed(_) => return decided,
                _ if victims > 0 => return Decided::Killed(memory),
                _ => return decided,
            }
        }
    }

    /// The candidates at a moment, and its memory once that of processes that are dead or dying is back.
    fn scene<'a>(&self, seen: SeenMoment<'a>) -> (Scene<'a>, Memory) {
        let mut memory = seen.memory;
        let mut scene = Scene::default();
        for (state, candidate) in seen.moment.processes.iter().zip(seen.candidates) {
            let mut candidate = *candidate;
            self.weights.fill(&mut candidate, state);
            let mut sharer = self.weights.sharer(state);
            match (state.life, self.dead.contains(&(state.process, state.start))) {
                // The killer has waited for the memory of its own victims.
                (Liveness::Stuck, _) | (Liveness::Dying, true) => continue,
                (Liveness::Living, true) => {
                    memory = memory.once_back(candidate.resident, candidate.swapped);
                    continue;
                }
                // The killer waits for its memory, for a limited time.
                (Liveness::Dying, false) => {
                    memory = memory.once_back(candidate.resident, candidate.swapped);
                    candidate.standing = Standing::Dying;
                    sharer.ending = candidate.bytes();
                }
                (Liveness::Living, false) => {}
            }
            scene.states.push(state);
            scene.candidates.push(candidate);
            scene.sharers.push(sharer);
        }
        (scene, memory)
    }

    /// Measures weights while memory is nearly short, and searches for what holds the memory while it is short.
    fn find_holder(&mut self, scene: &mut Scene<'_>, memory: &Memory, seen: SeenMoment<'_>) {
        let margin = self.policy.margin(memory);
        let is_short = margin.0 == 0;
        if !is_short {
            self.search.end();
        }
        if is_near(margin, memory) {
            let longest = if is_short { VALID_SHORT } else { VALID_NEAR };
            if is_short && self.search.begin() {
                self.weights.forget();
            }
            self.weights.measure(seen.clock(), longest, &scene.states);
            scene.measure(&self.weights);
        }
        if is_short {
            let shared = seen.moment.memory.shared.unwrap_or(0);
            self.search.find(&mut scene.candidates, &scene.sharers, || Bytes(shared));
        }
    }

    fn decide_once(
        &mut self,
        scene: &mut Scene<'_>,
        memory: Memory,
        seen: SeenMoment<'_>,
    ) -> Decided {
        let snapshot = Snapshot { time: seen.time, memory, candidates: &scene.candidates };
        let (why, count) = match self.policy.decide(&snapshot, &mut self.ranking) {
            kill::Decision::Spare { why } => return Decided::Spared(why),
            kill::Decision::Kill { why, victims } => (why, victims),
        };
        let Scene { candidates, sharers, .. } = scene;
        if let Some(why) = self.search.reason_to_spare(candidates, sharers) {
            return Decided::Spared(why);
        }
        let ranked = self.ranking.ranked();
        let (named, others) = ranked.split_at(count.min(ranked.len()));
        let (named, others): (Vec<Ranked>, Vec<Ranked>) =
            (named.to_vec(), others.iter().take(SPARED_KEPT).copied().collect());
        let chosen = self.search.choose(&named, candidates, sharers, false);
        let (mut victims, mut after) = (Vec::new(), memory);
        for &(index, part) in chosen.victims() {
            let Candidate { resident, swapped, .. } = scene.candidates[index.0];
            if !self.kill(scene, index, part, seen) {
                continue;
            }
            after = after.once_back(resident, swapped);
            let is_it = |ranked: &&Ranked| ranked.candidate == index;
            let score =
                named.iter().find(is_it).map_or((0, 0), |named| (named.score.0, named.score.1));
            victims.push(victim(scene.states[index.0], score));
        }
        if victims.is_empty() {
            return Decided::InVain;
        }
        let spared = |ranked: &Ranked| {
            victim(scene.states[ranked.candidate.0], (ranked.score.0, ranked.score.1))
        };
        self.replay.decisions.push(Decision {
            time_s: seen.time.0 as f64 / 1e9,
            why,
            available_bytes: memory.available.0,
            victims,
            spared: others.iter().map(spared).collect(),
            judgement: Judgement::Undecided,
        });
        Decided::Killed(after)
    }

    /// Kills a process if its end frees what it was chosen for; returns whether it does.
    fn kill(
        &mut self,
        scene: &mut Scene<'_>,
        index: CandidateIndex,
        part: Part,
        seen: SeenMoment<'_>,
    ) -> bool {
        let state = scene.states[index.0];
        let candidate = &mut scene.candidates[index.0];
        let promised = candidate.bytes();
        if part == Part::Named {
            self.weights.measure_one(seen.clock(), state);
        }
        self.weights.fill(candidate, state);
        if part == Part::OfFamily
            && let Some(share) = self.weights.sharer(state).share
        {
            candidate.resident = share;
        }
        let had = candidate.resident.0;
        if !part.is_worth_it(promised, index, &scene.candidates) {
            return false;
        }
        scene.candidates[index.0].standing = Standing::Dying;
        let identity = (state.process, state.start);
        let Sharer { name, mapped, .. } = scene.sharers[index.0];
        let victim = Awaited { identity, looks: Lookalike { name, mapped }, had };
        self.waiting.push(seen.time, seen.moment.memory.available, victim);
        self.dead.insert(identity);
        true
    }

    fn spare(&mut self, time: Nanos, why: &'static str) {
        let time_s = time.0 as f64 / 1e9;
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

impl Scene<'_> {
    /// Sets what the end of each candidate frees.
    fn measure(&mut self, weights: &Weights) {
        let Scene { states, candidates, sharers } = self;
        for ((state, candidate), sharer) in states.iter().zip(candidates).zip(sharers) {
            weights.fill(candidate, state);
            *sharer = Sharer { ending: sharer.ending, ..weights.sharer(state) };
        }
    }
}

fn victim(state: &ProcessState, score: (u64, u64)) -> Victim {
    Victim {
        process: state.process,
        name: state.name.clone(),
        adj: state.adj,
        resident_bytes: state.resident,
        swapped_bytes: state.swapped,
        own_bytes: state.own,
        weight_bytes: state.weight.map(|weight| weight.memory),
        score,
    }
}
