//! Every policy of the catalog against its naive model and against libCacheSim's counts.

use policy::eviction::{Build, CATALOG, Choice, Future, Residency};
use proptest::prelude::*;
use std::sync::Arc;
use testkit::{eviction, generate};
use types::PageId;

/// Policies with options other than the defaults.
const WITH_OPTIONS: [&str; 9] = [
    "lru-k:k=1",
    "lru-k:k=3",
    "lru-k:k=4",
    "random:seed=1",
    "random:seed=18446744073709551615",
    "tinylfu:window=0,sample=1",
    "tinylfu:window=20",
    "tinylfu:window=50,sample=3",
    "tinylfu:window=100",
];

/// Every policy of the catalog, by default and with options.
fn policies() -> impl Iterator<Item = &'static str> {
    CATALOG.iter().map(|row| row.name).chain(WITH_OPTIONS)
}

#[test]
fn every_option_is_tried() {
    for row in CATALOG {
        for option in row.options {
            let sets = |policy: &&str| {
                let (name, options) = policy.split_once(':').unwrap();
                name == row.name && options.split(',').any(|set| set.starts_with(option.name))
            };
            assert!(
                WITH_OPTIONS.iter().any(sets),
                "{}: add {} to WITH_OPTIONS",
                row.name,
                option.name
            );
        }
    }
}

/// Returns the misses of the next batch of requests.
type Counter = Box<dyn FnMut(&[PageId]) -> u64>;

/// A counter of the misses of consecutive batches of `requests`.
fn counter(policy: &str, frames: u32, requests: &[PageId], pages: usize) -> Counter {
    match Choice::parse(policy).expect("tests name what there is").build {
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

/// The first request on which the policy and its model differ.
fn departure(policy: &str, frames: u32, requests: &[PageId], pages: usize) -> Option<usize> {
    let mut misses = counter(policy, frames, requests, pages);
    let mut model = eviction::model(policy, frames as usize, requests)
        .unwrap_or_else(|| panic!("{policy} has no naive model in testkit"));
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
        let misses = counter(fields[0], frames, &requests, pages as usize);
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
        for policy in policies() {
            let departure = departure(policy, frames, &requests, 400);
            prop_assert_eq!(departure, None, "{} with {} frames departs", policy, frames);
        }
    }
}

#[test]
fn policies_equal_their_models_in_tiny_memories() {
    let (requests, _) = generate::renumber(&generate::synth1()[..3000]);
    let requests: Vec<PageId> = requests.iter().map(|page| PageId(page.0 % 40)).collect();
    for policy in policies() {
        for frames in 1..=24 {
            let departure = departure(policy, frames, &requests, 40);
            assert_eq!(departure, None, "{policy} with {frames} frames departs");
        }
    }
}

/// With few more pages than frames, all pages are used between two evictions.
#[test]
fn policies_equal_their_models_where_few_pages_compete() {
    let mut random = generate::SplitMix(7);
    for (frames, pages) in (2..14).flat_map(|frames| (3..30).map(move |pages| (frames, pages))) {
        let mut skewed = || PageId((random.below(pages) * random.below(pages) / pages) as u32);
        let requests: Vec<PageId> = (0..1500).map(|_| skewed()).collect();
        for policy in policies() {
            let departure = departure(policy, frames, &requests, 30);
            assert_eq!(departure, None, "{policy}, {frames} frames, {pages} pages");
        }
    }
}

/// Misses on a generated trace.
fn misses(policy: &str, frames: u32) -> u64 {
    let (requests, pages) = generate::renumber(&generate::synth1()[..20_000]);
    counter(policy, frames, &requests, pages as usize)(&requests)
}

#[test]
fn lru_k_with_k_of_one_equals_lru() {
    assert_eq!(misses("lru-k:k=1", 500), misses("lru", 500));
    assert_ne!(misses("lru-k", 500), misses("lru", 500));
}

#[test]
fn another_seed_draws_other_pages() {
    assert_eq!(misses("random", 500), misses("random:seed=0", 500));
    assert_ne!(misses("random", 500), misses("random:seed=1", 500));
}
