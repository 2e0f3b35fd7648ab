//! Recordings made by hand, with their expected results.

use policy::kill;
use trace::recording::moments::{Found, Liveness, MemoryState, Moment, ProcessState, Weight};

use super::*;

const MIB: u64 = 1 << 20;

/// A moment with two processes, the second the larger, and memory of 1000 MiB.
fn moment(tenths: u64, available_mib: u64, full_us: u64) -> Found {
    let process = |number: u32, mib: u64, adj: i16| ProcessState {
        process: number,
        name: format!("p{number}"),
        start: 7,
        adj,
        resident: mib * MIB,
        ..ProcessState::default()
    };
    let memory = MemoryState {
        total: 1000 * MIB,
        free: available_mib * MIB,
        available: available_mib * MIB,
        some_us: Some(full_us),
        full_us: Some(full_us),
        ..MemoryState::default()
    };
    let processes = vec![process(10, 100, 900), process(11, 300, 0)];
    let time_ns = 5_000_000_000 + tenths * 100_000_000;
    Found::Moment(Box::new(Moment { time_ns, memory, processes, victim: None }))
}

fn replay(policy: &str, options: &[(&str, &str)], found: Vec<Found>) -> ReplayOutcome {
    let built = kill::find(policy).unwrap().build(options).unwrap();
    let mut replayer = Replayer::new(vec![(policy.to_owned(), built)], Settings::default());
    found.into_iter().for_each(|found| replayer.take(found));
    replayer.finish()
}

/// Levels of 400 and 200 MiB, in pages.
const LEVELS: &[(&str, &str)] =
    &[("minfree_levels", "51200:0,102400:900"), ("file_cache_counts", "false")];

#[test]
fn victims_free_their_memory_and_are_not_chosen_again() {
    // Below 400 MiB a process of adj 900 dies; with its 100 MiB, 400 are free again.
    let found = vec![moment(0, 500, 0), moment(1, 399, 0), moment(2, 300, 0), moment(3, 90, 0)];
    let outcome = replay("minfree", LEVELS, found);
    let [run] = &outcome.policies[..] else { panic!("one policy") };
    let died: Vec<u32> = run.decisions.iter().map(|made| made.victims[0].process).collect();
    assert_eq!(died, [10, 11]);
    assert_eq!(run.decisions[0].time_s, 0.1);
    assert_eq!(run.decisions[0].available_bytes, 399 * MIB);
    assert_eq!(run.decisions[1].time_s, 0.3);
    assert_eq!(run.decisions[1].available_bytes, 190 * MIB);
    assert!(run.decisions[1].spared.is_empty());
    // Before the first kill and between the two.
    assert_eq!(run.reasons.len(), 2);
    assert_eq!((run.reasons[1].from_s, run.reasons[1].to_s), (0.2, 0.2));
    // The recording ends before the window does.
    assert_eq!(run.decisions[0].judgement, Judgement::Undecided);
}

/// Moments at which the kernel has begun to reclaim, with `free_mib` of 1000 MiB free, of which it
/// reserves 60.
fn pressed(free_mib: u64, watermarks: Option<[u64; 3]>) -> Vec<Found> {
    let moments = (0..3).map(|tenths| {
        let Found::Moment(mut moment) = moment(tenths, free_mib, 0) else { panic!("a moment") };
        moment.memory.files = 10 * MIB;
        moment.memory.scanned_by_kswapd = Some(tenths * 100);
        (moment.memory.swap_total, moment.memory.swap_free) = (100 * MIB, 0);
        moment.memory.reserved = if watermarks.is_some() { 60 * MIB } else { 0 };
        moment.memory.watermarks = watermarks;
        Found::Moment(moment)
    });
    moments.collect()
}

#[test]
fn recorded_watermarks_let_lmkd_kill_when_free_memory_is_low() {
    let marks = Some([20, 30, 40].map(|mib| mib * MIB));
    let decisions = |free_mib, watermarks| {
        let outcome = replay("lmkd", &[], pressed(free_mib, watermarks));
        assert_eq!(outcome.has_watermarks, watermarks.is_some());
        outcome.policies[0].decisions.clone()
    };
    let low = decisions(39, marks);
    assert_eq!(low[0].why, "free memory and swap are low");
    assert_eq!(low[0].victims[0].process, 10);
    assert_eq!(decisions(41, marks), []);
    assert_eq!(decisions(39, None), []);
}

#[test]
fn the_reserve_of_the_kernel_is_not_free_to_minfree() {
    // 100 MiB: of 150 free ones 90 are left for programs.
    let levels: &[(&str, &str)] = &[("minfree_levels", "25600:900")];
    let decisions = |watermarks| replay("minfree", levels, pressed(150, watermarks)).policies;
    assert_eq!(decisions(Some([MIB; 3]))[0].decisions.len(), 1);
    assert_eq!(decisions(None)[0].decisions, []);
}

#[test]
fn decisions_are_compared_with_freezes_and_kills() {
    // Low for a moment at 1 s without any stall; frozen from 20.0 to 22.0 s, low from 21 s on.
    let mut found = Vec::new();
    for tenths in 0..400 {
        let available = match tenths {
            10 => 390,
            210.. => 200,
            _ => 900,
        };
        let full_us = (tenths.clamp(200, 220) - 200) * 60_000;
        found.push(moment(tenths, available, full_us));
    }
    let outcome = replay("minfree", LEVELS, found.clone());
    assert_eq!(outcome.freezes.len(), 1);
    assert_eq!((outcome.freezes[0].from_s, outcome.freezes[0].to_s), (20.0, 22.0));
    let [run] = &outcome.policies[..] else { panic!("one policy") };
    // The only candidate of adj 900 died in vain at 1 s, so none was left for the freeze: with 200
    // MiB and 100 freed the second level is not reached.
    assert_eq!(run.decisions.len(), 1);
    assert_eq!(run.decisions[0].judgement, Judgement::FalseAlarm);
    assert_eq!((run.false_alarms, run.missed_freezes), (1, 1));

    // Without the early moment it dies within the freeze.
    found.remove(10);
    let outcome = replay("minfree", LEVELS, found.clone());
    let [run] = &outcome.policies[..] else { panic!("one policy") };
    assert_eq!((run.decisions.len(), run.false_alarms, run.missed_freezes), (1, 0, 0));
    assert_eq!(run.decisions[0].judgement, Judgement::Needed);

    // A kill by the kernel is a freeze that no policy foresaw, and is one kill though the signal follows.
    found.truncate(50);
    let kill =
        |time_ns, is_of_kernel| Found::Kill { time_ns, process: 11, sender: 11, is_of_kernel };
    found.extend([kill(9_000_000_000, true), kill(9_000_035_000, false)]);
    let outcome = replay("minfree", LEVELS, found);
    assert_eq!(outcome.recorded.len(), 1);
    assert!(outcome.recorded[0].is_of_kernel);
    assert_eq!((outcome.recorded[0].killer, &outcome.recorded[0].killer_name), (None, &None));
    assert_eq!(outcome.recorded[0].name.as_deref(), Some("p11"));
    assert_eq!(outcome.recorded[0].time_s, 4.0);
    let signal_first =
        vec![moment(0, 900, 0), kill(9_000_000_000, false), kill(9_000_035_000, true)];
    let outcome = replay("minfree", LEVELS, signal_first);
    assert_eq!(outcome.recorded.len(), 1);
    assert!(outcome.recorded[0].is_of_kernel && outcome.recorded[0].killer.is_none());
    assert!(outcome.freezes[0].is_kernel_kill);
    assert_eq!(outcome.policies[0].missed_freezes, 1);
}

#[test]
fn a_short_stall_is_no_freeze() {
    // A stall of 0.8 s.
    let found = (0..100).map(|tenths| moment(tenths, 900, tenths.clamp(50, 58) * 100_000));
    assert!(replay("minfree", LEVELS, found.collect()).freezes.is_empty());
}

#[test]
fn a_long_recording_keeps_its_lowest_memory() {
    let found =
        (0..20_000).map(|tenths| moment(tenths, if tenths == 12_345 { 401 } else { 900 }, 0));
    let outcome = replay("minfree", LEVELS, found.collect());
    assert!(outcome.memory.len() <= 4097, "{}", outcome.memory.len());
    assert!(outcome.memory.is_sorted_by(|point, next| point.time_s < next.time_s));
    let lowest = outcome.memory.iter().map(|point| point.available_bytes).min();
    assert_eq!(lowest, Some(401 * MIB));
    assert_eq!(outcome.moments, 20_000);
}

/// The moment of the kill of the second process, and records from 0.1 s before and after it: memory
/// falls from 500 to 45 MiB in between and is back by then.
fn killed(with_moment: bool) -> Vec<Found> {
    let without_victim = |tenths| {
        let Found::Moment(mut moment) = moment(tenths, 600, 0) else { panic!("a moment") };
        moment.processes.pop();
        Found::Moment(moment)
    };
    let Found::Moment(mut at_kill) = moment(1, 45, 0) else { panic!("a moment") };
    at_kill.victim = Some(11);
    at_kill.processes[0].adj = 0;
    let time_ns = at_kill.time_ns;
    let kill = Found::Kill { time_ns, process: 11, sender: 1, is_of_kernel: false };
    let mut found = vec![moment(0, 500, 0), kill];
    if with_moment {
        found.push(Found::Moment(at_kill));
    }
    found.extend([without_victim(2), without_victim(3)]);
    found
}

#[test]
fn the_moment_of_a_kill_shows_whether_a_policy_names_its_victim() {
    for (has_moment, expected) in [(true, (1, 0, 0)), (false, (0, 0, 1))] {
        let outcome = replay("largest", &[], killed(has_moment));
        assert_eq!(outcome.recorded[0].has_moment, has_moment);
        // Process 1 was recorded by its signal only.
        assert_eq!(
            (outcome.recorded[0].killer, &outcome.recorded[0].killer_name),
            (Some(1), &None)
        );
        let [run] = &outcome.policies[..] else { panic!("one policy") };
        let counts = (run.victims_named, run.victims_not_named, run.victims_unknown);
        assert_eq!(counts, expected);
        assert_eq!(run.decisions.len(), usize::from(has_moment));
    }
    let outcome = replay("largest", &[("memory_percent", "4")], killed(true));
    assert_eq!(outcome.policies[0].victims_not_named, 1);
}

#[test]
fn memory_of_a_dying_process_is_awaited_unless_it_is_stuck() {
    let decisions = |life| {
        let Found::Moment(mut moment) = moment(0, 50, 0) else { panic!("a moment") };
        moment.processes[0].adj = 0;
        moment.processes[1].life = life;
        let outcome = replay("largest", &[], vec![Found::Moment(moment)]);
        let victims = |made: &Decision| made.victims[0].process;
        outcome.policies[0].decisions.iter().map(victims).collect::<Vec<u32>>()
    };
    assert_eq!(decisions(Liveness::Living), [11]);
    assert!(decisions(Liveness::Dying).is_empty());
    assert_eq!(decisions(Liveness::Stuck), [10]);
}

#[test]
fn a_policy_ranks_by_freed_memory_and_by_group() {
    let with = |change: fn(&mut Vec<ProcessState>)| {
        let Found::Moment(mut moment) = moment(0, 50, 0) else { panic!("a moment") };
        change(&mut moment.processes);
        Found::Moment(moment)
    };
    let first = |policy: &str, change| {
        let outcome = replay(policy, &[], vec![with(change)]);
        outcome.policies[0].decisions[0].victims[0].process
    };
    // The second has 300 MiB, and its end frees less than the first's 100 MiB and adj.
    assert_eq!(first("largest", |_| {}), 10);
    assert_eq!(first("largest", |all| all[0].adj = 0), 11);
    let shared: fn(&mut Vec<ProcessState>) = |all| {
        all[0].adj = 0;
        all[1].own = Some(99 * MIB);
    };
    assert_eq!(first("largest", shared), 10);
    // A restart of the larger process costs more.
    let dear: fn(&mut Vec<ProcessState>) = |all| {
        all[0].adj = 0;
        (all[1].ticks, all[1].major_faults) = (500, 200);
    };
    assert_eq!(first("restart-cost", dear), 10);
}

/// A server with 300 MiB that it shares with eight forks, and a hog with 200 MiB.
fn server_with_forks(has_weights: bool) -> Vec<Found> {
    let Found::Moment(mut moment) = moment(0, 50, 0) else { panic!("a moment") };
    let weight =
        |mib: u64| has_weights.then_some(Weight { memory: mib * MIB, ..Weight::default() });
    let process = |number, mib: u64, own_mib: u64| ProcessState {
        process: number,
        resident: (mib + 2) * MIB,
        own: Some(mib * MIB),
        weight: weight(own_mib),
        ..ProcessState::default()
    };
    moment.processes = (11..=19).map(|number| process(number, 300, 1)).collect();
    moment.processes.push(process(20, 200, 200));
    vec![Found::Moment(moment)]
}

#[test]
fn with_weights_memory_shared_by_forks_makes_no_process_a_victim() {
    for policy in ["largest", "restart-cost", "minfree"] {
        let options = if policy == "minfree" { LEVELS } else { &[] };
        let named = |has_weights| {
            let outcome = replay(policy, options, server_with_forks(has_weights));
            assert_eq!(outcome.has_weights, has_weights);
            outcome.policies[0].decisions[0].victims[0].clone()
        };
        let victim = named(true);
        assert_eq!((victim.process, victim.weight_bytes), (20, Some(200 * MIB)), "{policy}");
        // Older recordings have no weights, so shared memory counts in full.
        let victim = named(false);
        assert_eq!((victim.process, victim.weight_bytes), (19, None), "{policy}");
    }
}

#[test]
fn only_the_weight_of_a_dying_sharer_counts_as_free() {
    let died = |weight| {
        let Found::Moment(mut moment) = moment(0, 50, 0) else { panic!("a moment") };
        moment.processes[0].adj = 0;
        moment.processes[1].life = Liveness::Dying;
        moment.processes[1].weight = weight;
        let outcome = replay("largest", &[], vec![Found::Moment(moment)]);
        !outcome.policies[0].decisions.is_empty()
    };
    assert!(!died(None), "all of its 300 MiB will be free");
    assert!(died(Some(Weight { memory: MIB, ..Weight::default() })));
}

/// A server with 300 MiB that it shares with its eight forks, as killd's search sees it, and a process of its own
/// memory; 50 of 1000 MiB are available.
fn family(tenths: u64, other_mib: u64) -> Moment {
    let Found::Moment(mut moment) = server_with_forks(true).remove(0) else { panic!("a moment") };
    moment.time_ns += tenths * 100_000_000;
    for state in &mut moment.processes {
        (state.parent, state.process_group) = (11, 11);
        let weight = state.weight.as_mut().unwrap();
        weight.share = Some(33 * MIB);
    }
    (moment.processes[0].parent, moment.processes[9].parent) = (1, 1);
    let other = &mut moment.processes[9];
    other.own = Some(other_mib * MIB);
    other.weight = Some(Weight { memory: other_mib * MIB, ..Weight::default() });
    *moment
}

fn victims(outcome: &ReplayOutcome) -> Vec<Vec<u32>> {
    let numbers = |made: &Decision| made.victims.iter().map(|victim| victim.process).collect();
    outcome.policies[0].decisions.iter().map(numbers).collect()
}

fn found(moments: impl IntoIterator<Item = Moment>) -> Vec<Found> {
    moments.into_iter().map(|moment| Found::Moment(Box::new(moment))).collect()
}

#[test]
fn a_family_dies_as_one_victim_if_no_process_has_much_memory() {
    // Nine shares of 33 MiB are more than four times 74 MiB, but not than 75 MiB.
    let outcome = replay("largest", &[], found([family(0, 74)]));
    assert_eq!(victims(&outcome), [(11..=19).collect::<Vec<u32>>()]);
    assert_eq!(victims(&replay("largest", &[], found([family(0, 75)]))), [[20]]);
}

#[test]
fn shared_memory_of_no_process_kills_none() {
    let mut moment = family(0, 75);
    moment.memory.shared = Some(1201 * MIB);
    let outcome = replay("largest", &[], found([moment]));
    assert!(victims(&outcome).is_empty());
    assert!(outcome.policies[0].reasons[0].why.starts_with("memory is held by shared memory"));
}

/// Kills of two forks, `apart_ms` apart, the first by process 7; and looks right after each.
fn kills_of_forks(second_sender: u32, apart_ms: u64) -> Vec<Found> {
    let at = |ms: u64, victim: Option<u32>, dying: &[u32]| {
        let mut moment = family(0, 200);
        moment.time_ns += ms * 1_000_000;
        moment.victim = victim;
        for state in &mut moment.processes {
            // Only forks have an adj that may die.
            state.adj = if state.process == 20 { 0 } else { 900 };
            if dying.contains(&state.process) {
                state.life = Liveness::Dying;
            }
        }
        moment
    };
    let moments = [
        at(0, Some(19), &[]),
        at(1, None, &[19]),
        at(apart_ms, Some(18), &[19]),
        at(apart_ms + 1, None, &[19, 18]),
    ];
    let kill = |moment: &Moment, process, sender| Found::Kill {
        time_ns: moment.time_ns,
        process,
        sender,
        is_of_kernel: false,
    };
    let kills = [kill(&moments[0], 19, 7), kill(&moments[2], 18, second_sender)];
    let mut all = found(moments);
    let [first, second] = kills;
    all.insert(2, second);
    all.insert(0, first);
    all
}

const FORKS_ONLY: &[(&str, &str)] =
    &[("minfree_levels", "51200:900"), ("file_cache_counts", "false")];

#[test]
fn a_killer_waits_for_its_victims_until_the_recorded_killer_kills_again() {
    let outcome = replay("minfree", FORKS_ONLY, kills_of_forks(7, 30));
    assert_eq!(victims(&outcome), [[19], [18]]);
    assert!(outcome.policies[0].reasons.iter().all(|reason| reason.why.contains("come back")));
    // Another process kills: the killer still waits.
    assert_eq!(victims(&replay("minfree", FORKS_ONLY, kills_of_forks(8, 30))), [[19]]);
    // Both kills may be a batch, whose killer waits for neither.
    assert_eq!(victims(&replay("minfree", FORKS_ONLY, kills_of_forks(7, 5))), [[19]]);
}

#[test]
fn a_batch_makes_its_decisions_at_once() {
    let built = kill::find("minfree").unwrap().build(FORKS_ONLY).unwrap();
    let settings = Settings { is_batch: true, ..Settings::default() };
    let mut replayer = Replayer::new(vec![("minfree".to_owned(), built)], settings);
    kills_of_forks(7, 30).into_iter().for_each(|found| replayer.take(found));
    let all: Vec<Vec<u32>> = (11..=19).rev().map(|process| vec![process]).collect();
    assert_eq!(victims(&replayer.finish()), all);
}

#[test]
fn a_weight_stays_valid_for_ten_seconds_while_the_size_stays() {
    // The other process frees nothing when it is measured, and later all of its memory.
    let at = |tenths: u64, weight_mib: u64| {
        let mut moment = family(tenths, 200);
        moment.processes[9].weight = Some(Weight { memory: weight_mib * MIB, ..Weight::default() });
        moment.processes.drain(..9);
        moment
    };
    let spared = |tenths| victims(&replay("largest", &[], found([at(0, 0), at(tenths, 200)])));
    assert!(spared(99).is_empty());
    assert_eq!(spared(100), [[20]]);
}
