//! Stack distances against a list searched from end to end.

use proptest::prelude::*;
use sim::stack::Stack;
use types::PageId;

/// Histogram of distances, and the number of first accesses.
fn naive(pages: &[PageId]) -> (Vec<u64>, u64) {
    let mut recency: Vec<PageId> = Vec::new();
    let mut by_distance = vec![0; 5000];
    let mut first = 0;
    for &page in pages {
        match recency.iter().rev().position(|&other| other == page) {
            Some(distance) => {
                by_distance[distance] += 1;
                recency.remove(recency.len() - 1 - distance);
            }
            None => first += 1,
        }
        recency.push(page);
    }
    (by_distance, first)
}

fn check(pages: &[PageId], bound: usize) {
    let mut stack = Stack::default();
    // Without pages there are no batches, and the histogram stays empty.
    stack.push(&[], bound);
    for batch in pages.chunks(1000) {
        stack.push(batch, bound);
    }
    let (by_distance, first) = naive(pages);
    assert_eq!(stack.accesses(), pages.len() as u64);
    assert_eq!(stack.pages(), first);
    assert_eq!(stack.by_distance(), &by_distance[..bound]);
    for frames in [0, 1, 2, 10, 100, 1000] {
        let hits: u64 = by_distance.iter().take(frames as usize).sum();
        assert_eq!(stack.misses(frames), pages.len() as u64 - hits, "{frames} frames");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn distances_equal_the_naive_list(
        pages in prop::collection::vec(prop_oneof![0..5_u32, 0..50_u32, 0..3000_u32], 0..4000),
    ) {
        let pages: Vec<PageId> = pages.into_iter().map(PageId).collect();
        check(&pages, 3000);
    }
}

#[test]
fn distances_survive_packing() {
    // With few pages positions run out often, with many the counters span several groups.
    let (few, _) = testkit::generate::renumber(&testkit::generate::synth1()[..60_000]);
    let few: Vec<PageId> = few.iter().map(|page| PageId(page.0 % 700)).collect();
    check(&few, 700);
    let many: Vec<PageId> = (0..400_000).map(|index| PageId(index % 100_000)).collect();
    let mut stack = Stack::default();
    stack.push(&many, 100_000);
    assert_eq!((stack.misses(99_999), stack.misses(100_000)), (400_000, 100_000));
}
