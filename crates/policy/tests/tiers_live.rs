//! Live tiers against data: a machine with frames and a disk performs their moves, some of which fail, and
//! every read returns what was written last.

use policy::placement::Latencies;
use policy::tiers::{Area, CATALOG, Live, LiveRequest, Move, Moves, Request, Step, Values, serve};
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap, HashSet};
use testkit::counting::{Counting, allocations};
use testkit::generate::SplitMix;
use types::PageId;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const SLOTS: u64 = 300;
const FRAMES: u64 = 60;
const EVENTS: u64 = 60_000;

const LATENCIES: Latencies =
    Latencies { slow_read: 90e3, slow_write: 40e3, fast_read: 4e3, fast_write: 5e3 };

fn served(architecture: &str, options: &[(&str, &str)], capacity: u64) -> Box<dyn Live> {
    asked(architecture, options, capacity, Area::Swap).expect("these options can be served")
}

fn asked(
    architecture: &str,
    options: &[(&str, &str)],
    capacity: u64,
    area: Area,
) -> Result<Box<dyn Live>, String> {
    let options: BTreeMap<String, String> =
        options.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    let request = LiveRequest {
        architecture,
        profile: None,
        options: &options,
        capacity,
        latencies: LATENCIES,
        area,
    };
    serve(&request).map(|served| served.tiers)
}

/// Every architecture with its defaults, and with each other value of each option that can be served.
fn every_form(check: impl Fn(&str, Box<dyn Live>)) {
    for row in CATALOG {
        check(row.name, served(row.name, &[], FRAMES));
        for option in row.options {
            let number = matches!(option.values, Values::WordOrNumber(..)).then_some("3");
            for value in option.values.words().into_iter().chain(number) {
                let is_refused = matches!(
                    (option.name, value),
                    ("victims_in_memory", "drop") | ("slot_on_swapin", "free") | ("on_hit", "move")
                );
                if !is_refused {
                    let name = format!("{} {}={value}", row.name, option.name);
                    check(&name, served(row.name, &[(option.name, value)], FRAMES));
                }
            }
        }
    }
}

/// Tiers, and the data that their moves leave in frames and on the disk.
struct Machine {
    tiers: Box<dyn Live>,
    frames: HashMap<u32, u64>,
    disk: HashMap<u32, u64>,
    random: SplitMix,
    /// One move in `failures` fails; 0: none.
    failures: u64,
    most_frames: usize,
}

impl Machine {
    fn new(tiers: Box<dyn Live>, failures: u64) -> Machine {
        let (frames, disk) = (HashMap::new(), HashMap::new());
        Machine { tiers, frames, disk, random: SplitMix(7), failures, most_frames: 0 }
    }

    /// Performs the moves of a request. Returns the data of a read, or of a write that reached a tier;
    /// none if it failed.
    fn perform(&mut self, request: Request, slot: u32, written: u64) -> Option<u64> {
        let mut moves = Moves::default();
        self.tiers.on(request, PageId(slot), &mut moves);
        let mut queue: Vec<Move> = moves.to_vec();
        let mut data = None;
        let mut is_failed = false;
        while !queue.is_empty() {
            let moved = queue.remove(0);
            let page = moved.page.0;
            let is_void = match moved.step {
                Step::ReadFast | Step::Demote { .. } | Step::Free => {
                    !self.frames.contains_key(&page)
                }
                // What could not be read is not promoted.
                Step::Promote => data.is_none(),
                _ => false,
            };
            let can_fail = !matches!(moved.step, Step::Free | Step::Demote { writes: false });
            if is_void {
                self.tiers.done(moved);
                continue;
            }
            if can_fail && self.failures > 0 && self.random.below(self.failures) == 0 {
                is_failed |= moved.step == Step::ReadSlow || moved.step == Step::WriteSlow;
                if matches!(moved.step, Step::ReadFast | Step::WriteFast) {
                    // The frame is retired.
                    self.frames.remove(&page);
                }
                self.tiers.failed(moved, &mut moves);
                for (place, moved) in moves.iter().enumerate() {
                    queue.insert(place, *moved);
                }
                is_failed |= moved.step == Step::ReadFast && moves.is_empty();
                continue;
            }
            match moved.step {
                Step::ReadFast => data = Some(self.frames[&page]),
                Step::ReadSlow => data = Some(self.disk.get(&page).copied().unwrap_or(0)),
                Step::WriteFast => {
                    data = self.frames.insert(page, written).or(Some(written));
                    // Nothing may read the old copy from now on.
                    self.disk.remove(&page);
                }
                Step::WriteSlow => data = self.disk.insert(page, written).or(Some(written)),
                Step::Promote => {
                    self.frames.insert(page, data.expect("a promoted page was read"));
                }
                Step::Demote { writes } => {
                    let content = self.frames.remove(&page).expect("a victim has a frame");
                    if writes {
                        self.disk.insert(page, content);
                    }
                }
                Step::Free => {
                    self.frames.remove(&page);
                }
            }
            self.most_frames = self.most_frames.max(self.frames.len());
            self.tiers.done(moved);
        }
        assert_eq!(self.tiers.in_flight(), 0);
        if is_failed { None } else { data }
    }
}

/// Writes, reads and discards, the low slots most often; checks every read. `succeed` may replace the tiers.
fn replay(
    name: &str,
    tiers: Box<dyn Live>,
    failures: u64,
    succeed: impl Fn(u64, &mut Machine),
) -> Machine {
    let mut machine = Machine::new(tiers, failures);
    machine.tiers.grow(SLOTS as usize);
    let mut random = SplitMix(11);
    // The value of each slot; none if a failure left it unknown.
    let mut expected: HashMap<u32, Option<u64>> = HashMap::new();
    for event in 1..=EVENTS {
        succeed(event, &mut machine);
        let slot = random.below(SLOTS).min(random.below(SLOTS)) as u32;
        match random.below(20) {
            0 => {
                machine.perform(Request::Void, slot, 0);
                machine.disk.remove(&slot);
                expected.remove(&slot);
            }
            1..11 => {
                let out = Request::Out { is_dirty: true };
                let reached = machine.perform(out, slot, event);
                expected.insert(slot, reached.map(|_| event));
            }
            _ => {
                let Some(&known) = expected.get(&slot) else { continue };
                let read = machine.perform(Request::In, slot, 0);
                if let (Some(known), Some(read)) = (known, read) {
                    assert_eq!(read, known, "{name}: slot {slot} at event {event}");
                } else if read.is_none() {
                    expected.insert(slot, None);
                }
            }
        }
    }
    machine
}

#[test]
#[ignore = "slow"]
fn every_read_returns_what_was_written_last() {
    every_form(|name, tiers| {
        let machine = replay(name, tiers, 0, |_, _| ());
        assert!(machine.most_frames <= FRAMES as usize, "{name}: {} frames", machine.most_frames);
        assert_eq!(machine.frames.len() as u64, machine.tiers.frames_used(), "{name}");
    });
}

#[test]
#[ignore = "slow"]
fn no_failed_move_lets_a_read_return_other_data() {
    every_form(|name, tiers| {
        let machine = replay(name, tiers, 400, |_, _| ());
        assert_eq!(machine.frames.len() as u64, machine.tiers.frames_used(), "{name}");
    });
}

#[test]
#[ignore = "slow"]
fn no_change_of_the_capacity_lets_a_read_return_other_data() {
    for failures in [0, 400] {
        every_form(|name, tiers| {
            let change = |event: u64, machine: &mut Machine| {
                if event.is_multiple_of(50) {
                    let frames = 1 + machine.random.below(FRAMES);
                    machine.tiers.set_capacity(frames);
                }
            };
            let machine = replay(name, tiers, failures, change);
            assert_eq!(machine.frames.len() as u64, machine.tiers.frames_used(), "{name}");
        });
    }
}

/// Against a set of the slots that have a frame.
#[test]
fn each_admission_beyond_the_capacity_frees_two_frames_and_one_at_the_capacity_frees_one() {
    every_form(|name, mut tiers| {
        tiers.grow(SLOTS as usize);
        let (mut random, mut moves) = (SplitMix(13), Moves::default());
        let (mut holders, mut capacity) = (HashSet::new(), FRAMES as usize);
        let mut times_beyond = 0;
        for event in 0..EVENTS / 4 {
            if event.is_multiple_of(100) {
                let frames = 1 + random.below(FRAMES + 20);
                tiers.set_capacity(frames);
                capacity = frames.min(FRAMES) as usize;
                assert_eq!(tiers.capacity(), capacity as u64, "{name}");
            }
            let slot = PageId(random.below(SLOTS) as u32);
            let request = match random.below(30) {
                0 => Request::Void,
                1..16 => Request::Out { is_dirty: true },
                _ => Request::In,
            };
            let used = holders.len();
            tiers.on(request, slot, &mut moves);
            let (mut demotions, mut is_admitted) = (0, false);
            for &Move { step, page } in moves.iter() {
                match step {
                    Step::WriteFast => is_admitted |= holders.insert(page),
                    Step::Promote => {
                        is_admitted = true;
                        assert!(holders.insert(page), "{name}: {page:?} has a frame already");
                    }
                    Step::Demote { .. } | Step::Free => {
                        demotions += usize::from(step != Step::Free);
                        assert!(holders.remove(&page), "{name}: {page:?} has no frame");
                    }
                    Step::ReadFast => assert!(holders.contains(&page), "{name}"),
                    Step::ReadSlow | Step::WriteSlow => {}
                }
            }
            let due = match used.cmp(&capacity) {
                _ if !is_admitted => 0,
                Ordering::Less => 0,
                Ordering::Equal => 1,
                Ordering::Greater => 2,
            };
            times_beyond += usize::from(due == 2);
            assert_eq!(demotions, due, "{name}: {used} of {capacity} frames at event {event}");
            assert_eq!(holders.len() as u64, tiers.frames_used(), "{name}");
        }
        // Others may admit no page to a tier that is full.
        let always_admits = name.starts_with("hierarchical");
        assert!(times_beyond > 0 || !always_admits, "{name}: never beyond the capacity");
    });
}

/// Once every page in the fast tier has its bit, the hand spares each page that it passes, so the victims say how many
/// pages it visited: with a whole lap, the first victim would be the oldest page.
#[test]
fn the_hand_of_a_clock_visits_at_most_64_slots() {
    const FRAMES: u32 = 200;
    for (architecture, options) in [
        ("hierarchical", vec![("eviction", "clock")]),
        ("hybrid-clock", vec![]),
        ("hybrid", vec![]),
    ] {
        let mut tiers = served(architecture, &options, FRAMES.into());
        tiers.grow(2 * FRAMES as usize);
        let (out, mut moves) = (Request::Out { is_dirty: true }, Moves::default());
        let mut admitted = Vec::new();
        let mut victims = Vec::new();
        // `hybrid` admits a page that was read before.
        for (slots, requests) in [
            (0..FRAMES, vec![out, Request::In, Request::In, Request::In]),
            (FRAMES..2 * FRAMES, vec![out, Request::In, Request::In]),
        ] {
            for request in requests {
                for slot in slots.clone() {
                    tiers.on(request, PageId(slot), &mut moves);
                    for moved in moves.iter() {
                        match moved.step {
                            Step::WriteFast | Step::Promote => admitted.push(moved.page.0),
                            Step::Demote { .. } => victims.push(moved.page.0),
                            _ => {}
                        }
                    }
                }
            }
        }
        // The tier was filled in the order of the slots.
        assert!(admitted.iter().take(FRAMES as usize).copied().eq(0..FRAMES), "{architecture}");
        let passed = [victims[0], victims[1] - victims[0] - 1, victims[2] - victims[1] - 1];
        assert_eq!(passed, [30; 3], "{architecture}: {:?}", &victims[..3]);
    }
}

#[test]
fn tiers_of_a_successor_return_what_was_written_before() {
    for row in CATALOG {
        let succeed = |event: u64, machine: &mut Machine| {
            if event.is_multiple_of(5_000) {
                machine.tiers = served(row.name, &[], FRAMES);
                machine.tiers.grow(SLOTS as usize);
                for slot in 0..SLOTS as u32 {
                    let [has_frame, is_slow] =
                        [&machine.frames, &machine.disk].map(|copies| copies.contains_key(&slot));
                    if has_frame || is_slow {
                        machine.tiers.restore(PageId(slot), has_frame, is_slow);
                    }
                }
            }
        };
        let tiers = served(row.name, &[], FRAMES);
        let machine = replay(row.name, tiers, 0, succeed);
        assert!(machine.most_frames <= FRAMES as usize, "{}", row.name);
        assert_eq!(machine.frames.len() as u64, machine.tiers.frames_used(), "{}", row.name);
    }
}

#[test]
fn live_tiers_allocate_nothing_after_grow() {
    every_form(|name, mut tiers| {
        tiers.grow(SLOTS as usize);
        let (mut random, mut moves) = (SplitMix(5), Moves::default());
        let before = allocations();
        for event in 0..EVENTS {
            if event.is_multiple_of(100) {
                tiers.set_capacity(1 + random.below(FRAMES));
            }
            let slot = PageId(random.below(SLOTS) as u32);
            let request = match random.below(30) {
                0 => Request::Void,
                1..16 => Request::Out { is_dirty: true },
                _ => Request::In,
            };
            tiers.on(request, slot, &mut moves);
        }
        assert_eq!(allocations() - before, 0, "{name}");
    });
}

#[test]
fn what_a_block_device_cannot_do_is_refused_by_name() {
    let refused = |architecture: &str, options: &[(&str, &str)]| {
        asked(architecture, options, FRAMES, Area::Swap).err().expect("refused")
    };
    for (architecture, option, value) in [
        ("adaptive", "victims_in_memory", "drop"),
        ("hybrid", "slot_on_swapin", "free"),
        ("flash", "slot_on_swapin", "free"),
        ("nvm-cache", "on_hit", "move"),
    ] {
        let error = refused(architecture, &[(option, value)]);
        assert!(error.contains(&format!("{option}={value}")), "{error}");
    }
    assert!(refused("clairvoyant", &[]).contains("future"));
    assert!(refused("lru", &[]).contains("hybrid-clock"));
    assert!(refused("hybrid", &[("entry", "1")]).contains("entry_bit"));
}

/// What zram can do: every architecture and option that is not refused.
fn every_form_of_zram(mut check: impl FnMut(&str, Box<dyn Live>)) {
    let free = ("slot_on_swapin", "free");
    for (architecture, options) in [
        ("flash", vec![free]),
        ("priority", vec![free]),
        ("hierarchical", vec![("fill_on_read_miss", "no")]),
        ("hierarchical", vec![("fill_on_read_miss", "no"), ("eviction", "clock")]),
        ("hybrid-clock", vec![free, ("clock_reinsert", "swapout")]),
    ] {
        let tiers = asked(architecture, &options, FRAMES, Area::Zram);
        check(&format!("{architecture} {options:?}"), tiers.expect("zram can do this"));
    }
}

#[test]
fn what_zram_cannot_do_is_refused_by_name() {
    for (architecture, options, reason) in [
        ("flash", vec![], "slot_on_swapin=keep"),
        ("priority", vec![], "slot_on_swapin=keep"),
        ("hierarchical", vec![], "fill_on_read_miss=yes"),
        ("hybrid-clock", vec![("slot_on_swapin", "free")], "clock_reinsert=fault"),
        ("hybrid", vec![("slot_on_swapin", "free")], "zram cannot do hybrid"),
        ("nvm-cache", vec![], "zram cannot do nvm-cache"),
        ("adaptive", vec![], "zram cannot do adaptive"),
    ] {
        let asked = asked(architecture, &options, FRAMES, Area::Zram);
        let error = asked.err().expect("refused");
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn pages_whose_reads_free_their_slot_only_land_in_the_fast_tier_and_leave_it() {
    every_form_of_zram(|name, mut tiers| {
        tiers.grow(SLOTS as usize);
        let (mut random, mut moves) = (SplitMix(11), Moves::default());
        let mut is_out = [false; SLOTS as usize];
        for _ in 0..EVENTS {
            let slot = random.below(SLOTS) as u32;
            let is_read = is_out[slot as usize];
            is_out[slot as usize] = !is_read;
            let requests: &[Request] = match is_read {
                true => &[Request::In, Request::Void],
                false => &[Request::Out { is_dirty: true }],
            };
            for &request in requests {
                tiers.on(request, PageId(slot), &mut moves);
                for &moved in moves.iter() {
                    let is_done_by_zram =
                        !matches!(moved.step, Step::Promote | Step::Demote { writes: false });
                    assert!(is_done_by_zram, "{name}: {moved:?} after {request:?}");
                    tiers.done(moved);
                }
            }
            assert!(tiers.frames_used() <= FRAMES, "{name}");
        }
        let out = is_out.iter().filter(|&&is_out| is_out).count() as u64;
        assert!(tiers.frames_used() <= out && tiers.in_flight() == 0, "{name}");
    });
}

/// Every architecture that a served device can have, by its options.
fn every_form_of_a_device(mut check: impl FnMut(&str, Box<dyn Live>)) {
    for (architecture, options) in [
        ("flash", vec![]),
        ("hierarchical", vec![]),
        ("hierarchical", vec![("eviction", "clock")]),
        ("hybrid-clock", vec![]),
        ("hybrid", vec![]),
        ("nvm-cache", vec![("admit_at", "fault")]),
        ("nvm-cache", vec![("admit_at", "fault"), ("ghost", "2")]),
        ("adaptive", vec![]),
    ] {
        let tiers = asked(architecture, &options, FRAMES, Area::Device);
        check(&format!("{architecture} {options:?}"), tiers.expect("a device can do this"));
    }
}

#[test]
fn what_a_served_device_cannot_do_is_refused_by_name() {
    for (architecture, options, reason) in [
        ("priority", vec![], "a served device cannot do priority"),
        ("nvm-cache", vec![], "admit_at=swapout"),
        ("nvm-cache", vec![("admit_at", "fault"), ("on_hit", "move")], "on_hit=move"),
        ("hierarchical", vec![("fill_on_read_miss", "no")], "fill_on_read_miss=no"),
        ("hybrid", vec![("promote_at", "swapout")], "promote_at=swapout"),
        ("hybrid", vec![("flash_copy_on_promotion", "free")], "flash_copy_on_promotion=free"),
        ("hybrid-clock", vec![("clock_reinsert", "swapout")], "clock_reinsert=swapout"),
    ] {
        let asked = asked(architecture, &options, FRAMES, Area::Device);
        let error = asked.err().expect("refused");
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn the_slow_tier_of_a_served_device_has_every_write_and_frames_only_copies() {
    for failures in [0, 400] {
        every_form_of_a_device(|name, tiers| {
            let mut machine = Machine::new(tiers, failures);
            machine.tiers.grow(SLOTS as usize);
            for slot in 0..SLOTS as u32 {
                machine.disk.insert(slot, u64::from(slot) + EVENTS);
                machine.tiers.restore(PageId(slot), false, true);
            }
            let (mut random, mut hits) = (SplitMix(11), 0);
            for event in 1..=EVENTS {
                let slot = random.below(SLOTS).min(random.below(SLOTS)) as u32;
                if random.below(10) == 0 {
                    let reached =
                        machine.perform(Request::Out { is_dirty: true }, slot, event).is_some();
                    assert!(!machine.frames.contains_key(&slot), "{name}: event {event}");
                    assert!(!reached || machine.disk[&slot] == event, "{name}: event {event}");
                    continue;
                }
                hits += u64::from(machine.frames.contains_key(&slot));
                if let Some(read) = machine.perform(Request::In, slot, 0) {
                    assert_eq!(read, machine.disk[&slot], "{name}: slot {slot}, event {event}");
                }
            }
            let are_copies = machine.frames.iter().all(|(slot, held)| machine.disk[slot] == *held);
            assert!(are_copies && machine.disk.len() as u64 == SLOTS, "{name}");
            assert_eq!(machine.frames.len() as u64, machine.tiers.frames_used(), "{name}");
            assert!(hits > EVENTS / 50 || name.starts_with("flash"), "{name}: {hits} hits");
        });
    }
}

#[test]
fn a_served_device_admits_at_the_second_read() {
    let options = [("admit_at", "fault"), ("ghost", "1")];
    let mut tiers = asked("nvm-cache", &options, 2, Area::Device).unwrap();
    tiers.grow(10);
    let mut steps = |request, slot| {
        let mut moves = Moves::default();
        tiers.on(request, PageId(slot), &mut moves);
        moves.iter().map(|moved| moved.step).collect::<Vec<_>>()
    };
    let (read, write) = (Request::In, Request::Out { is_dirty: true });
    assert_eq!(steps(read, 3), [Step::ReadSlow]);
    assert_eq!(steps(read, 3), [Step::ReadSlow, Step::Promote]);
    assert_eq!(steps(read, 3), [Step::ReadFast]);
    assert_eq!(steps(write, 3), [Step::Free, Step::WriteSlow]);
    assert_eq!(steps(read, 3), [Step::ReadSlow]);
    // Two others make the memory of single reads forget it.
    assert_eq!((steps(read, 4), steps(read, 5)), (vec![Step::ReadSlow], vec![Step::ReadSlow]));
    assert_eq!(steps(read, 3), [Step::ReadSlow]);
    assert_eq!(steps(read, 5), [Step::ReadSlow, Step::Promote]);
}
