//! Every policy of the catalog against its naive model and against libCacheSim's counts.

use policy::eviction::{Build, CATALOG, Future, Residency, Row, find};
use proptest::prelude::*;
use std::sync::Arc;
use testkit::{eviction, generate};
use types::PageId;

/// Counts the misses of the next batch of requests.
type Counter = Box<dyn FnMut(&[PageId]) -> u64>;

/// What counts the misses of consecutive batches of `requests`.
fn counter(row: &Row, frames: u32, requests: &[PageId], pages: usize) -> Counter {
    match row.build {
        Build::Online(build) => {
            let (mut policy, mut memory) = (build(frames), Residency::new(frames));
            Box::new(move |batch| policy.replay(batch, pages, &mut memory))
        }
        Build::Offline(build) => {
            let future = Arc::new(Future::new(requests.to_vec(), pages));
            let mut policy = build(frames, future);
            Box::new(move |batch| policy.replay(batch.len()))
        }
    }
}

/// The first request that the policy and its model do not answer alike.
fn departure(row: &Row, frames: u32, requests: &[PageId], pages: usize) -> Option<usize> {
    let mut misses = counter(row, frames, requests, pages);
    let mut model = eviction::model(row.name, frames as usize, requests)
        .unwrap_or_else(|| panic!("{} has no naive model in testkit", row.name));
    requests.iter().position(|&page| {
        let is_missed = misses(&[page]) == 1;
        is_missed == model.request(page)
    })
}

#[test]
fn counts_equal_those_of_libcachesim() {
    let (requests, pages) = generate::renumber(&generate::synth1());
    assert_eq!((requests.len(), pages), (200_000, 25_901));
    let golden = include_str!("../../../tests/golden/synth1-misses.csv");
    let rows = golden.lines().filter(|line| !line.starts_with('#')).skip(1);
    let mut checked = 0;
    for line in rows {
        let fields: Vec<&str> = line.split(',').collect();
        let frames = fields[1].parse().unwrap();
        let row = find(fields[0]).expect("golden policies are in the catalog");
        let misses = counter(row, frames, &requests, pages as usize);
        let misses: u64 = requests.chunks(4096).map(misses).sum();
        assert_eq!(misses, fields[2].parse().unwrap(), "{line}");
        checked += 1;
    }
    assert_eq!(checked, 54);
}

/// Requests with locality: a hot set, a warm set and a scan, all over few pages.
fn requests() -> impl Strategy<Value = Vec<PageId>> {
    let page = prop_oneof![0..8_u32, 0..64_u32, 0..400_u32];
    prop::collection::vec(page.prop_map(PageId), 1..3000)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn policies_equal_their_models(requests in requests(), frames in 1..300_u32) {
        for row in CATALOG {
            let departure = departure(row, frames, &requests, 400);
            prop_assert_eq!(departure, None, "{} with {} frames departs", row.name, frames);
        }
    }
}

#[test]
fn policies_equal_their_models_in_tiny_memories() {
    let (requests, _) = generate::renumber(&generate::synth1()[..3000]);
    let requests: Vec<PageId> = requests.iter().map(|page| PageId(page.0 % 40)).collect();
    for row in CATALOG {
        for frames in 1..=24 {
            let departure = departure(row, frames, &requests, 40);
            assert_eq!(departure, None, "{} with {frames} frames departs", row.name);
        }
    }
}
