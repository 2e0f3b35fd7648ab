use super::*;
use crate::EventList;
use crate::scenario::Scenario;
use std::collections::BTreeMap;

const PAGE: u64 = 4096;

fn uniform(bytes: f64) -> Sizes {
    let others = Distribution { same_filled_share: 0.0, pool_bytes: vec![(bytes, 1.0)] };
    Sizes { owners: BTreeMap::new(), others }
}

fn event(kind: EventKind, page: u32, process: u32) -> Event {
    let flags = EventFlags::DIRTY;
    Event { kind, flags, page: PageId(page), process: ProcessId(process) }
}

fn replayed(events: Vec<Event>, sizes: Sizes, device: ZramDevice) -> ZramCounts {
    let mut source = EventList::new(Scenario::default().header(), events);
    let request = ZramRequest { seed: 1, algorithms: vec![sizes], devices: vec![device] };
    simulate_zram(&mut source, &request, &types::NoProgress).unwrap()[0]
}

fn device(pages: u64, limit_bytes: u64) -> ZramDevice {
    ZramDevice { disksize_bytes: pages * PAGE, limit_bytes, algorithm: 0 }
}

#[test]
fn pages_go_to_zram_until_its_slots_are_taken() {
    use EventKind::{Exit, SwapIn, SwapOut};
    let events = vec![
        event(SwapOut, 0, 0),
        event(SwapOut, 1, 0),
        event(SwapOut, 2, 1), // both slots are taken
        event(SwapIn, 0, 0),
        event(SwapOut, 3, 1), // takes the slot of page 0
        event(SwapIn, 2, 1),
        event(Exit, 0, 0), // frees page 1
        event(SwapOut, 0, 0),
    ];
    let counts = replayed(events, uniform(1000.0), device(2, 0));
    let expected = ZramCounts {
        compressed: 4,
        decompressed: 1,
        slow_writes: 1,
        slow_reads: 1,
        stored_bytes_max: 2 * PAGE,
        pool_bytes_max: 2000,
        ..ZramCounts::default()
    };
    assert_eq!(counts, expected);
}

#[test]
fn a_pool_at_its_limit_refuses_pages_which_stay_in_memory() {
    use EventKind::{SwapIn, SwapOut};
    let events = vec![
        event(SwapOut, 0, 0),
        event(SwapOut, 1, 0),
        event(SwapOut, 2, 0), // 3000 bytes are too many
        event(SwapIn, 2, 0),  // it stayed in memory; the replay tries again, as it left once more
        event(SwapIn, 0, 0),
    ];
    let counts = replayed(events, uniform(1000.0), device(10, 2500));
    assert_eq!((counts.compressed, counts.decompressed, counts.refused), (2, 1, 2));
    assert_eq!((counts.slow_writes, counts.slow_reads), (0, 0));
}

#[test]
fn same_filled_pages_take_a_slot_and_no_memory() {
    let events = (0..1000).map(|page| event(EventKind::SwapOut, page, 0)).collect();
    let others = Distribution { same_filled_share: 0.3, pool_bytes: vec![(500.0, 1.0)] };
    let sizes = Sizes { owners: BTreeMap::new(), others };
    let counts = replayed(events, sizes, device(1000, 0));
    assert!((250..350).contains(&counts.same_filled), "{counts:?}");
    assert_eq!(counts.compressed + counts.same_filled, 1000);
    assert_eq!(counts.pool_bytes_max, 500 * counts.compressed);
}

#[test]
fn sizes_are_those_of_the_owner() {
    let header = Scenario::default().header();
    let name = header.processes.get(1).unwrap().name.to_owned();
    let small = Distribution { same_filled_share: 0.0, pool_bytes: vec![(100.0, 1.0)] };
    let sizes = Sizes { owners: [(name, small)].into(), ..uniform(3000.0) };
    let events = vec![event(EventKind::SwapOut, 0, 0), event(EventKind::SwapOut, 1, 1)];
    assert_eq!(replayed(events, sizes, device(10, 0)).pool_bytes_max, 3100);
}

#[test]
fn invalid_requests_are_refused_with_the_reason() {
    let refused = |sizes: Sizes, algorithm| {
        let mut source = EventList::new(Scenario::default().header(), Vec::new());
        let devices = vec![ZramDevice { disksize_bytes: 1, limit_bytes: 0, algorithm }];
        let request = ZramRequest { seed: 1, algorithms: vec![sizes], devices };
        simulate_zram(&mut source, &request, &types::NoProgress).unwrap_err().to_string()
    };
    assert!(refused(uniform(0.0), 0).contains("at most 4096"));
    assert!(refused(uniform(5000.0), 0).contains("5000"));
    assert!(refused(uniform(f64::NAN), 0).contains("NaN"));
    assert!(refused(uniform(1.0), 1).contains("algorithm 1 of 1"));
    let none = Distribution { same_filled_share: 0.5, pool_bytes: Vec::new() };
    assert!(refused(Sizes { owners: BTreeMap::new(), others: none }, 0).contains("no sizes"));
}

/// Replays with a map of pages and no other state, for events of one process.
fn naive(events: &[Event], sizes: &PageSizes<'_>, device: ZramDevice) -> ZramCounts {
    let mut counts = ZramCounts::default();
    let mut zram: BTreeMap<u32, f64> = BTreeMap::new();
    let mut slow = std::collections::BTreeSet::new();
    for event in events {
        let page = event.page.0;
        let is_out = event.kind == EventKind::SwapOut;
        if is_out {
            zram.remove(&page);
            slow.remove(&page);
        }
        if is_out || !(zram.contains_key(&page) || slow.contains(&page)) {
            let size = sizes.of(event.page, event.process);
            let pool: f64 = zram.values().sum();
            if (zram.len() as u64 + 1) * PAGE > device.disksize_bytes {
                counts.slow_writes += 1;
                slow.insert(page);
            } else if device.limit_bytes > 0 && pool + size > device.limit_bytes as f64 {
                counts.refused += 1;
            } else {
                zram.insert(page, size);
                counts.compressed += u64::from(size > 0.0);
                counts.same_filled += u64::from(size == 0.0);
            }
        }
        counts.stored_bytes_max = counts.stored_bytes_max.max(zram.len() as u64 * PAGE);
        counts.pool_bytes_max = counts.pool_bytes_max.max(zram.values().sum::<f64>().ceil() as u64);
        if !is_out {
            counts.decompressed += u64::from(zram.remove(&page).is_some_and(|size| size > 0.0));
            counts.slow_reads += u64::from(slow.remove(&page));
        }
    }
    counts
}

#[test]
fn the_replay_counts_as_a_naive_model_does() {
    for seed in 0..200 {
        let mut stream = types::random::Stream::named(seed, "events");
        let events: Vec<Event> = (0..400)
            .map(|_| {
                let is_out = stream.chance(55);
                let kind = if is_out { EventKind::SwapOut } else { EventKind::SwapIn };
                event(kind, stream.below(40), 0)
            })
            .collect();
        // Whole bytes, so that sums are exact in any order.
        let others = Distribution {
            same_filled_share: 0.1,
            pool_bytes: vec![(512.0, 0.5), (1638.0, 0.25), (4096.0, 0.25)],
        };
        let sizes = Sizes { owners: BTreeMap::new(), others };
        let limit_bytes = if stream.chance(50) { 0 } else { u64::from(stream.below(40_000)) };
        let device = device(u64::from(stream.below(40)), limit_bytes);
        let expected = naive(&events, &PageSizes::new(&sizes, 1, PAGE).unwrap(), device);
        assert_eq!(replayed(events, sizes, device), expected, "seed {seed}");
    }
}
