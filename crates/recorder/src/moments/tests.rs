//! Tests of moments: notices and looks written by hand, and the expected moments.

use super::*;
use crate::notices::Victim;

const MIB: u64 = 1 << 20;
const MS: u64 = 1_000_000;

fn process(number: u32, mib: u64) -> ProcessState {
    ProcessState {
        process: number,
        name: format!("p{number}"),
        start: 7,
        resident: (mib + 1) * MIB,
        own: Some(mib * MIB),
        swapped: 3 * MIB,
        ticks: 50,
        group: 2,
        ..ProcessState::default()
    }
}

/// A look at a group of 500 MiB.
fn look(ms: u64, free_mib: u64, processes: &[ProcessState]) -> Look {
    let memory = MemoryState {
        total: 500 * MIB,
        free: free_mib * MIB,
        available: (free_mib + 10) * MIB,
        swap_total: 100 * MIB,
        swap_free: 60 * MIB,
        ..MemoryState::default()
    };
    let processes = processes.to_vec();
    let moment = Moment { time_ns: ms * MS, memory, processes, victim: None };
    Look { moment, free_by_zones: Some((free_mib + 1000) * MIB) }
}

/// A notice of the kernel in which the group used `used_mib`.
fn notice(ms: u64, number: u32, mib: u64, used_mib: u64) -> Notice {
    let victim = Victim {
        name: format!("p{number}"),
        start: 7,
        adj: 5,
        resident: (mib + 1) * MIB,
        anonymous: mib * MIB,
        swapped: 3 * MIB,
        major_faults: 9,
    };
    Notice {
        time_ns: ms * MS,
        process: number,
        victim: Some(victim),
        used: Some(used_mib * MIB),
        free: Some(9000 * MIB),
    }
}

fn numbers(moment: &Moment) -> Vec<(u32, u64, Liveness)> {
    let mib = |state: &ProcessState| state.own.unwrap_or(0) / MIB;
    moment.processes.iter().map(|state| (state.process, mib(state), state.life)).collect()
}

#[test]
fn the_moment_of_a_kill_has_the_victim_even_if_the_look_does_not() {
    let mut moments = Moments::default();
    moments.take(&[], look(0, 90, &[process(10, 100), process(11, 200)]));
    let taken = moments.take(&[notice(150, 11, 290, 480)], look(151, 300, &[process(10, 101)]));
    let [at_kill, after] = &taken[..] else { panic!("two moments") };
    assert_eq!((at_kill.time_ns, at_kill.victim), (150 * MS, Some(11)));
    assert_eq!(numbers(at_kill), [(10, 101, Liveness::Living), (11, 290, Liveness::Living)]);
    assert_eq!(at_kill.memory.free, 20 * MIB);
    assert_eq!(at_kill.memory.available, 30 * MIB);
    assert_eq!(at_kill.memory.swap_free, 57 * MIB);
    let victim = &at_kill.processes[1];
    assert_eq!((victim.ticks, victim.group), (50, 2), "as at the last look");
    assert_eq!((victim.adj, victim.major_faults), (5, 9));
    // 280 of 291 MiB became free, and the victim has not ended: the rest is still to come.
    assert_eq!((after.victim, after.memory.free), (None, 300 * MIB));
    assert_eq!(numbers(after), [(10, 101, Liveness::Living), (11, 10, Liveness::Dying)]);
}

#[test]
fn free_memory_of_a_machine_comes_from_its_zones() {
    let mut moments = Moments::default();
    let machine = Notice { used: None, free: Some(1020 * MIB), ..notice(150, 11, 200, 0) };
    let taken = moments.take(&[machine], look(151, 300, &[]));
    assert_eq!(taken[0].memory.free, 20 * MIB);
    // If the zones are unknown, as at the last look.
    let mut moments = Moments::default();
    moments.take(&[], look(0, 90, &[]));
    let unknown = Notice { used: None, free: None, ..notice(150, 11, 200, 0) };
    assert_eq!(moments.take(&[unknown], look(151, 300, &[]))[0].memory.free, 90 * MIB);
}

#[test]
fn the_second_of_two_kills_at_once_finds_the_first_dying() {
    let mut moments = Moments::default();
    moments.take(&[], look(0, 90, &[process(10, 100), process(11, 200)]));
    let notices = [notice(150, 11, 200, 480), notice(151, 10, 100, 430)];
    let taken = moments.take(&notices, look(155, 400, &[]));
    let [first, second, _] = &taken[..] else { panic!("three moments") };
    assert_eq!(numbers(first), [(10, 100, Liveness::Living), (11, 200, Liveness::Living)]);
    assert_eq!(first.memory.free, 20 * MIB);
    // 50 of 201 MiB were back.
    assert_eq!(numbers(second), [(10, 100, Liveness::Living), (11, 150, Liveness::Dying)]);
    assert_eq!((second.victim, second.memory.free), (Some(10), 70 * MIB));
}

#[test]
fn a_victim_that_ended_before_the_look_is_dying_at_the_second_kill() {
    let mut moments = Moments::default();
    let both = [process(10, 100), process(11, 200)];
    moments.take(&[notice(5, 11, 200, 480)], look(6, 20, &both));
    // The look is late: the first victim has ended, but still had memory at the second kill.
    moments.watch(50 * MS, |_| None);
    assert!(!moments.is_watching());
    let taken =
        moments.take(&[notice(8, 10, 100, 470), notice(40, 9, 30, 480)], look(51, 330, &[]));
    assert_eq!(
        numbers(&taken[0]),
        [(9, 30, Liveness::Living), (10, 100, Liveness::Living), (11, 190, Liveness::Dying)]
    );
    // Other processes may have taken the memory that it freed.
    assert!(numbers(&taken[1]).iter().all(|&(process, ..)| process != 11));
    assert!(numbers(&taken[2]).iter().all(|&(process, ..)| process != 11));
}

#[test]
fn a_victim_whose_own_memory_is_back_is_not_dying_because_of_its_file_pages() {
    let mut moments = Moments::default();
    let mut swapped = process(11, 0);
    (swapped.resident, swapped.own) = (6 * MIB, Some(2 * MIB));
    let mut notice_of_it = notice(5, 11, 2, 480);
    notice_of_it.victim.as_mut().unwrap().resident = 6 * MIB;
    moments.take(&[], look(0, 20, &[process(10, 100), swapped]));
    moments.watch(7 * MS, |_| None);
    // 2 MiB are free 3 ms later, at the second kill.
    let notices = [notice_of_it, notice(8, 10, 100, 478)];
    let taken = moments.take(&notices, look(9, 30, &[process(10, 90)]));
    let at_second = numbers(&taken[1]);
    assert!(at_second.iter().all(|&(process, ..)| process != 11), "{at_second:?}");
}

#[test]
fn a_victim_with_little_memory_is_not_dying_once_it_has_ended() {
    let mut moments = Moments::default();
    let mut little = process(11, 0);
    little.own = Some(128 << 10);
    moments.take(&[], look(0, 20, &[process(10, 100), little]));
    moments.take(&[notice(5, 11, 0, 480)], look(6, 20, &[process(10, 100)]));
    moments.watch(7 * MS, |_| None);
    // Other processes have taken what it freed.
    let taken = moments.take(&[notice(8, 10, 100, 480)], look(9, 20, &[process(10, 90)]));
    let at_second = numbers(&taken[0]);
    assert!(at_second.iter().all(|&(process, ..)| process != 11), "{at_second:?}");
}

#[test]
fn a_process_that_gives_nothing_back_is_stuck_and_one_that_ended_is_forgotten() {
    let mut moments = Moments::default();
    let both = [process(10, 100), process(11, 200)];
    moments.take(&[notice(5, 10, 100, 480), notice(5, 11, 200, 480)], look(6, 20, &both));
    assert!(moments.is_watching());
    let remains = |mib: u64| Some(Remains { start: 7, resident: mib * MIB });
    // The second gives some back after 90 ms.
    moments.watch(95 * MS, |process| if process == 10 { remains(101) } else { remains(150) });
    let mut half = both.clone();
    half[1].resident = 150 * MIB;
    let at = |moments: &mut Moments, ms| moments.take(&[], look(ms, 71, &half)).remove(0);
    let after = at(&mut moments, 120);
    assert_eq!(after.processes[0].life, Liveness::Stuck);
    assert_eq!(after.processes[0].resident, 101 * MIB);
    assert_eq!(after.processes[1].life, Liveness::Dying);
    moments.watch(130 * MS, |process| if process == 10 { remains(101) } else { None });
    let after = at(&mut moments, 130);
    assert_eq!(after.processes[1].life, Liveness::Living, "another process of this number");
    moments.watch(131 * MS, |_| Some(Remains { start: 8, resident: 0 }));
    assert!(!moments.is_watching());
}

#[test]
fn a_notice_without_the_victims_memory_gives_no_moment() {
    let mut moments = Moments::default();
    moments.take(&[], look(0, 90, &[process(10, 100), process(11, 200)]));
    let text = |process| Notice { time_ns: 150 * MS, process, ..Notice::default() };
    let half = ProcessState { resident: 101 * MIB, ..process(11, 100) };
    let taken = moments.take(&[text(11), text(99)], look(170, 191, &[process(10, 100), half]));
    let [after] = &taken[..] else { panic!("one moment") };
    assert_eq!((after.victim, after.time_ns), (None, 170 * MS));
    assert_eq!(numbers(after), [(10, 100, Liveness::Living), (11, 100, Liveness::Dying)]);
}

#[test]
fn the_number_of_moments_at_kills_is_limited() {
    let mut moments = Moments::default();
    let storm = |first: u32, ms| -> Vec<Notice> {
        (first..first + 1000).map(|number| notice(ms, number, 1, 400)).collect()
    };
    assert_eq!(moments.take(&storm(1000, 5), look(6, 90, &[])).len() as u64, BURST + 1);
    assert_eq!(moments.take(&storm(2000, 1005), look(1006, 90, &[])).len() as u64, PER_SECOND + 1);
}

#[test]
fn a_victim_has_its_weight_from_before_the_kill_and_its_growth_since() {
    let mut moments = Moments::default();
    let weighed = |number, mib, own_mib: u64| ProcessState {
        weight: Some(Weight { memory: own_mib * MIB, swapped: MIB, ..Weight::default() }),
        ..process(number, mib)
    };
    moments.take(&[], look(0, 90, &[weighed(10, 200, 5), weighed(11, 200, 0)]));
    // It grew by 7 MiB before the kill. At the look it has freed most of its memory, and the other process is the
    // last sharer.
    let left = ProcessState { resident: 41 * MIB, ..weighed(10, 40, 0) };
    let notices = [notice(150, 10, 207, 480)];
    let taken = moments.take(&notices, look(151, 30, &[left, weighed(11, 200, 0)]));
    let [at_kill, after] = &taken[..] else { panic!("two moments") };
    let weights = |moment: &Moment| -> Vec<Option<Weight>> {
        moment.processes.iter().map(|state| state.weight).collect()
    };
    let some = |mib: u64, swapped| Some(Weight { memory: mib * MIB, swapped, ..Weight::default() });
    assert_eq!(weights(at_kill), [some(12, MIB), some(0, MIB)]);
    // 10 of the 12 MiB that its end frees have become free, and it still has 41 of its 208 MiB.
    let share = |bytes: u64| bytes * 41 / 208;
    let expected = Weight { memory: share(12 * MIB), swapped: share(MIB), ..Weight::default() };
    assert_eq!(weights(after), [Some(expected), some(0, MIB)]);
    assert_eq!(after.processes[0].life, Liveness::Dying);
}

#[test]
fn a_victims_count_within_the_kernels_error_is_that_of_the_last_look() {
    for (error_kib, is_exact) in [(100, true), (1024, true), (1025, false)] {
        let mut moments = Moments::default();
        let weight = Some(Weight { memory: 64 << 10, share: Some(MIB), ..Weight::default() });
        let fork =
            ProcessState { weight, parent: 9, process_group: 8, swapped: 0, ..process(11, 200) };
        moments.take(&[], look(0, 90, std::slice::from_ref(&fork)));
        let mut notice = notice(150, 11, 200, 480);
        let victim = notice.victim.as_mut().unwrap();
        victim.anonymous -= error_kib << 10;
        victim.swapped = 0;
        let at_kill = moments.take(&[notice], look(151, 91, &[])).remove(0);
        let [seen] = &at_kill.processes[..] else { panic!("one process") };
        assert_eq!(seen.weight == weight && seen.own == fork.own, is_exact, "{error_kib}");
        assert_eq!((seen.parent, seen.process_group), (9, 8));
    }
}
