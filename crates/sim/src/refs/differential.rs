//! The single pass over the filtered trace, against memories that see every reference.

use super::policies::Policies;
use super::read_ahead::{ReadAhead, ReadAheadCounts, ReadAheads};
use super::{Curves, Questions, TlbGeometry, Tlbs, page_sizes, run};
use proptest::prelude::*;
use testkit::references::{
    Memory, ReadingAhead, Reference, TwoTlbs, filtered, filtered_by, program,
};
use trace::references::{Ending, Filter, Origin, Reader, Stop, Writer};
use types::{FILTER_BLOCKS, NoProgress, PageId, ReferenceStep};

const FRAMES: [usize; 6] = [FILTER_BLOCKS, FILTER_BLOCKS + 1, 96, 200, 1000, usize::MAX];

fn curves(steps: &[ReferenceStep], page_bytes_max: u64, batch: usize) -> Curves {
    let mut curves = Curves::new(page_bytes_max, &Tlbs::default()).unwrap();
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

fn geometry((entries, ways): (u32, u32)) -> TlbGeometry {
    TlbGeometry::new(entries, ways).unwrap()
}

#[test]
fn tlbs_equal_sets_of_lists_behind_a_filter_of_no_more_blocks_than_ways() {
    let firsts = [(64, 4), (64, 64), (48, 12), (32, 4), (96, 96), (5, 5), (64, 1)];
    let seconds = [(96, 4), (128, 128), (1536, 12), (7, 1)];
    for (seed, blocks) in [(5, 4), (6, 12), (7, FILTER_BLOCKS)] {
        let references = program(seed, 8000);
        let steps = filtered_by(blocks, &references);
        // Each TLB is the first of `first` once, so that the second TLBs are behind it.
        for first in firsts {
            let tlbs =
                Tlbs { first: vec![geometry(first)], second: seconds.map(geometry).to_vec() };
            let mut curves = Curves::new(2 << 20, &tlbs).unwrap();
            curves.push(&steps).unwrap();
            for page_bytes in page_sizes() {
                let counted = curves.first_tlb_misses(page_bytes).unwrap()[0];
                let which = format!("{blocks} blocks, {page_bytes} bytes, {first:?}");
                assert!(counted.is_exact || (first.1 as usize) < blocks, "{which}");
                let behind = curves.second_tlb_misses(page_bytes).unwrap();
                for (second, behind) in seconds.into_iter().zip(behind) {
                    let mut tlbs = TwoTlbs::new(page_bytes, first, second);
                    references.iter().for_each(|&reference| tlbs.refer(reference));
                    if counted.is_exact {
                        assert_eq!(counted.misses, tlbs.first.misses, "{which}");
                        assert_eq!(behind, tlbs.second.misses, "{which}, {second:?}");
                    } else {
                        let all = |misses: [u64; 3]| misses.iter().sum::<u64>();
                        assert!(all(counted.misses) <= all(tlbs.first.misses), "{which}");
                    }
                }
            }
        }
    }
    for (entries, ways) in [(0, 1), (4, 0), (10, 4), (0, 0)] {
        assert!(TlbGeometry::new(entries, ways).is_err());
    }
    let without_first = Tlbs { first: Vec::new(), second: vec![geometry((4, 4))] };
    assert!(Curves::new(512, &without_first).is_err());
}

#[test]
fn counts_from_a_reference_on_are_those_after_it() {
    let references = program(12, 6000);
    let question = ReadAhead { page_bytes: 4096, frames: 70, window: 4 };
    for from in [0, 1, 2500, 5999] {
        let questions = Questions {
            page_bytes: vec![512, 4096],
            tlbs: Tlbs { first: vec![geometry((64, 64))], second: vec![geometry((96, 4))] },
            policies: vec!["clock".to_owned()],
            memories: vec![(4096, vec![70])],
            read_aheads: vec![question],
            from_reference: from as u64,
            ..Questions::default()
        };
        let answers = run(&mut stored(&references), &questions, &NoProgress).unwrap();
        for size in &answers.sizes {
            let mut tlbs = TwoTlbs::new(size.page_bytes, (64, 64), (96, 4));
            let mut memories = [64, 200].map(|frames| Memory::new(size.page_bytes, frames));
            let mut before = (tlbs.second.misses, memories.each_ref().map(counts));
            for (at, &reference) in references.iter().enumerate() {
                if at == from {
                    before = (tlbs.second.misses, memories.each_ref().map(counts));
                }
                tlbs.refer(reference);
                memories.iter_mut().for_each(|memory| memory.refer(reference));
            }
            let which = format!("{} bytes from {from}", size.page_bytes);
            for (memory, (misses, write_backs)) in memories.iter().zip(before.1) {
                let frames = memory.frames() as u64;
                assert_eq!(size.curve.misses(frames), minus(memory.misses, misses), "{which}");
                let expected = memory.write_backs - write_backs;
                assert_eq!(size.curve.write_backs(frames), expected, "{which}");
            }
            assert_eq!(size.first_tlb_misses[0].misses, size.curve.misses(64), "{which}");
            let expected = minus(tlbs.second.misses, before.0);
            assert_eq!(size.second_tlb_misses, [expected], "{which}");
            let all = memory(&references, size.page_bytes, usize::MAX).misses;
            assert_eq!(size.pages, all.iter().sum::<u64>(), "{which}");
        }
        assert_eq!(answers.steps, answers.sizes[0].curve.misses(FILTER_BLOCKS as u64));
        let (of_all, of_start) = (read_ahead_of(&references, question), {
            read_ahead_of(&references[..from], question)
        });
        assert_eq!(answers.read_aheads[0].1, of_all.since(of_start));
    }
    let questions =
        Questions { page_bytes: vec![512], from_reference: 6000, ..Questions::default() };
    let error = run(&mut stored(&references), &questions, &NoProgress).unwrap_err();
    assert!(error.to_string().contains("has 6000 references"), "{error}");
}

fn counts(memory: &Memory) -> ([u64; 3], u64) {
    (memory.misses, memory.write_backs)
}

fn minus(counts: [u64; 3], before: [u64; 3]) -> [u64; 3] {
    std::array::from_fn(|kind| counts[kind] - before[kind])
}

fn read_ahead_of(references: &[Reference], question: ReadAhead) -> ReadAheadCounts {
    let mut read_ahead = ReadAheads::new(&[question]).unwrap();
    read_ahead.push(&filtered(references));
    read_ahead.counts().next().unwrap().1
}

/// The references as a trace.
fn stored(references: &[Reference]) -> Reader {
    let (mut filter, mut steps) = (Filter::new(), Vec::new());
    for &Reference { kind, address, bytes } in references {
        let bytes = bytes as u32;
        filter.refer(trace::references::Reference { kind, address, bytes }, &mut steps);
    }
    let mut writer = Writer::new(Vec::new(), &Origin::new("test", Vec::new())).unwrap();
    writer.write(&steps, filter.totals()).unwrap();
    let ending = Ending::new(filter.totals(), Stop::End, None);
    Reader::from_bytes("test", writer.finish(&ending).unwrap()).unwrap()
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
    assert_eq!((counts.cold, counts.brought), (curve.cold().iter().sum::<u64>(), 0));
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
    assert!(
        few.curve(8192).is_err()
            && all.curve(3000).is_err()
            && Curves::new(256, &Tlbs::default()).is_err()
    );
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
        let mut curves = Curves::new(512, &Tlbs::default()).unwrap();
        assert_eq!(curves.push(steps).unwrap_err().kind(), crate::ErrorKind::Trace);
    }
}
