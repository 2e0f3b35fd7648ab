//! The memory against the naive model, step by step, and whole lives against general invariants.

use super::memory::{Content, Memory};
use super::phone::{Again, KillOrder, KillRule, KillerSpec, Phone};
use super::{LaunchKind, LifeOutcome, live};
use crate::devices::Device;
use crate::swap::SimulateRequest;
use proptest::prelude::*;
use testkit::lifecycle::NaiveMemory;
use types::{Event, NoProgress};

const PAGES: u32 = 160;

#[derive(Clone, Copy, Debug)]
enum Step {
    Touch { page: u32, is_write: bool },
    Reclaim,
    Release { page: u32 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..PAGES, any::<bool>()).prop_map(|(page, is_write)| Step::Touch { page, is_write }),
        1 => Just(Step::Reclaim),
        // A page of the first half, which is anonymous.
        1 => (0..PAGES / 2).prop_map(|page| Step::Release { page }),
    ]
}

/// Runs both memories through the same steps, and asserts that they agree after each.
fn walk(frames: usize, slots: usize, steps: &[Step]) {
    let mut memory = Memory::new(frames, slots, true);
    let mut naive = NaiveMemory::new(frames, slots);
    memory.map(1, PAGES / 2, Content::Anonymous);
    memory.map(2, PAGES / 2, Content::File);
    (0..PAGES).for_each(|page| {
        let is_file = page >= PAGES / 2;
        naive.map(if is_file { 2 } else { 1 }, is_file);
    });
    for &step in steps {
        match step {
            Step::Touch { page, is_write } if memory.is_resident(page) => {
                memory.touch(page, is_write);
                naive.touch(page, is_write);
            }
            Step::Touch { page, is_write } if memory.free() > 0 => {
                memory.bring(page, is_write);
                naive.touch(page, is_write);
            }
            Step::Touch { .. } | Step::Reclaim => {
                let done = memory.reclaim();
                assert_eq!((done.judged, done.evicted), naive.reclaim());
            }
            Step::Release { page } => assert_eq!(memory.release(page), naive.release(page)),
        }
        assert_eq!(memory.free(), naive.free(), "after {step:?}");
    }
    let events: Vec<Event> = memory.events.iter().collect();
    assert_eq!(events, naive.events);
    let owned = memory.owned(1);
    let resident = (0..PAGES / 2).filter(|&page| naive.is_resident(page)).count();
    assert_eq!((owned.resident as usize, memory.anonymous()), (resident, resident));
    assert_eq!(memory.swap().1, slots - owned.slots as usize);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn the_memory_agrees_with_the_naive_one(
        frames in 1..120_usize,
        slots in prop_oneof![Just(0), 1..40_usize, Just(1000)],
        steps in prop::collection::vec(step(), 1..1500),
    ) {
        walk(frames, slots, &steps);
    }

    #[test]
    fn every_life_adds_up(
        (memory_mib, swap_mib) in (24..64_u32, prop_oneof![Just(0), Just(8), Just(500)]),
        visits in prop::collection::vec(0..5_u32, 1..25),
        killer in killer(),
        (is_machine, tiers_hold_files, seed) in (any::<bool>(), any::<bool>(), any::<u64>()),
        (is_use_reading, again, file_percent) in
            (any::<bool>(), again(), prop::option::of(1..100_u32)),
    ) {
        let mut phone = Phone {
            memory_mib, swap_mib, visits, killer, is_machine, tiers_hold_files, seed,
            is_use_reading, ..small_phone()
        };
        for app in &mut phone.apps {
            app.file_percent = file_percent;
            app.cold_again = again.clone();
            app.warm_again = again.clone();
        }
        let first = live(&phone, &below(), &NoProgress).expect("a sound phone");
        check(&phone, &first);
        let again = live(&phone, &below(), &NoProgress).expect("a sound phone");
        prop_assert_eq!(first.visits, again.visits);
        prop_assert_eq!(first.kills, again.kills);
    }
}

fn again() -> impl Strategy<Value = Vec<Again>> {
    let repeat = (1..5_u32, 0..500_u32).prop_map(|(mib, percent)| Again { mib, percent });
    prop::collection::vec(repeat, 0..3)
}

fn killer() -> impl Strategy<Value = KillerSpec> {
    let policy = |name: &str| KillRule::Policy { name: name.to_owned(), options: [].into() };
    let mut rules: Vec<KillRule> =
        policy::kill::CATALOG.iter().map(|row| policy(row.name)).collect();
    rules.extend([KillRule::None, KillRule::Threshold { share: 0.4 }]);
    let orders =
        [KillOrder::Serial, KillOrder::Batch, KillOrder::ReclaimFirst, KillOrder::Impatient];
    (prop::sample::select(rules), prop::sample::select(orders.to_vec()))
        .prop_map(|(rule, order)| KillerSpec { rule, order, poll_ms: 10.0 })
}

/// Five apps of 6 to 14 MiB with a library and services.
pub(super) fn small_phone() -> Phone {
    let apps: Vec<String> = (0..5)
        .map(|app| {
            let mib = 4 + 2 * app;
            format!(
                r#"{{"name": "app{app}", "anonymous_mib": {mib}, "file_mib": 2, "threads": 13,
                    "libraries": ["all"], "cold_ms": 200, "warm_ms": 20}}"#
            )
        })
        .collect();
    let text = format!(
        r#"{{"memory_mib": 40, "visits": [0, 1, 2, 3, 4, 0, 1, 2, 3, 4], "services_mib": 2,
            "libraries": [{{"name": "all", "mib": 4, "linked_percent": 50}}],
            "killer": {{"rule": {{"by": "none"}}}}, "apps": [{}]}}"#,
        apps.join(",")
    );
    serde_json::from_str(&text).expect("a phone")
}

fn with_again(again: Again) -> Phone {
    let mut phone = small_phone();
    phone.apps[1].warm_again = vec![again];
    phone
}

pub(super) fn below() -> SimulateRequest {
    let (fast, slow) = (Device::exact("fast", 10_000, 20_000), Device::exact("slow", 90_000, 1));
    SimulateRequest::new("flash", 0, fast, slow)
}

/// Checks the invariants of any life.
fn check(phone: &Phone, outcome: &LifeOutcome) {
    assert_eq!(outcome.visits.len(), phone.visits.len());
    let (mut runs, mut kills) = (vec![false; phone.apps.len()], outcome.kills.iter().peekable());
    for (number, (visit, &app)) in (0..).zip(outcome.visits.iter().zip(&phone.visits)) {
        assert_eq!(visit.app, app);
        if let Some(launch_ns) = visit.launch_ns {
            assert_eq!(launch_ns, visit.parts.total_ns(), "visit {number}: {visit:?}");
        }
        assert_eq!(visit.kind == LaunchKind::Cold, !runs[app as usize], "visit {number}");
        runs[app as usize] = true;
        let mut killed = 0;
        while let Some(kill) = kills.next_if(|kill| kill.visit == number) {
            assert!(runs[kill.app as usize], "a dead app does not die: {kill:?}");
            if !matches!(phone.killer.order, KillOrder::Batch | KillOrder::Impatient) {
                assert_eq!(kill.others_dying, 0, "one at a time: {kill:?}");
            }
            runs[kill.app as usize] = false;
            killed += 1;
        }
        assert_eq!(visit.kills + visit.oom_kills, killed, "visit {number}");
        let frames = u64::from(phone.memory_mib) * 256;
        assert!(visit.free_pages + visit.anonymous_pages <= frames);
        assert!(visit.file_refaults <= visit.file_reads);
        if phone.swap_mib == 0 {
            assert_eq!((visit.swap_ins, visit.slow_writes), (0, 0));
        }
    }
    assert!(kills.next().is_none());
}

#[test]
fn with_ample_memory_launches_take_only_their_own_time_and_first_reads() {
    let phone = Phone { memory_mib: 400, swap_mib: 100, ..small_phone() };
    let outcome = live(&phone, &below(), &NoProgress).expect("a sound phone");
    assert!(outcome.kills.is_empty());
    for (index, visit) in outcome.visits.iter().enumerate() {
        let own_ns = if index < 5 { 200_000_000 } else { 20_000_000 };
        assert_eq!(visit.launch_ns, Some(own_ns + visit.parts.file_first_ns));
        assert_eq!((visit.swap_ins, visit.file_refaults), (0, 0));
        let expected = if index < 5 { LaunchKind::Cold } else { LaunchKind::Hot };
        assert_eq!(visit.kind, expected);
    }
    // Every file page is read once, at 90 us.
    let reads: u64 = outcome.visits.iter().map(|visit| visit.file_reads).sum();
    let time: u64 = outcome.visits.iter().map(|visit| visit.parts.file_first_ns).sum();
    assert_eq!(time, reads * 90_000);
    assert!(reads <= (5 * 2 + 4) * 256);
}

#[test]
fn repeated_touches_read_files_again_only_where_memory_is_short() {
    let mut phone = Phone { visits: vec![0], is_use_reading: false, ..small_phone() };
    let again = vec![Again { mib: 3, percent: 300 }];
    phone.apps[0].cold_again = again.clone();
    phone.libraries[0].linked_percent = 100;
    let reads = |phone: &Phone| {
        let visits = live(phone, &below(), &NoProgress).expect("a sound phone").visits;
        (visits[0].file_reads, visits[0].file_refaults)
    };
    // 6 MiB of files beside 4 MiB of the app and 2 MiB of services.
    let files = 6 * 256;
    assert_eq!(reads(&phone), (files, 0));
    phone.memory_mib = 16;
    phone.apps[0].anonymous_mib = 13;
    let (all, refaults) = reads(&phone);
    assert_eq!(all - refaults, files);
    assert!(refaults > 100, "{refaults} refaults, though each page is touched again three times");
    phone.apps[0].cold_again = Vec::new();
    assert_eq!(reads(&phone), (files, 0), "each page once");
}

#[test]
fn an_empty_fast_tier_is_flash_and_a_large_one_spares_the_slow_device() {
    let phone = Phone { swap_mib: 500, tiers_hold_files: true, ..small_phone() };
    let flash = live(&phone, &below(), &NoProgress).expect("flash").visits;
    let with = |bytes: u64| {
        let request =
            SimulateRequest { architecture: "nvm-cache".to_owned(), fast_bytes: bytes, ..below() };
        live(&phone, &request, &NoProgress).expect("nvm-cache").visits
    };
    assert_eq!(with(0), flash);
    let accesses = |visits: &[super::Visit]| -> u64 {
        visits.iter().map(|visit| visit.slow_reads + visit.slow_writes).sum()
    };
    assert!(accesses(&with(64 << 20)) < accesses(&flash));
}

#[test]
fn a_bound_and_parameters_out_of_range_are_refused() {
    let request = SimulateRequest { architecture: "clairvoyant".to_owned(), ..below() };
    let error = live(&small_phone(), &request, &NoProgress).map(|_| ()).expect_err("a bound");
    assert!(error.to_string().contains("must know the future"), "{error}");
    for (phone, named) in [
        (Phone { memory_mib: 1, ..small_phone() }, "memory_mib = 1"),
        (Phone { core_percent: 0, ..small_phone() }, "core_percent = 0"),
        (Phone { visits: vec![5], ..small_phone() }, "a visit of app 5"),
        (Phone { use_ms: f64::NAN, ..small_phone() }, "NaN ms"),
        (Phone { libraries: vec![], ..small_phone() }, "the library all"),
        (
            with_again(Again { mib: 1, percent: 20_000 }),
            "percent of again, summed over a launch, = 20000",
        ),
        (with_again(Again { mib: 0, percent: 20 }), "mib of again = 0"),
    ] {
        let error = live(&phone, &below(), &NoProgress).map(|_| ()).expect_err(named);
        assert!(error.to_string().contains(named), "{error}");
    }
}
