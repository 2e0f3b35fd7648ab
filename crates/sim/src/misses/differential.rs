//! The counters that replace a policy, against the policy: batch by batch on generated traces,
//! with many sizes, numbers of pages and lengths of the ring.

use super::arc_counter::ArcCounter;
use super::clock_counter::ClockCounter;
use super::lirs_counter::LirsCounter;
use super::{CountMisses, lru_counter::LruCounter};
use policy::eviction::{self, Residency};
use proptest::prelude::*;
use types::PageId;

type Build = fn(frames: u32) -> Box<dyn CountMisses>;

const COUNTERS: [(&str, Build); 7] = [
    ("lru", |frames| Box::new(LruCounter::new(frames))),
    ("clock", |frames| Box::new(ClockCounter::new(frames))),
    ("arc", |frames| Box::new(ArcCounter::new(frames))),
    ("lirs", |frames| Box::new(LirsCounter::new(frames))),
    // Ticks restart often.
    ("arc", |frames| Box::new(ArcCounter::new(frames).with_ticks_max(TICKS_MAX))),
    ("lirs", |frames| Box::new(LirsCounter::new(frames).with_ticks_max(TICKS_MAX))),
    // Small chunks give small memories a zone, and several of them.
    ("arc", |frames| Box::new(ArcCounter::new(frames).with_chunk(3).with_ticks_max(TICKS_MAX))),
];
const TICKS_MAX: u32 = 1 << 13;

/// Asserts that counter and policy agree after each batch; pages become known batch by batch.
fn check(requests: &[PageId], frames: u32, batch: usize) {
    for (name, counter) in COUNTERS {
        let mut counter = counter(frames);
        let eviction::Build::Online(build) = eviction::find(name).unwrap().build(&[]).unwrap()
        else {
            unreachable!("{name} needs no future");
        };
        let (mut policy, mut memory) = (build(frames), Residency::new(frames));
        let (mut bound, mut misses) = (0, 0);
        for (index, batch) in requests.chunks(batch).enumerate() {
            bound = batch.iter().fold(bound, |bound, page| bound.max(page.index() + 1));
            misses += policy.replay(batch, bound, &mut memory);
            counter.count(batch, bound);
            assert_eq!(counter.misses(), misses, "{name}, {frames} frames, batch {index}");
            assert_eq!(counter.pages(), memory.pages_seen(), "{name}, {frames} frames");
        }
    }
}

#[test]
fn every_counter_of_the_catalog_is_compared() {
    for row in eviction::CATALOG.iter().filter(|row| row.own_counter.is_some()) {
        assert!(COUNTERS.iter().any(|(name, _)| *name == row.name), "{}", row.name);
    }
}

/// Zipf requests on `pages` pages, half of them folded so that reuse varies.
fn zipf(length: usize, pages: u32) -> Vec<PageId> {
    let (requests, _) = testkit::generate::renumber(&testkit::generate::synth1()[..length]);
    requests.iter().map(|page| PageId(page.0 % pages / (1 + page.0 % 2))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn counters_equal_policies(
        pages in prop::collection::vec(prop_oneof![0..8_u32, 0..64_u32, 0..900_u32], 1..6000),
        frames in prop_oneof![1..12_u32, 1..700_u32],
        batch in 1..400_usize,
    ) {
        let requests: Vec<PageId> = pages.into_iter().map(PageId).collect();
        check(&requests, frames, batch);
    }
}

#[test]
fn counters_equal_policies_in_tiny_memories() {
    let requests = zipf(5000, 60);
    for frames in 1..=30 {
        check(&requests, frames, 1);
    }
}

#[test]
#[ignore = "slow"]
fn counters_equal_policies_with_several_cold_frames() {
    for pages in [300, 1500, 9000, 25_000] {
        let requests = zipf(60_000, pages);
        for frames in [199, 200, 250, 1000, 3000, 6000] {
            check(&requests, frames, 777);
        }
    }
}

#[test]
fn loops_scans_and_runs_of_hits_are_counted() {
    // Loops longer than the memory, scans between them, and runs of only hits.
    let mut requests = Vec::new();
    for round in 0..12_u32 {
        requests.extend((0..450).map(PageId));
        requests.extend((0..900 * (round % 3)).map(|page| PageId(1000 + page)));
        requests.extend((0..4000).map(|index| PageId(index * index % 37)));
    }
    for frames in [1, 2, 3, 40, 250, 400, 449, 450, 451, 2000] {
        check(&requests, frames, 512);
    }
}
