use std::collections::BTreeMap;

use proptest::prelude::*;

use super::anatomy::{Anatomy, Scope};
use super::*;

const MEMORY: u64 = 0xffff_8880_0000_1000;
const OTHER: u64 = 0xffff_8880_0000_2000;
const SENDER: u32 = 7;
const VICTIM: u32 = 100;

fn at(time_ns: u64, thread: u32, what: What) -> Event {
    Event { time_ns, thread, what }
}

fn signal(time_ns: u64, sender: u32, target: u32, code: i32) -> Event {
    let mut name = [0; 16];
    name[..7].copy_from_slice(b") Z (\n\"");
    at(time_ns, sender, What::SignalGenerated { target, name, code })
}

fn looks(time_ns: u64, thread: u32, memory: u64) -> Event {
    at(time_ns, thread, What::LockTaken { memory, is_write: false })
}

fn changes(time_ns: u64, thread: u32, memory: u64) -> Event {
    at(time_ns, thread, What::LockWanted { memory, is_write: true })
}

fn gone(time_ns: u64, thread: u32, memory: u64) -> Event {
    at(time_ns, thread, What::MemoryGone { memory: Some(memory) })
}

/// A kill of three threads, the last of which frees the memory.
fn a_kill() -> Vec<Event> {
    vec![
        at(1_000, SENDER, What::KillCall),
        at(2_000, SENDER, What::Wakes { thread: VICTIM }),
        signal(11_000, SENDER, VICTIM, 0),
        at(12_000, SENDER, What::KillCallEnds),
        at(20_000, 101, What::SignalDelivered),
        at(21_000, VICTIM, What::SignalDelivered),
        at(22_000, 102, What::SignalDelivered),
        looks(25_000, VICTIM, MEMORY),
        looks(26_000, 101, MEMORY),
        looks(30_000, 102, MEMORY),
        looks(111_000, 102, MEMORY),
        at(112_000, 102, What::Resident { member: 1, bytes: 8192 }),
        at(150_000, 102, What::Resident { member: 1, bytes: 0 }),
        changes(211_000, 102, MEMORY),
        changes(212_000, 102, MEMORY),
        gone(311_000, 102, MEMORY),
    ]
}

fn taken_apart(mut anatomy: Anatomy, events: &[Event]) -> Vec<Kill> {
    events.iter().for_each(|event| anatomy.take(event));
    anatomy.finish().0
}

fn anatomy() -> Anatomy {
    anatomy_of(Scope::All, true)
}

fn anatomy_of(scope: Scope, tells_calls: bool) -> Anatomy {
    let mut anatomy = Anatomy::new(scope, tells_calls, BTreeMap::new());
    for thread in [VICTIM, 101, 102] {
        anatomy.senders.know(thread, VICTIM, None);
    }
    anatomy.senders.know(SENDER, 6, Some("killer"));
    anatomy
}

#[test]
fn phases_add_up() {
    let kills = taken_apart(anatomy(), &a_kill());
    let [kill] = kills.as_slice() else { panic!("{kills:?}") };
    assert_eq!((kill.pid, kill.comm.as_str(), kill.threads), (VICTIM, ") Z (\n\"", Some(3)));
    assert_eq!((kill.signal_us, kill.threads_us), (Some(10.0), Some(100.0)));
    assert_eq!((kill.reclaim_us, kill.total_us), (Some(200.0), Some(310.0)));
    assert_eq!((kill.unmap_us, kill.pagetables_us), (Some(100.0), Some(100.0)));
    assert_eq!((kill.reaper_us, kill.trigger), (None, KillTrigger::User));
    assert_eq!(kill.killer, Some(Killer { pid: 6, comm: Some("killer".to_owned()) }));
    assert_eq!((kill.rss_bytes, kill.start_ns), (Some(8192), 1_000));
    assert_eq!(kill.rss_curve, [(111.0, 8192), (149.0, 0)]);
    let names: Vec<&str> = kill.steps.iter().map(|step| step.name.as_str()).collect();
    let handles = "handles the signal";
    assert_eq!(
        names,
        ["signal delivery", "wakes 100", handles, handles, handles, "unmaps", "frees page tables"]
    );
}

#[test]
fn fields_that_a_kernel_does_not_report_are_absent() {
    let without = |is_absent: fn(&What) -> bool| {
        let events: Vec<Event> =
            a_kill().into_iter().filter(|event| !is_absent(&event.what)).collect();
        taken_apart(anatomy(), &events).remove(0)
    };
    let kill = without(|what| matches!(what, What::KillCall | What::KillCallEnds));
    assert_eq!((kill.signal_us, kill.threads_us, kill.total_us), (None, Some(100.0), Some(300.0)));
    let kill = without(|what| matches!(what, What::MemoryGone { .. }));
    assert_eq!((kill.signal_us, kill.reclaim_us, kill.total_us), (Some(10.0), None, None));
    let kill = without(|what| matches!(what, What::LockWanted { .. }));
    assert_eq!((kill.reclaim_us, kill.unmap_us, kill.pagetables_us), (Some(200.0), None, None));
    let kill = without(|what| matches!(what, What::Resident { .. }));
    assert_eq!((kill.rss_bytes, kill.rss_curve.len()), (None, 0));
    let kill = without(|what| matches!(what, What::LockTaken { .. } | What::LockWanted { .. }));
    assert_eq!((kill.threads_us, kill.reclaim_us, kill.total_us), (None, None, None));
}

#[test]
fn functions_of_the_killer_and_of_the_victim_are_steps() {
    let names = [(100, "complete_signal"), (200, "exit_mmap")];
    let names = names.map(|(address, name)| (address, name.to_owned())).into();
    let mut events = a_kill();
    let runs = |time_ns, thread, address| at(time_ns, thread, What::Function { address });
    // Addresses within a function, of another thread, and below every function.
    events.extend([runs(5_000, SENDER, 104), runs(110_000, 102, 200)]);
    events.extend([runs(6_000, 9, 104), runs(7_000, SENDER, 99)]);
    events.sort_by_key(|event| event.time_ns);
    let kills = taken_apart(Anatomy::new(Scope::All, true, names), &events);
    let steps = kills[0].steps.iter().filter(|step| step.name.contains('_'));
    let brief: Vec<_> =
        steps.map(|step| (step.name.as_str(), step.thread, step.start_us)).collect();
    assert_eq!(brief, [("complete_signal", SENDER, 4.0), ("exit_mmap", 102, 109.0)]);
}

#[test]
fn a_thread_of_an_unknown_process_is_identified_by_its_memory() {
    let events = a_kill();
    let kills = taken_apart(Anatomy::new(Scope::All, true, BTreeMap::new()), &events);
    assert_eq!((kills[0].threads, kills[0].total_us), (Some(3), Some(310.0)));
    assert_eq!(kills[0].killer, Some(Killer { pid: SENDER, comm: None }));
}

#[test]
fn a_kill_is_found_although_the_first_thread_has_ended() {
    let events: Vec<Event> = a_kill().into_iter().filter(|event| event.thread != VICTIM).collect();
    let kills = taken_apart(anatomy(), &events);
    assert_eq!((kills[0].threads, kills[0].reclaim_us), (Some(2), Some(200.0)));
}

#[test]
fn a_thread_of_another_process_may_free_the_memory() {
    let stranger = 50;
    let mut events = a_kill();
    for event in &mut events {
        if event.time_ns >= 111_000 {
            event.thread = stranger;
        }
    }
    let kills = taken_apart(anatomy(), &events);
    assert_eq!((kills[0].threads, kills[0].reclaim_us), (Some(3), Some(200.0)));
}

#[test]
fn memory_that_a_victim_locks_while_it_reclaims_is_not_its_own() {
    let mut events = a_kill();
    let reclaim = |time_ns, begins| {
        let is_group = false;
        let what =
            if begins { What::ReclaimBegins { is_group } } else { What::ReclaimEnds { is_group } };
        at(time_ns, 101, what)
    };
    events.extend([reclaim(22_500, true), looks(23_000, 101, OTHER), reclaim(23_500, false)]);
    events.sort_by_key(|event| event.time_ns);
    let kills = taken_apart(anatomy(), &events);
    assert_eq!((kills[0].threads, kills[0].total_us), (Some(3), Some(310.0)));
}

#[test]
fn events_of_other_memory_and_other_threads_do_not_count() {
    let mut events = a_kill();
    events.extend([looks(40_000, 9, OTHER), changes(41_000, 9, OTHER), gone(50_000, 9, OTHER)]);
    // A second signal to a dying process.
    events.push(signal(60_000, SENDER, VICTIM, 0));
    events.sort_by_key(|event| event.time_ns);
    assert_eq!(taken_apart(anatomy(), &events), taken_apart(anatomy(), &a_kill()));
}

#[test]
fn only_kills_within_the_scope_count() {
    let scoped = |scope| taken_apart(anatomy_of(scope, true), &a_kill()).len();
    assert_eq!(scoped(Scope::Process(VICTIM)), 1);
    assert_eq!(scoped(Scope::Process(101)), 0);
    assert_eq!(scoped(Scope::Members([VICTIM].into())), 1);
    assert_eq!(scoped(Scope::Members([6].into())), 0);
    let mut events = a_kill();
    events.insert(0, at(1, 6, What::NewTask { thread: VICTIM, is_thread: false }));
    let mut parent = anatomy_of(Scope::Members([6].into()), true);
    parent.senders.know(6, 6, None);
    assert_eq!(taken_apart(parent, &events).len(), 1, "a child of a member");
}

#[test]
fn triggers_follow_from_the_events_of_the_kernel() {
    let trigger = |events: &[Event]| taken_apart(anatomy(), events)[0].trigger;
    let sent = |code| signal(5, SENDER, VICTIM, code);
    let begins = |is_group| at(1, SENDER, What::ReclaimBegins { is_group });
    let ends = |is_group| at(2, SENDER, What::ReclaimEnds { is_group });
    let chosen = at(6, SENDER, What::Chosen { target: VICTIM, rss_bytes: Some(1 << 20) });
    assert_eq!(trigger(&[at(4, SENDER, What::KillCall), sent(0)]), KillTrigger::User);
    assert_eq!(trigger(&[sent(0)]), KillTrigger::Kernel);
    assert_eq!(trigger(&[begins(false), sent(0)]), KillTrigger::DirectReclaim);
    assert_eq!(trigger(&[at(1, SENDER, What::KswapdWakes), sent(0)]), KillTrigger::Kswapd);
    assert_eq!(trigger(&[begins(true), ends(true), sent(128), chosen]), KillTrigger::MemcgOom);
    assert_eq!(trigger(&[begins(false), ends(false), sent(128), chosen]), KillTrigger::GlobalOom);
    assert_eq!(trigger(&[sent(128), chosen]), KillTrigger::Oom);
    let kill = &taken_apart(anatomy(), &[sent(128), chosen])[0];
    assert_eq!(kill.rss_bytes, Some(1 << 20));
    let unaware = anatomy_of(Scope::All, false);
    assert_eq!(taken_apart(unaware, &[sent(0)])[0].trigger, KillTrigger::User);
}

#[test]
fn a_reaper_is_timed_apart_from_the_phases() {
    let mut events = a_kill();
    events.extend([
        at(13_000, SENDER, What::ReleaseCall),
        looks(14_500, SENDER, MEMORY),
        looks(27_000, SENDER, MEMORY),
        at(63_000, SENDER, What::ReleaseCallEnds),
    ]);
    events.sort_by_key(|event| event.time_ns);
    let kills = taken_apart(anatomy(), &events);
    assert_eq!((kills[0].reaper_us, kills[0].total_us), (Some(50.0), Some(310.0)));
    let target = 101;
    let mut events = a_kill();
    events.insert(9, at(30_000, 33, What::ReaperBegins { target }));
    events.insert(10, at(30_500, 33, What::ReaperEnds { target }));
    assert_eq!(taken_apart(anatomy(), &events)[0].reaper_us, Some(0.5));
}

fn recording(events: &[Event]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new()).unwrap();
    let about = About { backend: "btf".to_owned(), ..About::default() };
    let task = |thread| Task { thread, process: VICTIM, name: None, is_member: false };
    for block in [
        KillsBlock::About(Box::new(about)),
        KillsBlock::Tasks([VICTIM, 101, 102].map(task).to_vec()),
        KillsBlock::Events(events.to_vec()),
        KillsBlock::Until(u64::MAX),
        KillsBlock::Ending(Ending { time_ns: 9, lost: 3 }),
    ] {
        writer.write(&block).unwrap();
    }
    writer.finish().unwrap()
}

#[test]
fn a_saved_recording_gives_the_same_kills() {
    let outcome = read_bytes("test.pgk", &recording(&a_kill())).unwrap();
    let mut expected = taken_apart(anatomy(), &a_kill());
    expected[0].killer = Some(Killer { pid: SENDER, comm: None });
    assert_eq!((outcome.kills, outcome.lost), (expected, 3));
}

#[test]
fn other_files_are_refused() {
    for bytes in [&b"pgwrec\x00\x03"[..], b"{", b"pgwkil\x00\x01", b"pgwkil\x00\x02"] {
        assert!(read_bytes("test.pgk", bytes).is_err());
    }
    let mut huge = b"pgwkil\x00\x01".to_vec();
    for word in [1u32, 64 << 20, u32::MAX] {
        huge.extend(word.to_le_bytes());
    }
    assert!(read_bytes("test.pgk", &huge).unwrap_err().to_string().contains("at most"));
}

#[test]
#[ignore = "slow"]
fn every_flipped_bit_is_detected() {
    let sound = recording(&a_kill());
    let expected = read_bytes("test.pgk", &sound).unwrap();
    for bit in 0..8 * sound.len() {
        let mut spoilt = sound.clone();
        spoilt[bit / 8] ^= 1 << (bit % 8);
        if let Ok(outcome) = read_bytes("test.pgk", &spoilt) {
            assert!(outcome.is_cut || outcome == expected, "bit {} of byte {}", bit % 8, bit / 8);
        }
    }
}

#[test]
fn the_trace_for_viewers_has_every_step_and_the_memory() {
    let kills = taken_apart(anatomy(), &a_kill());
    let trace = chrome(&kills);
    let events = trace["traceEvents"].as_array().unwrap();
    let count = |phase: &str| events.iter().filter(|event| event["ph"] == phase).count();
    assert_eq!((count("M"), count("X"), count("i"), count("C")), (1, 6, 1, 2));
    let unmaps = events.iter().find(|event| event["name"] == "unmaps").unwrap();
    assert_eq!((unmaps["ts"].as_f64(), unmaps["dur"].as_f64()), (Some(110.0), Some(100.0)));
    assert_eq!(events[0]["args"]["name"], "kill of ) Z (\n\" (100)");
}

#[test]
#[ignore = "slow"]
fn kills_that_never_end_take_bounded_memory() {
    let mut anatomy = anatomy();
    a_kill().iter().take(9).for_each(|event| anatomy.take(event));
    for thread in 1_000..1_200_000 {
        anatomy.take(&looks(30_000, thread, MEMORY));
    }
    anatomy.take(&gone(311_000, VICTIM, MEMORY));
    let (kills, dropped) = anatomy.finish();
    assert_eq!(kills.len(), 1);
    // Of 1,199,000 threads 2^20 are kept, and a few more until the next count.
    assert!((149_000..150_425).contains(&dropped), "{dropped}");

    let mut writer = Writer::new(Vec::new()).unwrap();
    writer.write(&KillsBlock::About(Box::default())).unwrap();
    writer.write(&KillsBlock::Page(vec![0; 1 << 17])).unwrap();
    let error = read_bytes("test.pgk", &writer.finish().unwrap()).unwrap_err();
    assert!(error.to_string().contains("a page of at most 65536 bytes"), "{error}");
}

proptest! {
    #[test]
    fn damage_is_refused_or_leaves_whole_blocks(at in 0usize..900, value in any::<u8>()) {
        let mut bytes = recording(&a_kill());
        let at = at % bytes.len();
        bytes[at] = value;
        if let Ok(outcome) = read_bytes("test.pgk", &bytes) {
            prop_assert!(outcome.kills.len() <= 1);
        }
        bytes.truncate(at);
        let _ = read_bytes("test.pgk", &bytes);
    }

    #[test]
    fn no_order_of_events_causes_a_panic(
        mut events in prop::collection::vec((0..a_kill().len(), any::<u16>(), 0u32..4), 0..60)
    ) {
        events.sort_by_key(|&(_, time, _)| time);
        let all = a_kill();
        let shuffled: Vec<Event> = events
            .iter()
            .map(|&(place, time, thread)| at(u64::from(time), 99 + thread, all[place].what))
            .collect();
        for kill in taken_apart(anatomy(), &shuffled) {
            let phases = [kill.signal_us, kill.threads_us, kill.reclaim_us];
            if let ([_, Some(threads), Some(reclaim)], Some(total)) = (phases, kill.total_us) {
                prop_assert!((kill.signal_us.unwrap_or(0.0) + threads + reclaim - total).abs() < 1e-6);
            }
            prop_assert!(kill.total_us.is_none_or(|total| total >= 0.0));
        }
    }
}
