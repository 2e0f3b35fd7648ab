//! Weights of the largest processes in moments, measured by the functions that `killd` uses (`linux::weight`).
//!
//! Each moment requests a few weights: first those of new processes and of their parents, which have forked, then
//! those of the largest processes whose weight is no longer valid. All other processes keep their last weight, and
//! their growth since then counts as own memory. A separate thread reads, and its results go into later moments,
//! so neither moments nor events wait for it.
//!
//! The end of a process changes what the end of its sharers frees, so their weights become invalid. But the moment of
//! a kill shows what the killer saw: a weight that was read after the kill does not replace an older one there.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;

use linux::Root;
use linux::held_process::{HeldProcess, open_processes};
use linux::weigher::{AT_ONCE, Job, Weigher, Weighing, smallest_weighed};
use linux::weight::Weighed;
use trace::recording::moments::{ProcessState, Weight};

/// The most weights that a moment requests, unless more new processes and their parents need one: then `AT_ONCE`.
const USUALLY_AT_ONCE: usize = 8;
/// The shortest time between two requests: less than between two regular moments, so only the moments at kills
/// request nothing.
const PAUSE_NS: u64 = 150_000_000;
/// A weight is valid for this long while the process keeps its size, as for `killd`.
const VALID_NS: u64 = 10_000_000_000;
/// The weight of a sharer is valid for this long if memory is short and any sharer ran: pages that a sharer writes
/// become its own, and its size stays the same.
const VALID_SHARER_NS: u64 = 1_000_000_000;

/// Classes of processes, in the order in which they are weighed.
const FORKED: u32 = 0;
const NEW: u32 = 1;
const AGAIN: u32 = 2;

/// A process of a moment.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The state of the process in the moment.
    pub state: ProcessState,
    /// Whether the process got SIGKILL: a read would hold its memory.
    pub is_dying: bool,
}

/// The time of a moment, and the state of the machine.
#[derive(Clone, Copy, Debug)]
pub struct Occasion {
    /// The time, by CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// Whether little memory is left.
    pub is_short: bool,
    /// The first kill since the last moment.
    pub killed_ns: Option<u64>,
}

/// The weights of processes, and the thread that measures them.
pub struct Weights {
    weigher: Weigher,
    processes: OwnedFd,
    known: HashMap<u32, Known>,
    /// The last request.
    posted_ns: Option<u64>,
}

/// A process with a weight.
#[derive(Clone, Debug)]
struct Known {
    start: u64,
    name: String,
    time_ns: u64,
    /// The CPU time of the process when it was weighed.
    ticks: u64,
    /// Bytes of the process in swap when it was weighed.
    swapped: u64,
    weighed: Weighed,
    /// Whether a sharer has ended since then.
    is_old: bool,
}

impl Weights {
    /// Starts the thread; None if the operating system refuses.
    pub fn start(root: &Root) -> Option<Weights> {
        let processes = open_processes(root).ok()?;
        let weigher = Weigher::start(None).ok()?;
        Some(Weights { weigher, processes, known: HashMap::new(), posted_ns: None })
    }

    /// Sets the known weights of `subjects`, which are all processes of the moment, and requests new ones.
    pub fn update(&mut self, subjects: &mut [Subject], occasion: Occasion) {
        self.forget_ended(subjects);
        self.take(subjects, occasion.killed_ns);
        for Subject { state, .. } in &mut *subjects {
            state.weight = self.known.get(&state.process).and_then(|known| weight(known, state));
        }
        let is_pause = self.posted_ns.is_some_and(|then| occasion.time_ns < then + PAUSE_NS);
        if !is_pause && self.weigher.is_ready() {
            let due = due(subjects, &self.known, occasion);
            self.weigher.post(jobs(&self.processes, due));
            self.posted_ns = Some(occasion.time_ns);
        }
    }

    /// Forgets processes that have ended, and those that run another program, which shares no memory.
    fn forget_ended(&mut self, subjects: &[Subject]) {
        let mut before = std::mem::take(&mut self.known);
        for Subject { state, .. } in subjects {
            let is_same = |known: &Known| (known.start, &known.name) == (state.start, &state.name);
            if before.get(&state.process).is_some_and(is_same) {
                self.known.extend(before.remove_entry(&state.process));
            }
        }
        if before.values().any(Known::is_sharer) {
            let sharers = self.known.values_mut().filter(|known| known.is_sharer());
            sharers.for_each(|known| known.is_old = true);
        }
    }

    /// Takes the results since the last moment.
    fn take(&mut self, subjects: &[Subject], killed_ns: Option<u64>) {
        let known = &mut self.known;
        self.weigher.take(|found| {
            let is_later = killed_ns.is_some_and(|killed_ns| found.time_ns >= killed_ns);
            if !is_later || !known.contains_key(&found.number) {
                keep(known, subjects, &found);
            }
        });
    }
}

/// The jobs that weigh `subjects`.
fn jobs<'a>(processes: &'a OwnedFd, subjects: Vec<&'a Subject>) -> impl Iterator<Item = Job> + 'a {
    subjects.into_iter().filter_map(|Subject { state, .. }| {
        let process = HeldProcess::open(processes, state.process).ok()?;
        Some(Job { process, serial: state.start, parent: state.parent })
    })
}

/// Keeps a result of a process that has not ended.
fn keep(known: &mut HashMap<u32, Known>, subjects: &[Subject], found: &Weighing) {
    let Weighing { number, serial, weighed, time_ns } = *found;
    let is_it =
        |subject: &&Subject| (subject.state.process, subject.state.start) == (number, serial);
    if let Some(Subject { state, .. }) = subjects.iter().find(is_it) {
        let (start, name) = (state.start, state.name.clone());
        let (ticks, swapped) = (state.ticks, state.swapped);
        known
            .insert(number, Known { start, name, time_ns, ticks, swapped, weighed, is_old: false });
    }
}

/// The subjects to weigh: first the parents of new processes, because they have forked, then new processes,
/// then others; in each class the largest first.
fn due<'a>(
    subjects: &'a [Subject],
    known: &HashMap<u32, Known>,
    occasion: Occasion,
) -> Vec<&'a Subject> {
    let weight_of = |state: &ProcessState| weight(known.get(&state.process)?, state);
    let best = subjects.iter().filter_map(|subject| weight_of(&subject.state));
    let least = smallest_weighed(best.map(|best| best.memory + best.swapped).max().unwrap_or(0));
    let size = |state: &ProcessState| state.resident + state.swapped;
    let is_eligible = |subject: &&Subject| size(&subject.state) >= least && !subject.is_dying;
    let is_new = |subject: &&Subject| !known.contains_key(&subject.state.process);
    let new = subjects.iter().filter(is_eligible).filter(is_new);
    let parents: HashSet<u32> = new.map(|subject| subject.state.parent).collect();
    let has_run = |subject: &Subject| {
        let known = known.get(&subject.state.process);
        known.is_some_and(|known| known.is_sharer() && known.ticks != subject.state.ticks)
    };
    let have_sharers_run = occasion.is_short && subjects.iter().any(has_run);
    let longest_ns = |known: &Known| match have_sharers_run && known.is_sharer() {
        true => VALID_SHARER_NS,
        false => VALID_NS,
    };
    let rank = |subject: &Subject| {
        let state = &subject.state;
        let class = match known.get(&state.process) {
            Some(_) if parents.contains(&state.process) => FORKED,
            None => NEW,
            Some(known) if known.is_valid(state, longest_ns(known), occasion) => return None,
            Some(_) => AGAIN,
        };
        Some((class, Reverse(size(state))))
    };
    let all = subjects.iter().filter(is_eligible);
    let mut ranked: Vec<_> = all.filter_map(|subject| Some((rank(subject)?, subject))).collect();
    ranked.sort_by_key(|&(rank, _)| rank);
    let new = ranked.iter().take_while(|((class, _), _)| *class < AGAIN).count();
    let count = new.clamp(USUALLY_AT_ONCE, AT_ONCE);
    ranked.into_iter().take(count).map(|(_, subject)| subject).collect()
}

impl Known {
    fn is_valid(&self, state: &ProcessState, longest_ns: u64, occasion: Occasion) -> bool {
        let age_ns = occasion.time_ns.saturating_sub(self.time_ns);
        let is_similar =
            state.own.is_some_and(|own| self.weighed.has_similar_size(state.resident, own));
        is_similar && !self.is_old && age_ns < longest_ns
    }

    fn is_sharer(&self) -> bool {
        self.weighed.weight.is_some_and(|weight| weight.is_shared())
    }
}

/// The weight of a process now: its last weight, and its growth since then.
fn weight(known: &Known, state: &ProcessState) -> Option<Weight> {
    let (weighed, own) = (known.weighed, state.own?);
    let measured = weighed.weight?;
    let share = (own + measured.proportional).saturating_sub(weighed.anonymous);
    let shares = !weighed.is_borrowed;
    // What a sharer had in memory is shared in swap, too.
    let moved = match measured.is_shared() {
        true => weighed.anonymous.saturating_sub(own),
        false => 0,
    };
    let moved = moved.min(state.swapped.saturating_sub(known.swapped));
    Some(Weight {
        memory: weighed.own(own),
        swapped: weighed.own_swapped(state.swapped - moved),
        share: (shares && measured.is_shared()).then_some(share),
        shared: if shares { measured.shared } else { 0 },
        is_borrowed: weighed.is_borrowed,
        time_ns: known.time_ns,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const MS: u64 = 1_000_000;

    fn subject(process: u32, mib: u64) -> Subject {
        let state = ProcessState {
            process,
            start: 7,
            resident: mib * MIB,
            own: Some(mib * MIB),
            swapped: 2 * MIB,
            parent: 900,
            ..ProcessState::default()
        };
        Subject { state, is_dying: false }
    }

    fn at(ms: u64) -> Occasion {
        Occasion { time_ns: ms * MS, is_short: true, killed_ns: None }
    }

    /// A weight of `subject` at its present size, of which `own_mib` is its own memory.
    fn known(subject: &Subject, ms: u64, own_mib: u64) -> (u32, Known) {
        let own = own_mib * MIB;
        let anonymous = subject.state.own.unwrap();
        let weight = linux::weight::Weight {
            own,
            proportional: (own + anonymous) / 2,
            shared_swapped: MIB,
            ..linux::weight::Weight::default()
        };
        let weighed = Weighed::new(Some(weight), [(anonymous, anonymous); 2], false);
        let time_ns = ms * MS;
        let known = Known {
            start: 7,
            name: String::new(),
            time_ns,
            ticks: 0,
            swapped: subject.state.swapped,
            weighed,
            is_old: false,
        };
        (subject.state.process, known)
    }

    fn numbers(subjects: &[Subject], known: &HashMap<u32, Known>, when: Occasion) -> Vec<u32> {
        due(subjects, known, when).into_iter().map(|subject| subject.state.process).collect()
    }

    #[test]
    fn a_moment_weighs_the_largest_and_the_next_moment_others() {
        let subjects: Vec<Subject> =
            (1..=20).map(|number| subject(number, 100 + u64::from(number))).collect();
        let mut all = HashMap::new();
        let down = |from: u32, to: u32| (to..=from).rev().collect::<Vec<u32>>();
        assert_eq!(numbers(&subjects, &all, at(0)), down(20, 5));
        all.extend(subjects[4..].iter().map(|subject| known(subject, 0, 100)));
        assert_eq!(numbers(&subjects, &all, at(200)), down(4, 1));
        all.extend(subjects[..4].iter().map(|subject| known(subject, 200, 100)));
        assert!(numbers(&subjects, &all, at(600)).is_empty());
        assert_eq!(numbers(&subjects, &all, at(10_000)), down(20, 13));
        all.extend(subjects[12..].iter().map(|subject| known(subject, 10_000, 100)));
        assert_eq!(numbers(&subjects, &all, at(10_200)), down(12, 5));
        all.extend(subjects[4..12].iter().map(|subject| known(subject, 10_200, 100)));
        assert_eq!(numbers(&subjects, &all, at(10_400)), down(4, 1));
    }

    #[test]
    fn small_and_dying_processes_are_not_weighed() {
        let mut dying = subject(3, 500);
        dying.is_dying = true;
        let mut tiny = subject(4, 0);
        tiny.state.swapped = MIB - 1;
        let subjects = [subject(1, 100), subject(2, 9), dying, tiny];
        let mut all = HashMap::new();
        assert_eq!(numbers(&subjects, &all, at(0)), [1, 2]);
        // The end of the largest frees 100 MiB, that of the other at most 11 MiB.
        all.extend([known(&subjects[0], 0, 100)]);
        assert!(numbers(&subjects, &all, at(0)).is_empty());
        all.extend([known(&subjects[0], 0, 50)]);
        assert_eq!(numbers(&subjects, &all, at(0)), [2]);
    }

    #[test]
    fn a_weight_is_valid_for_a_while_unless_the_size_changes() {
        let mut subjects = [subject(1, 100), subject(2, 90)];
        let all = HashMap::from([known(&subjects[0], 0, 50), known(&subjects[1], 1000, 90)]);
        assert!(numbers(&subjects, &all, at(9_999)).is_empty());
        assert_eq!(numbers(&subjects, &all, at(10_000)), [1]);
        // A sharer that ran may have written to shared pages.
        subjects[0].state.ticks = 1;
        assert!(numbers(&subjects, &all, at(999)).is_empty());
        assert_eq!(numbers(&subjects, &all, at(1_000)), [1]);
        assert!(numbers(&subjects, &all, Occasion { is_short: false, ..at(9_999) }).is_empty());
        // The other process shares no memory.
        subjects[1].state.ticks = 1;
        assert_eq!(numbers(&subjects, &all, at(9_999)), [1]);
        subjects[1].state.own = Some(113 * MIB);
        assert_eq!(numbers(&subjects, &all, at(1_001)), [1, 2]);
        // A new process comes first.
        let all = HashMap::from([known(&subject(1, 80), 0, 20)]);
        assert_eq!(numbers(&subjects, &all, at(200)), [2, 1]);
    }

    #[test]
    fn shared_memory_that_goes_to_swap_stays_shared() {
        let mut sharer = subject(1, 100);
        let (_, measured) = known(&sharer, 0, 5);
        let first = weight(&measured, &sharer.state).unwrap();
        assert_eq!(
            (first.memory, first.swapped, first.share),
            (5 * MIB, MIB, Some(52 * MIB + MIB / 2))
        );
        assert!(!first.is_borrowed && first.time_ns == 0);
        // 30 MiB went to swap; 2 MiB in swap are new.
        (sharer.state.own, sharer.state.swapped) = (Some(70 * MIB), 34 * MIB);
        let now = weight(&measured, &sharer.state).unwrap();
        assert_eq!((now.memory, now.swapped), (0, 3 * MIB));
        // Memory of a process that shares none is its own in swap, too.
        let (_, alone) = known(&subject(2, 100), 0, 100);
        assert_eq!(weight(&alone, &sharer.state).unwrap().swapped, 33 * MIB);
    }

    #[test]
    fn a_server_that_has_forked_is_weighed_again() {
        let mut subjects: Vec<Subject> = (1..=10).map(|number| subject(number, 112)).collect();
        let mut all = HashMap::from([known(&subjects[9], 0, 112)]);
        subjects[..9].iter_mut().for_each(|child| child.state.parent = 10);
        assert_eq!(numbers(&subjects, &all, at(200)), [10, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        all.extend(subjects[..9].iter().map(|child| known(child, 200, 0)));
        assert!(numbers(&subjects, &all, at(400)).is_empty());
        // A child that is too small.
        subjects[0].state.resident = 0;
        all.remove(&1);
        assert!(numbers(&subjects, &all, at(400)).is_empty());
    }

    #[test]
    fn the_end_of_a_sharer_invalidates_the_weights_of_others() {
        let mut subjects = [subject(1, 100), subject(2, 90), subject(3, 80)];
        let mut weights = Weights::start(&Root::system()).unwrap();
        let all = [(0, 5), (1, 5), (2, 80)].map(|(index, own)| known(&subjects[index], 4_900, own));
        weights.known = HashMap::from(all);
        assert!(numbers(&subjects, &weights.known, at(5_000)).is_empty());
        subjects[0].state.own = Some(107 * MIB);
        subjects[1].state.name = "other program".to_owned();
        weights.update(&mut subjects, at(5_000));
        let some = |mib: u64, share_kib: Option<u64>| {
            let share = share_kib.map(|kib| kib << 10);
            let time_ns = 4_900 * MS;
            Some(Weight { memory: mib * MIB, swapped: MIB, share, time_ns, ..Weight::default() })
        };
        // The last weight, and the growth since then.
        assert_eq!(
            subjects.map(|subject| subject.state.weight),
            [some(12, Some(59 * 1024 + 512)), None, some(80, None)]
        );
        assert!(weights.known[&1].is_old && !weights.known[&3].is_old);
        // The end of a process that shares no memory changes nothing.
        weights.known.get_mut(&1).expect("it is known").is_old = false;
        weights.update(&mut [subject(1, 100)], at(5_001));
        assert!(!weights.known[&1].is_old);
    }

    #[test]
    fn a_read_after_a_kill_does_not_change_what_the_killer_saw() {
        let this = std::process::id();
        let own = linux::process::state(&Root::system(), this).unwrap();
        let mut subject = subject(this, 100);
        subject.state.start = own.start;
        let mut weights = Weights::start(&Root::system()).unwrap();
        let (_, mut before) = known(&subject, 0, 5);
        before.start = own.start;
        for (killed_ns, is_kept) in [(Some(1), true), (Some(u64::MAX), false), (None, false)] {
            weights.known = HashMap::from([(this, before.clone())]);
            weights.weigher.post(jobs(&weights.processes, vec![&subject]));
            // When the thread is ready, it has stored all results.
            while !weights.weigher.is_ready() {
                std::thread::yield_now();
            }
            weights.take(std::slice::from_ref(&subject), killed_ns);
            assert_eq!(weights.known[&this].weighed == before.weighed, is_kept, "{killed_ns:?}");
        }
    }

    #[test]
    fn this_process_is_weighed() {
        let root = Root::system();
        let block = std::hint::black_box(vec![1_u8; 32 << 20]);
        let own = linux::process::state(&root, std::process::id()).unwrap();
        let mut subject = subject(std::process::id(), 0);
        (subject.state.start, subject.state.name) = (own.start, own.name);
        (subject.state.resident, subject.state.own) = (own.resident, own.anonymous);
        subject.state.parent = own.parent;
        let mut weights = Weights::start(&root).unwrap();
        let mut weight = None;
        // The result goes into a later moment.
        for ms in 0.. {
            weights.update(std::slice::from_mut(&mut subject), at(ms * 1000));
            weight = subject.state.weight;
            if weight.is_some() {
                break;
            }
            std::thread::yield_now();
        }
        let weight = weight.expect("it was weighed");
        assert!(weight.memory >= block.len() as u64, "{weight:?}");
    }
}
