//! Miss counts of `misses::run` against the naive models, on every kind of trace.

mod memory_source;

use memory_source::MemorySource;
use proptest::prelude::*;
use sim::misses;
use testkit::eviction::model;
use types::{EventKind, NoProgress, PageId};

fn requests() -> impl Strategy<Value = Vec<PageId>> {
    let page = prop_oneof![0..8_u32, 0..64_u32, 0..400_u32];
    prop::collection::vec(page.prop_map(PageId), 0..2000)
}

fn naive_misses(policy: &str, frames: u32, requests: &[PageId]) -> u64 {
    if frames == 0 {
        return requests.len() as u64;
    }
    let mut model = model(policy, frames as usize, requests).expect("every policy has a model");
    requests.iter().map(|&page| u64::from(!model.request(page))).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    #[test]
    fn counts_equal_the_models(requests in requests(), frames in 1..250_u32) {
        let names: Vec<&str> = policy::eviction::CATALOG.iter().map(|row| row.name).collect();
        let sizes = [frames, 0, frames / 2 + 1];
        let mut source = MemorySource::accesses(&requests, 333);
        let counts = misses::run(&mut source, &names, &sizes, &NoProgress).unwrap();
        prop_assert_eq!(counts.requests, requests.len() as u64);
        let distinct: std::collections::HashSet<_> = requests.iter().collect();
        prop_assert_eq!(counts.pages, distinct.len() as u64);
        for name in names {
            for size in sizes {
                let naive = naive_misses(name, size, &requests);
                prop_assert_eq!(counts.of(name, size), Some(naive), "{} {}", name, size);
            }
        }
    }

    #[test]
    fn lru_at_many_sizes_equals_the_model(requests in requests()) {
        let sizes: Vec<u32> = (0..40).map(|size| size * size / 4).collect();
        let mut source = MemorySource::accesses(&requests, 100);
        let counts = misses::run(&mut source, &["lru"], &sizes, &NoProgress).unwrap();
        for &size in &sizes {
            let naive = naive_misses("lru", size, &requests);
            prop_assert_eq!(counts.of("lru", size), Some(naive), "{}", size);
        }
    }
}

#[test]
fn a_swap_trace_counts_only_swap_outs_and_swap_ins() {
    let events = [
        (EventKind::SwapOut, 0),
        (EventKind::DeviceWrite, 0),
        (EventKind::SwapIn, 0),
        (EventKind::DeviceRead, 7),
        (EventKind::SwapOut, 1),
        (EventKind::Exit, 3),
    ];
    let mut source = MemorySource::events(&events);
    let counts = misses::run(&mut source, &["lru", "opt"], &[1], &NoProgress).unwrap();
    assert_eq!((counts.requests, counts.pages), (3, 2));
    assert_eq!((counts.of("lru", 1), counts.of("opt", 1)), (Some(2), Some(2)));
}

#[test]
fn json_has_policies_and_frames_as_keys() {
    let mut source = MemorySource::accesses(&[PageId(0), PageId(0)], 10);
    let counts = misses::run(&mut source, &["fifo"], &[2, 1, 2], &NoProgress).unwrap();
    let json = serde_json::to_string(&counts).unwrap();
    let expected = concat!(
        r#"{"schema":"pagewise.misses/1","requests":2,"pages":1,"#,
        r#""misses":{"fifo":{"2":1,"1":1}}}"#
    );
    assert_eq!(json, expected);
}

#[test]
fn unknown_policies_and_empty_demands_are_usage_errors() {
    let mut source = MemorySource::accesses(&[], 10);
    let error = misses::run(&mut source, &["lifo"], &[1], &NoProgress).unwrap_err();
    assert_eq!(error.kind(), sim::ErrorKind::Usage);
    assert!(error.to_string().contains("s3-fifo"), "{error}");
    let error = misses::run(&mut source, &["lru"], &[], &NoProgress).unwrap_err();
    assert_eq!(error.kind(), sim::ErrorKind::Usage);
}
