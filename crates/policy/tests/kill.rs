//! Kill policies: what none of them may do, and each against its naive model or its rules.

use policy::kill::{
    CATALOG, Candidate, Decision, KillPolicy, Memory, PressureShares, Ranking, Snapshot, Stall,
    Standing, Watermarks, find,
};
use proptest::prelude::*;
use testkit::generate::SplitMix;
use testkit::kill as naive;
use types::{Bytes, Nanos, PAGE_BYTES};

const SECOND: i64 = 1_000_000_000;
const MIB: u64 = 1 << 20;

fn pages(count: u64) -> Bytes {
    Bytes(count * PAGE_BYTES)
}

fn memory_of(model: &naive::Memory) -> Memory {
    Memory {
        total: pages(model.total_pages),
        free: pages(model.free_pages),
        available: pages(model.available_pages),
        reserved: Bytes(0),
        files: pages(model.file_pages),
        swap_total: pages(model.swap_pages.0),
        swap_free: pages(model.swap_pages.1),
        disk_swap_total: pages(model.disk_swap_pages.0),
        disk_swap_free: pages(model.disk_swap_pages.1),
        watermarks: Some(Watermarks { min: pages(300), low: pages(400), high: pages(500) }),
        pressure: Some(PressureShares {
            some_basis_points: model.pressure.0,
            full_basis_points: model.pressure.1,
        }),
        scanned_directly: Some(model.counters.0),
        scanned_by_kswapd: Some(model.counters.1),
        file_refaults: Some(model.counters.2),
        stall: [Stall::None, Stall::Partial, Stall::Complete][usize::from(model.stall)],
    }
}

fn candidate_of(model: &naive::Candidate) -> Candidate {
    use Standing::{Avoided, Dying, Neutral, Preferred, Protected, Refused};
    Candidate {
        process: model.process,
        group: model.group,
        adj: model.adj,
        resident: pages(model.resident_pages),
        swapped: pages(model.swapped_pages),
        idle: Nanos(model.idle_s * SECOND),
        restart_cost: Nanos(model.restart_ms * 1_000_000),
        standing: [Protected, Refused, Dying, Avoided, Neutral, Preferred]
            [usize::from(model.standing)],
    }
}

fn ranked(snapshot: &Snapshot<'_>, ranking: &Ranking) -> Vec<u32> {
    ranking.ranked().iter().map(|ranked| snapshot.candidate(ranked.candidate).process).collect()
}

fn built(name: &str, given: &[(&str, &str)]) -> Box<dyn KillPolicy> {
    find(name).expect("the policy is in the catalog").build(given).expect("the options are valid")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// 500 histories of 20 snapshots for each policy.
    #[test]
    fn no_candidate_that_may_not_die_is_killed(seed: u64) {
        for row in CATALOG {
            let mut random = SplitMix(seed);
            let mut policy = row.build(&[]).unwrap();
            let mut ranking = Ranking::with_room(64);
            for step in 0..20 {
                let (memory, candidates) = naive::snapshot(&mut random);
                let real: Vec<Candidate> = candidates.iter().map(candidate_of).collect();
                let snapshot = Snapshot {
                    time: Nanos(step * SECOND / 4),
                    memory: memory_of(&memory),
                    candidates: &real,
                };
                let decision = policy.decide(&snapshot, &mut ranking);
                let mut seen = std::collections::BTreeSet::new();
                for ranked in ranking.ranked() {
                    prop_assert!(naive::may_die(&candidates[ranked.candidate.0]), "{}", row.name);
                    prop_assert!(seen.insert(ranked.candidate), "{} twice", row.name);
                }
                match decision {
                    Decision::Kill { victims, .. } => {
                        prop_assert!((1..=ranking.ranked().len()).contains(&victims));
                    }
                    Decision::Spare { why } => prop_assert!(!why.is_empty()),
                }
                prop_assert!(policy.margin(&snapshot.memory).0 <= snapshot.memory.total.0);
            }
        }
    }

    #[test]
    fn minfree_and_largest_equal_their_models(seed: u64) {
        let mut random = SplitMix(seed);
        let levels = [(1024, 0), (4096, 100), (40_000, 900)];
        let settings = [("minfree_levels", "4096:100, 1024:0,40000:900"), ("file_cache_counts", "false")];
        let mut minfree = built("minfree", &settings);
        let mut largest = built("largest", &[("memory_percent", "8"), ("swap_percent", "15")]);
        let mut ranking = Ranking::with_room(64);
        for _ in 0..20 {
            let (memory, candidates) = naive::snapshot(&mut random);
            let real: Vec<Candidate> = candidates.iter().map(candidate_of).collect();
            let snapshot = Snapshot { time: Nanos(0), memory: memory_of(&memory), candidates: &real };
            let decision = minfree.decide(&snapshot, &mut ranking);
            let expected = naive::minfree(&levels, &memory, &candidates).unwrap_or_default();
            prop_assert_eq!(ranked(&snapshot, &ranking), expected.clone());
            prop_assert_eq!(matches!(decision, Decision::Kill { victims: 1, .. }), !expected.is_empty());
            let decision = largest.decide(&snapshot, &mut ranking);
            let expected = naive::largest(8, 15, &memory, &candidates).unwrap_or_default();
            prop_assert_eq!(ranked(&snapshot, &ranking), expected.clone());
            prop_assert_eq!(matches!(decision, Decision::Kill { victims: 1, .. }), !expected.is_empty());
        }
    }

    #[test]
    fn restart_cost_kills_enough_and_no_more(seed: u64) {
        let mut random = SplitMix(seed);
        let settings = [("low_percent", "10"), ("high_percent", "20"), ("victims_max", "100")];
        let mut policy = built("restart-cost", &settings);
        let mut ranking = Ranking::with_room(64);
        for _ in 0..20 {
            let (mut memory, candidates) = naive::snapshot(&mut random);
            memory.disk_swap_pages = (0, 0);
            let real: Vec<Candidate> = candidates.iter().map(candidate_of).collect();
            let snapshot = Snapshot { time: Nanos(0), memory: memory_of(&memory), candidates: &real };
            let decision = policy.decide(&snapshot, &mut ranking);
            let is_short = memory.available_pages * 10 <= memory.total_pages;
            let Decision::Kill { victims, .. } = decision else {
                prop_assert!(!is_short || !candidates.iter().any(naive::may_die));
                continue;
            };
            prop_assert!(is_short);
            let target = snapshot.memory.total.0 * 20 / 100;
            let needed = target.saturating_sub(snapshot.memory.available.0).max(1);
            let bytes: Vec<u64> =
                ranking.ranked().iter().map(|ranked| real[ranked.candidate.0].resident.0).collect();
            let sum: u64 = bytes[..victims].iter().sum();
            prop_assert!(sum >= needed || victims == bytes.len());
            if victims > 1 && sum >= needed {
                prop_assert!(bytes[..victims].iter().all(|freed| sum - freed < needed));
            }
        }
    }
}

/// Candidates of 50 MiB each with these adj.
fn with_adj<const N: usize>(adj: [i16; N]) -> [Candidate; N] {
    let mut process = 9;
    adj.map(|adj| {
        process += 1;
        Candidate { process, adj, resident: Bytes(50 * MIB), ..Candidate::default() }
    })
}

#[test]
fn the_papers_table_is_exact_to_the_page() {
    let settings = [("minfree_levels", "1024:0,4096:8"), ("file_cache_counts", "false")];
    let mut policy = built("minfree", &settings);
    let mut ranking = Ranking::with_room(8);
    let candidates = with_adj([0, 7, 8, 15]);
    for (free, dying) in [
        (4096, &[][..]),
        (4095, &[13, 12]),
        (1024, &[13, 12]),
        (1023, &[13, 12, 11, 10]),
        (0, &[13, 12, 11, 10]),
    ] {
        let memory = Memory { total: pages(1 << 18), free: pages(free), ..Memory::default() };
        let snapshot = Snapshot { time: Nanos(0), memory, candidates: &candidates };
        policy.decide(&snapshot, &mut ranking);
        assert_eq!(ranked(&snapshot, &ranking), dying, "{free} pages free");
    }
}

#[test]
fn the_drivers_rule_counts_files_as_free() {
    let mut policy = built("minfree", &[("minfree_levels", "1024:0")]);
    let mut ranking = Ranking::with_room(8);
    let candidates = with_adj([0]);
    for (free, reserved, files, is_dying) in
        [(1023, 0, 1023, true), (1023, 0, 1024, false), (1500, 0, 0, false), (1500, 500, 0, true)]
    {
        let memory = Memory {
            free: pages(free),
            reserved: pages(reserved),
            files: pages(files),
            ..Memory::default()
        };
        let snapshot = Snapshot { time: Nanos(0), memory, candidates: &candidates };
        let decision = policy.decide(&snapshot, &mut ranking);
        assert_eq!(
            matches!(decision, Decision::Kill { .. }),
            is_dying,
            "{free} {reserved} {files}"
        );
    }
}

/// 1 GiB with `available` per cent of it available, without swap.
fn short_of(available: u64) -> Memory {
    let total = Bytes(1 << 30);
    let available = Bytes(total.0 * available / 100);
    Memory { total, available, free: available, ..Memory::default() }
}

#[test]
fn compressed_swap_is_no_room_beside_memory() {
    let candidates = with_adj([0]);
    let mut memory = short_of(5);
    (memory.swap_total, memory.swap_free) = (Bytes(1 << 30), Bytes(1 << 29));
    let mut ranking = Ranking::with_room(8);
    for name in ["largest", "restart-cost"] {
        let mut policy = built(name, &[]);
        let mut is_dying = |memory| {
            let snapshot = Snapshot { time: Nanos(0), memory, candidates: &candidates };
            matches!(policy.decide(&snapshot, &mut ranking), Decision::Kill { .. })
        };
        assert!(is_dying(memory), "{name}: half of zram is free");
        let on_disk = Memory {
            disk_swap_total: memory.swap_total,
            disk_swap_free: memory.swap_free,
            ..memory
        };
        assert!(!is_dying(on_disk), "{name}: half of the swap on a disk is free");
    }
}

#[test]
fn stalls_kill_only_when_they_last_and_memory_is_short() {
    let candidates = with_adj([0, 0]);
    let mut ranking = Ranking::with_room(8);
    let mut policy = built("pressure", &[("memory_pressure_duration_s", "3")]);
    let mut at = |second: i64, full_percent: u32, available: u64| {
        let pressure =
            PressureShares { some_basis_points: 10_000, full_basis_points: full_percent * 100 };
        let memory = Memory { pressure: Some(pressure), ..short_of(available) };
        let snapshot = Snapshot { time: Nanos(second * SECOND), memory, candidates: &candidates };
        matches!(policy.decide(&snapshot, &mut ranking), Decision::Kill { .. })
    };
    assert!(!at(0, 90, 10));
    assert!(!at(2, 90, 10));
    assert!(at(3, 90, 10));
    assert!(!at(4, 90, 60), "memory is available");
    assert!(!at(5, 50, 10), "stalls are within the limit");
    assert!(!at(6, 90, 10), "they have lasted for a moment");
    assert!(at(9, 90, 10));
}

#[test]
fn the_largest_process_of_the_group_that_swaps_most_dies() {
    let mut candidates = with_adj([0, 0, 0]);
    for (candidate, (group, swapped)) in candidates.iter_mut().zip([(1, 300), (2, 200), (2, 150)]) {
        (candidate.group, candidate.swapped) = (group, Bytes(swapped * MIB));
    }
    let memory = Memory { swap_total: Bytes(1 << 30), swap_free: Bytes(1 << 20), ..short_of(5) };
    let snapshot = Snapshot { time: Nanos(0), memory, candidates: &candidates };
    let mut ranking = Ranking::with_room(8);
    built("pressure", &[]).decide(&snapshot, &mut ranking);
    assert_eq!(ranked(&snapshot, &ranking), [11, 12, 10]);
}

#[test]
fn the_reason_names_the_missing_swap() {
    let candidates = with_adj([0]);
    let mut ranking = Ranking::with_room(8);
    for (swap, disk_swap, expected) in [
        (0, 0, "there is no swap"),
        (MIB, 0, "there is no swap on devices"),
        (MIB, MIB, "little swap is left"),
    ] {
        let (swap_total, disk_swap_total) = (Bytes(swap), Bytes(disk_swap));
        let memory = Memory { swap_total, disk_swap_total, ..short_of(5) };
        let snapshot = Snapshot { time: Nanos(0), memory, candidates: &candidates };
        for name in ["largest", "restart-cost"] {
            let decision = built(name, &[]).decide(&snapshot, &mut ranking);
            let Decision::Kill { why, .. } = decision else { panic!("{name}: {decision:?}") };
            assert_eq!(why, format!("little memory is available and {expected}"), "{name}");
        }
    }
}

#[test]
fn the_process_idle_longest_dies_first() {
    let mut candidates = with_adj([0, 0, 0, 0]);
    for (candidate, (idle, restart)) in
        candidates.iter_mut().zip([(0, 1), (600, 1), (600, 9), (0, 20)])
    {
        candidate.idle = Nanos(idle * SECOND);
        candidate.restart_cost = Nanos(restart * SECOND);
    }
    let snapshot = Snapshot { time: Nanos(0), memory: short_of(5), candidates: &candidates };
    let mut ranking = Ranking::with_room(8);
    // 4 % of 1 GiB are 41 MiB: one of 50 MiB is enough.
    let expected = "little memory is available and there is no swap";
    let decision = built("restart-cost", &[]).decide(&snapshot, &mut ranking);
    assert_eq!(decision, Decision::Kill { why: expected, victims: 1 });
    assert_eq!(ranked(&snapshot, &ranking), [11, 12, 10, 13]);
}

#[test]
fn a_candidate_without_cost_and_memory_does_not_die_first() {
    let mut candidates = with_adj([0, 0]);
    candidates[0].resident = Bytes(MIB);
    candidates[1].restart_cost = Nanos(SECOND / 2);
    let snapshot = Snapshot { time: Nanos(0), memory: short_of(5), candidates: &candidates };
    let mut ranking = Ranking::with_room(8);
    built("restart-cost", &[]).decide(&snapshot, &mut ranking);
    assert_eq!(ranked(&snapshot, &ranking), [11, 10]);
}

/// lmkd on a machine whose kernel reclaims, second by second.
struct Phone {
    policy: Box<dyn KillPolicy>,
    memory: Memory,
    time: i64,
}

impl Phone {
    fn new(given: &[(&str, &str)]) -> Phone {
        let memory = Memory {
            watermarks: Some(Watermarks {
                min: Bytes(10 * MIB),
                low: Bytes(20 * MIB),
                high: Bytes(30 * MIB),
            }),
            files: Bytes(100 * MIB),
            swap_total: Bytes(512 * MIB),
            swap_free: Bytes(400 * MIB),
            scanned_directly: Some(0),
            scanned_by_kswapd: Some(0),
            file_refaults: Some(0),
            ..short_of(50)
        };
        Phone { policy: built("lmkd", given), memory, time: 0 }
    }

    /// The victims after the kernel scanned and read `refaults` MiB of files again.
    fn dying(&mut self, refaults: u64, change: impl FnOnce(&mut Memory)) -> Vec<u32> {
        self.memory.scanned_by_kswapd = self.memory.scanned_by_kswapd.map(|pages| pages + 100);
        let read = refaults * MIB / PAGE_BYTES;
        self.memory.file_refaults = self.memory.file_refaults.map(|pages| pages + read);
        change(&mut self.memory);
        self.time += SECOND / 4;
        let candidates = with_adj([-900, 0, 200, 900]);
        let snapshot =
            Snapshot { time: Nanos(self.time), memory: self.memory, candidates: &candidates };
        let mut ranking = Ranking::with_room(8);
        match self.policy.decide(&snapshot, &mut ranking) {
            Decision::Kill { .. } => ranked(&snapshot, &ranking),
            Decision::Spare { .. } => Vec::new(),
        }
    }
}

#[test]
fn lmkd_spares_perceptible_applications_while_it_can() {
    let mut phone = Phone::new(&[]);
    assert!(phone.dying(0, |_| ()).is_empty(), "reclaim by kswapd is no reason by itself");
    let low = |memory: &mut Memory| memory.free = Bytes(25 * MIB);
    assert!(phone.dying(0, low).is_empty(), "neither are free pages below the high watermark");
    let swapped = |memory: &mut Memory| memory.swap_free = Bytes(40 * MIB);
    assert_eq!(phone.dying(0, swapped), [13], "free memory and swap are low");
    let empty = |memory: &mut Memory| memory.free = Bytes(9 * MIB);
    assert_eq!(phone.dying(0, empty), [13, 12, 11], "below min after a kill");
}

#[test]
fn lmkd_kills_for_thrashing_with_a_falling_limit() {
    let mut phone = Phone::new(&[("thrashing_limit", "50"), ("thrashing_limit_decay", "40")]);
    let low = |memory: &mut Memory| memory.free = Bytes(25 * MIB);
    assert!(phone.dying(0, low).is_empty());
    assert!(phone.dying(45, |_| ()).is_empty(), "45 of 100 MiB");
    assert_eq!(phone.dying(10, |_| ()), [13], "55 of 100 MiB");
    // A window ends after a second; each of the three kills lowered the limit, to 10 % at last.
    assert_eq!(phone.dying(0, |_| ()), [13]);
    assert_eq!(phone.dying(0, |_| ()), [13]);
    assert_eq!(phone.dying(20, |_| ()), [13]);
    assert_eq!(phone.dying(181, |_| ()), [13, 12, 11], "critical");
}

#[test]
fn lmkd_does_not_kill_only_for_stalls() {
    let mut phone = Phone::new(&[]);
    let stalled = |memory: &mut Memory| memory.stall = Stall::Complete;
    assert!(phone.dying(0, stalled).is_empty());
    let low = |memory: &mut Memory| memory.free = Bytes(25 * MIB);
    assert_eq!(phone.dying(0, low), [13, 12, 11]);
}

#[test]
fn options_are_checked_by_name_and_value() {
    for (name, given, expected) in [
        ("minfree", ("minfree", "1:2"), "minfree has no option minfree; it has minfree_levels"),
        ("minfree", ("minfree_levels", "1024"), "such as 1024:0,4096:800"),
        ("minfree", ("minfree_levels", "1024:-1000"), "adj from -999 to 1000"),
        ("largest", ("memory_percent", "0"), "memory_percent is \"0\", expected from 1 to 99"),
        ("lmkd", ("kill_heaviest_task", "yes"), "expected true or false"),
        ("restart-cost", ("high_percent", "2"), "expected from 6 to 99"),
    ] {
        let error = find(name).unwrap().build(&[given]).err().unwrap();
        assert!(error.contains(expected), "{error}");
    }
    assert!(find("oom").is_err());
}

#[test]
fn every_policy_and_option_is_documented() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/killd.md");
    let text = std::fs::read_to_string(path).unwrap();
    for row in CATALOG {
        let section = text.split(&format!("\n### {}\n", row.name)).nth(1);
        let section = section.and_then(|rest| rest.split("\n##").next());
        let section = section.unwrap_or_else(|| panic!("docs/killd.md lacks ### {}", row.name));
        for option in row.options {
            assert!(section.contains(option.name), "{}: {} undocumented", row.name, option.name);
            // The option accepts its default.
            assert!(row.build(&[(option.name, option.default)]).is_ok());
        }
    }
}
