use std::collections::HashMap;

use proptest::prelude::*;

use super::probe::{BLOCK_KEYS, checked, settle};
use super::{Full, KeyExtent, Renumber};

/// The naive numbering.
fn naive(keys: &[u64]) -> Vec<u32> {
    let mut numbers = HashMap::new();
    keys.iter()
        .map(|&key| {
            let next = numbers.len() as u32;
            *numbers.entry(key).or_insert(next)
        })
        .collect()
}

fn numbered(keys: &[u64], batch: usize) -> (Vec<u32>, Renumber) {
    let mut renumber = Renumber::unlimited();
    let mut out = Vec::new();
    for part in keys.chunks(batch) {
        renumber.number_batch(part, &mut out).expect("an unlimited numbering has room");
    }
    (out, renumber)
}

/// Ids as in recordings: few or many, near or far, of one field or two.
fn keys() -> impl Strategy<Value = Vec<u64>> {
    let id = prop_oneof![
        Just(0u64),
        Just(u64::MAX),
        0u64..50,
        (0u64..1 << 20).prop_map(|page| page * 4096),
        (0u64..16, 0u64..4096).prop_map(|(process, page)| process << 40 | page),
        any::<u64>(),
    ];
    prop::collection::vec(id, 0..12_000)
}

fn ids(extent: &KeyExtent) -> std::ops::Range<u64> {
    extent.first..extent.first + u64::from(extent.count)
}

/// Extents as of requests: near each other, overlapping, in several name spaces.
fn extents() -> impl Strategy<Value = Vec<KeyExtent>> {
    let extent = (0u64..3, prop_oneof![0u64..300, 0u64..1 << 18], 1u32..40)
        .prop_map(|(space, first, count)| KeyExtent { first: space << 44 | first, count });
    prop::collection::vec(extent, 0..1200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    #[ignore = "slow"]
    fn numbers_equal_the_naive_numbering(keys in keys(), batch in 1usize..6000) {
        let (numbers, renumber) = numbered(&keys, batch);
        prop_assert_eq!(&numbers, &naive(&keys));
        for (&key, &number) in keys.iter().zip(&numbers) {
            prop_assert_eq!(renumber.ids()[number as usize], key);
        }
    }

    #[test]
    fn numbers_of_extents_equal_the_naive_numbering(extents in extents(), batch in 1usize..400) {
        let keys: Vec<u64> = extents.iter().flat_map(ids).collect();
        let (mut renumber, mut numbers) = (Renumber::unlimited(), Vec::new());
        for (index, part) in extents.chunks(batch).enumerate() {
            if index % 3 == 2 {
                // Keys and extents share a table.
                let keys: Vec<u64> = part.iter().flat_map(ids).collect();
                renumber.number_batch(&keys, &mut numbers).expect("there is room");
            } else {
                renumber.number_extents(part.iter().copied(), &mut numbers).expect("there is room");
            }
        }
        prop_assert_eq!(&numbers, &naive(&keys));
        for (&key, &number) in keys.iter().zip(&numbers) {
            prop_assert_eq!(renumber.ids()[number as usize], key);
        }
    }

    #[test]
    #[ignore = "slow"]
    fn unchecked_and_checked_probes_agree(keys in keys(), probed in keys()) {
        let (_, renumber) = numbered(&keys, 1000);
        for block in probed.chunks(BLOCK_KEYS).chain(keys.chunks(BLOCK_KEYS)) {
            let (mut fast, mut fast_rest) = (vec![7], vec![1, 2, 3]);
            let (mut slow, mut slow_rest) = (vec![7], vec![]);
            settle(&renumber.table, block, &mut fast, &mut fast_rest);
            checked::settle(&renumber.table, block, &mut slow, &mut slow_rest);
            prop_assert_eq!(fast, slow);
            prop_assert_eq!(fast_rest, slow_rest);
        }
    }
}

#[test]
fn numbers_survive_many_doublings() {
    let mut state = 1u64;
    let keys: Vec<u64> = (0..300_000)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 40) % 150_000
        })
        .collect();
    let (numbers, renumber) = numbered(&keys, 4096);
    assert_eq!(numbers, naive(&keys));
    assert_eq!(renumber.len(), 1 + *numbers.iter().max().expect("there are keys") as usize);
}

#[test]
fn a_full_table_keeps_the_output_and_the_numbers() {
    let limit = 200_000;
    let mut renumber = Renumber::with_limit(limit);
    let mut out = vec![9];
    let mut next = 0u64;
    let refusal = loop {
        let before = out.len();
        let keys: Vec<u64> = (next..next + 1000).collect();
        match renumber.number_batch(&keys, &mut out) {
            Ok(()) => next += 1000,
            Err(refusal) => break (refusal, before),
        }
    };
    assert_eq!(refusal, (Full, out.len()));
    // 16,384 slots and 8,616 ids of 8 bytes are 200,000 bytes. The table may not double again, so it
    // is more than half full, with numbers below and above the half.
    assert_eq!(renumber.len(), 8616);
    out.clear();
    renumber.number_batch(&[5, 8190, 8191, 8615], &mut out).expect("known ids have their number");
    assert_eq!(out, [5, 8190, 8191, 8615]);
    assert_eq!(renumber.number_batch(&[8616], &mut out), Err(Full));
    let extent = KeyExtent { first: 8610, count: 9 };
    assert_eq!(renumber.number_extents([extent].into_iter(), &mut out), Err(Full));
    assert_eq!(out.len(), 4);
    let known = KeyExtent { first: 8188, count: 428 };
    renumber.number_extents([known].into_iter(), &mut out).expect("known ids have their number");
    assert!(out[4..].iter().copied().eq(8188..8616));
}

#[test]
fn a_crowded_table_gives_the_same_numbers() {
    let mut state = 7u64;
    let keys: Vec<u64> = (0..40_000)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % 9000 * 0x1_0001
        })
        .collect();
    let mut renumber = Renumber::with_limit((16_384 + 9000) * 8);
    let mut out = Vec::new();
    keys.chunks(777).for_each(|keys| {
        renumber.number_batch(keys, &mut out).expect("the limit is that of these ids");
    });
    assert!(renumber.len() > 8800);
    assert_eq!(out, naive(&keys));
}

#[test]
fn an_empty_batch_gives_no_numbers() {
    let (numbers, renumber) = numbered(&[], 10);
    assert!(numbers.is_empty());
    assert!(renumber.is_empty());
}

#[test]
fn a_limit_that_shrinks_refuses_new_ids_and_then_the_table() {
    let mut renumber = Renumber::with_limit(1 << 20);
    let mut numbers = Vec::new();
    let keys: Vec<u64> = (0..20_000).collect();
    renumber.number_batch(&keys, &mut numbers).expect("there is room");
    let bytes = renumber.bytes();
    assert_eq!(renumber.set_limit(bytes + 8), Ok(()));
    renumber.number_batch(&[7, 20_000, 7], &mut numbers).expect("there is room for one more");
    assert_eq!(renumber.number_batch(&[7, 20_001], &mut numbers), Err(Full));
    assert_eq!(renumber.set_limit(bytes), Err(Full));
    assert_eq!(numbers[20_000..], [7, 20_000, 7]);
}
