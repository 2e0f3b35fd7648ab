//! The single pass over the filtered trace, against memories that see every reference.

use super::policies::Policies;
use super::read_ahead::{ReadAhead, ReadAheadCounts, ReadAheads};
use super::{Curves, TlbGeometry, page_sizes};
use proptest::prelude::*;
use testkit::references::{Memory, ReadingAhead, Reference, TwoTlbs, filtered, program};
use types::{FILTER_BLOCKS, PageId, ReferenceStep};

const FRAMES: [usize; 6] = [FILTER_BLOCKS, FILTER_BLOCKS + 1, 96, 200, 1000, usize::MAX];

fn curves(steps: &[ReferenceStep], page_bytes_max: u64, batch: usize) -> Curves {
    let mut curves = Curves::new(page_bytes_max, &[]).unwrap();
    for batch in steps.chunks(batch) {
        curves.push(batch).unwrap();
    }
    curves
}

fn memory(references: &[Reference], page_bytes: u64, frames: usize) -> Memory {
    let mut memory = Memory::new(page_bytes, frames);
    references.iter().for_each(|&reference| memory.refer(reference));
    memory
}

fn check(references: &[Reference], batch: usize) {
    let largest = page_sizes().last().unwrap();
    let curves = curves(&filtered(references), largest, batch);
    for page_bytes in page_sizes() {
        let curve = curves.curve(page_bytes).unwrap();
        for frames in FRAMES {
            let memory = memory(references, page_bytes, frames);
            let which = format!("{page_bytes} bytes, {frames} frames");
            assert_eq!(curve.misses(frames as u64), memory.misses, "{which}");
            assert_eq!(curve.write_backs(frames as u64), memory.write_backs, "{which}");
        }
        assert_eq!(curve.misses(u64::MAX), curve.cold(), "{page_bytes} bytes");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn one_pass_equals_a_memory_of_each_size(seed in any::<u64>(), batch in 1..3000_usize) {
        check(&program(seed, 6000), batch);
    }
}

#[test]
fn second_tlbs_see_what_the_first_one_misses() {
    let geometries = [(96, 4), (128, 128), (1536, 12), (7, 1)];
    let references = program(5, 8000);
    let second_tlbs = geometries.map(|(entries, ways)| TlbGeometry::new(entries, ways).unwrap());
    let mut curves = Curves::new(2 << 20, &second_tlbs).unwrap();
    curves.push(&filtered(&references)).unwrap();
    for page_bytes in page_sizes() {
        let counted = curves.second_tlb_misses(page_bytes).unwrap();
        for ((entries, ways), counted) in geometries.into_iter().zip(counted) {
            let mut tlbs = TwoTlbs::new(page_bytes, FILTER_BLOCKS, entries as usize, ways as usize);
            references.iter().for_each(|&reference| tlbs.refer(reference));
            assert_eq!(counted, tlbs.misses, "{page_bytes} bytes, {entries}x{ways}");
        }
    }
    for (entries, ways) in [(0, 1), (4, 0), (10, 4)] {
        assert!(TlbGeometry::new(entries, ways).is_err());
    }
}

#[test]
fn memories_that_read_ahead_equal_lists() {
    for seed in 0..6 {
        let references = program(seed, 4000);
        let steps = filtered(&references);
        for (page_bytes, frames, window) in
            [(512, 64, 8), (512, 300, 2), (4096, 64, 128), (4096, 100, 4), (65536, 70, 16)]
        {
            let question = ReadAhead { page_bytes, frames, window };
            let mut read_ahead = ReadAheads::new(&[question]).unwrap();
            steps.chunks(333).for_each(|batch| read_ahead.push(batch));
            let mut expected = ReadingAhead::new(page_bytes, frames as usize, window.into());
            references.iter().for_each(|&reference| expected.refer(reference));
            let ReadingAhead { faults, cold, brought, unused, .. } = expected;
            let expected = ReadAheadCounts { faults, cold, brought, unused };
            let counted: Vec<_> = read_ahead.counts().collect();
            assert_eq!(counted, [(question, expected)], "seed {seed}");
        }
    }
}

#[test]
fn a_window_of_one_page_is_plain_lru() {
    let steps = filtered(&program(11, 6000));
    let question = ReadAhead { page_bytes: 4096, frames: 80, window: 1 };
    let mut read_ahead = ReadAheads::new(&[question]).unwrap();
    read_ahead.push(&steps);
    let (_, counts) = read_ahead.counts().next().unwrap();
    let curve = curves(&steps, 4096, 100).curve(4096).unwrap();
    assert_eq!(counts.faults, curve.misses(80).iter().sum::<u64>());
    assert_eq!((counts.cold, counts.brought), (curve.pages(), 0));
}

#[test]
fn invalid_questions_about_reading_ahead_are_refused() {
    let senseless = [(4096, 63, 4), (4096, 64, 6), (4096, 64, 0), (4096, 64, 2048), (5000, 64, 4)];
    for (page_bytes, frames, window) in senseless {
        assert!(ReadAheads::new(&[ReadAhead { page_bytes, frames, window }]).is_err());
    }
}

#[test]
fn policies_equal_their_models_on_filtered_steps() {
    let steps = filtered(&program(9, 8000));
    let names = ["clock", "two-list", "arc"].map(str::to_owned);
    let memories = [(512, vec![64, 300]), (8192, vec![70])];
    let mut policies = Policies::new(&names, &memories).unwrap();
    steps.chunks(500).for_each(|batch| policies.push(batch));
    for (page_bytes, frames) in memories {
        let page = |block: u64| PageId((block * 512 / page_bytes % (1 << 31)) as u32);
        let counted = policies.faults(page_bytes).unwrap();
        assert_eq!(counted.len(), names.len() * frames.len());
        for counted in counted {
            let frames = counted.frames as usize;
            let mut model = testkit::eviction::model(&counted.policy, frames, &[]).unwrap();
            let mut faults = 0;
            for step in &steps {
                if let Some(left) = step.left
                    && model.holds(page(left.block))
                {
                    model.request(page(left.block));
                }
                faults += u64::from(!model.request(page(step.block)));
            }
            assert_eq!(counted.faults, faults, "{counted:?}");
        }
    }
    for name in ["opt", "lru", "none"] {
        assert!(Policies::new(&[name.to_owned()], &[(4096, vec![64])]).is_err());
    }
}

#[test]
fn fewer_page_sizes_are_counted_the_same() {
    let steps = filtered(&program(3, 5000));
    let (all, few) = (curves(&steps, 2 << 20, 100), curves(&steps, 4096, 1000));
    for page_bytes in [512, 1024, 2048, 4096] {
        assert_eq!(all.curve(page_bytes).unwrap(), few.curve(page_bytes).unwrap());
    }
    assert!(few.curve(8192).is_err() && all.curve(3000).is_err() && Curves::new(256, &[]).is_err());
}

#[test]
fn packing_positions_keeps_distances() {
    // Repeated loops of 100 to 3000 blocks: every stack runs out of positions many times.
    let blocks = (0..60_000_u64).map(|index| index % (100 + index / 6000 * 300));
    let references: Vec<Reference> = blocks
        .map(|block| Reference { kind: types::ReferenceKind::Read, address: block * 512, bytes: 8 })
        .collect();
    let curves = curves(&filtered(&references), 4096, 4096);
    for (page_bytes, frames) in [(512, 64), (512, 700), (512, 1000), (2048, 100), (4096, 64)] {
        let expected = memory(&references, page_bytes, frames).misses;
        assert_eq!(curves.curve(page_bytes).unwrap().misses(frames as u64), expected);
    }
}

#[test]
fn steps_that_no_filter_makes_are_refused() {
    let steps = filtered(&program(1, 2000));
    let twice = [steps[0], steps[0]];
    let last = steps.iter().rposition(|step| step.left.is_some()).unwrap();
    for steps in [&twice[..], &steps[last..]] {
        let mut curves = Curves::new(512, &[]).unwrap();
        assert_eq!(curves.push(steps).unwrap_err().kind(), crate::ErrorKind::Trace);
    }
}
