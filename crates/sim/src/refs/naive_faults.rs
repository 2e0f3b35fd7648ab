//! Minor faults counted page by page, as an oracle for the fast count.

use super::faults::{Enabled, Faults, MinorFaults};
use proptest::prelude::*;
use std::collections::HashMap;
use testkit::generate::SplitMix;
use testkit::references::{filtered, program};
use trace::references::{Change, MappingChange};
use types::{ReferenceKind, ReferenceStep};

/// The memory at one size: what each page belongs to, with the number of its mapping, and whether it was written.
struct Naive {
    enabled: Enabled,
    block: u64,
    owners: HashMap<u64, (Change, usize)>,
    written: HashMap<u64, bool>,
    mappings: usize,
    has_requests: bool,
    counts: MinorFaults,
}

impl Naive {
    fn new(page_bytes: u64, enabled: Enabled) -> Naive {
        let counts = MinorFaults { page_bytes, ..MinorFaults::default() };
        let (owners, written) = (HashMap::new(), HashMap::new());
        Naive {
            enabled,
            block: page_bytes / 4096,
            owners,
            written,
            mappings: 0,
            has_requests: false,
            counts,
        }
    }

    fn run(mut self, steps: &[ReferenceStep], changes: &[MappingChange]) -> MinorFaults {
        let mut from = 0..0;
        for (at, step) in steps.iter().enumerate() {
            for change in changes.iter().filter(|change| change.steps == at as u64) {
                self.apply(*change, &mut from);
            }
            if let Some(left) = step.left
                && left.is_written
                && self.written.get(&(left.block / 8)) == Some(&false)
            {
                self.touch(left.block / 8, true);
            }
            self.touch(step.block / 8, step.kind == ReferenceKind::Write);
        }
        self.counts
    }

    fn apply(&mut self, change: MappingChange, from: &mut std::ops::Range<u64>) {
        let pages = change.first..change.first + change.pages;
        self.mappings += 1;
        match change.change {
            Change::Heap | Change::Anonymous | Change::File => {
                let is_new = pages.clone().all(|page| !self.owners.contains_key(&page));
                for page in pages {
                    if change.change != Change::Heap || !is_new {
                        self.written.remove(&page);
                    }
                    self.owners.insert(page, (change.change, self.mappings));
                }
            }
            Change::Removed => pages.for_each(|page| {
                self.owners.remove(&page);
                self.written.remove(&page);
            }),
            Change::Discarded => {
                for page in pages {
                    self.written.remove(&page);
                }
            }
            Change::Filled => {
                for page in pages {
                    if self.owners.contains_key(&page) {
                        self.touch(page, true);
                    }
                }
            }
            Change::Requested => {
                self.has_requests = true;
                for page in pages {
                    if let Some(owner) = self.owners.get_mut(&page)
                        && owner.0 != Change::File
                    {
                        owner.0 = Change::Requested;
                    }
                }
            }
            Change::MovedFrom => *from = pages,
            Change::MovedTo => {
                let kind = self.owners.get(&from.start).map_or(Change::Heap, |owner| owner.0);
                let states: Vec<_> = from.clone().map(|page| self.written.remove(&page)).collect();
                for page in from.clone() {
                    self.owners.remove(&page);
                }
                for (page, state) in pages.zip(states) {
                    self.owners.insert(page, (kind, self.mappings));
                    self.written.remove(&page);
                    if let Some(state) = state {
                        self.written.insert(page, state);
                    }
                }
            }
        }
    }

    fn touch(&mut self, page: u64, is_write: bool) {
        let before = self.written.get(&page).copied();
        if before == Some(true) || before == Some(false) && !is_write {
            return;
        }
        let owner = self.owners.get(&page).copied();
        let block = page / self.block * self.block..page / self.block * self.block + self.block;
        match owner {
            Some((Change::File, mapping)) => {
                self.counts.file += 1;
                let around = page / 16 * 16;
                let is_near = |near: &u64| self.owners.get(near) == Some(&(Change::File, mapping));
                let before = (around..page).rev().take_while(is_near);
                let near: Vec<u64> =
                    before.chain((page..around + 16).take_while(is_near)).collect();
                for near in near.into_iter().filter(|_| !is_write) {
                    self.written.entry(near).or_insert(false);
                }
            }
            Some((kind, _)) => {
                if kind == Change::Anonymous {
                    self.counts.anonymous += 1;
                } else {
                    self.counts.heap += 1;
                }
                let is_huge = self.block == 512 || is_write && before.is_none();
                let is_same = block.clone().all(|page| self.written.get(&page).copied() == before);
                let is_possible = |page| {
                    let owner = self.owners.get(&page).map(|of| of.0);
                    if self.enabled == Enabled::Always {
                        owner == Some(kind)
                    } else if kind == Change::Anonymous {
                        false
                    } else if self.has_requests {
                        owner == Some(Change::Requested)
                    } else {
                        owner.is_none_or(|of| of == Change::Heap)
                    }
                };
                if is_huge && is_same && block.clone().all(is_possible) {
                    for page in block {
                        self.written.insert(page, is_write);
                    }
                }
            }
            None => self.counts.anonymous += 1,
        }
        self.written.insert(page, is_write);
    }
}

/// How many of the changes occur: requests only with some seeds.
fn changes_of(seed: u64) -> u64 {
    if seed.is_multiple_of(2) { 9 } else { 8 }
}

/// Changes among `steps` of ranges near the blocks that they use.
pub fn changes(seed: u64, steps: &[ReferenceStep]) -> Vec<MappingChange> {
    let mut random = SplitMix(seed);
    let mut changes = Vec::new();
    let mut at = 0;
    while at < steps.len() as u64 {
        let near = |random: &mut SplitMix| {
            let step = steps[random.below(steps.len() as u64) as usize];
            (step.block / 8).saturating_sub(random.below(40))
        };
        let (first, pages) = (near(&mut random), 1 + random.below(700));
        let change = Change::ALL[random.below(changes_of(seed)) as usize];
        let add = |change, first| MappingChange { steps: at, change, first, pages };
        match change {
            Change::MovedFrom => {
                changes.push(add(change, first));
                // As mremap does, which refuses ranges that overlap.
                let to = near(&mut random) + 2 * pages;
                let to = if to.abs_diff(first) < pages { first + 2 * pages } else { to };
                changes.push(add(Change::MovedTo, to));
            }
            Change::MovedTo => {}
            _ => changes.push(add(change, first)),
        }
        at += random.below(60);
    }
    changes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn minor_faults_equal_those_counted_page_by_page(
        seed: u64, batch in 1..500_usize, is_always: bool,
    ) {
        let enabled = if is_always { Enabled::Always } else { Enabled::Madvise };
        let steps = filtered(&program(seed, 4000));
        let changes = changes(seed, &steps);
        let sizes = [4096, 16384, 65536, 2 << 20];
        let mut faults = Faults::new(&sizes, enabled).unwrap();
        let mut rest = &changes[..];
        for (at, batch_steps) in steps.chunks(batch).enumerate() {
            let end = (at * batch + batch_steps.len()) as u64;
            let (now, later) = rest.split_at(rest.partition_point(|change| change.steps < end));
            faults.add_changes(now);
            rest = later;
            faults.push(batch_steps);
        }
        let counted = faults.counts().unwrap();
        for (size, counted) in sizes.into_iter().zip(counted) {
            prop_assert_eq!(counted, Naive::new(size, enabled).run(&steps, &changes));
        }
    }
}

#[test]
fn heap_written_first_comes_in_blocks_and_heap_read_first_does_not() {
    let block =
        |page: u64, kind| ReferenceStep { references: 1, kind, block: page * 8, left: None };
    let heap = |first| MappingChange { steps: 0, change: Change::Heap, first, pages: 512 };
    let of = |changes: &[MappingChange], kinds: &[ReferenceKind]| {
        let mut faults = Faults::new(&[4096, 65536, 2 << 20], Enabled::Madvise).unwrap();
        faults.add_changes(changes);
        for &kind in kinds {
            faults.push(&(512..1024).map(|page| block(page, kind)).collect::<Vec<_>>());
        }
        faults.counts().map(|counts| counts.iter().map(|of| of.heap).collect::<Vec<_>>())
    };
    assert_eq!(of(&[heap(512)], &[ReferenceKind::Write]), Some(vec![512, 32, 1]));
    let read_first = [ReferenceKind::Read, ReferenceKind::Write];
    assert_eq!(of(&[heap(512)], &read_first), Some(vec![1024, 1024, 2]));
    assert_eq!(of(&[], &read_first), None);
    for sizes in [&[2048][..], &[4 << 20], &[5000], &[4096; 17]] {
        assert!(Faults::new(sizes, Enabled::Madvise).is_err());
    }
}

/// A step that writes to a page.
fn write(page: u64) -> ReferenceStep {
    ReferenceStep { references: 1, kind: ReferenceKind::Write, block: page * 8, left: None }
}

#[test]
fn a_block_is_huge_everywhere_if_the_mapping_holds_it_already() {
    let mapping = |steps, change, first, pages| MappingChange { steps, change, first, pages };
    // A heap of 24 pages that grows by 24 once they are written, and 32 pages of another mapping.
    let changes = [
        mapping(0, Change::Heap, 512, 24),
        mapping(0, Change::Anonymous, 1024, 32),
        mapping(24, Change::Heap, 536, 24),
    ];
    let steps: Vec<_> = (512..560).chain(1024..1056).map(write).collect();
    let of = |enabled| {
        let mut faults = Faults::new(&[65536], enabled).unwrap();
        faults.add_changes(&changes);
        faults.push(&steps);
        let [counts] = faults.counts().unwrap()[..] else { panic!("one size") };
        (counts.heap, counts.anonymous)
    };
    // 16 pages at once and then 8 single ones; the 8 that complete their block come too late, so only 16 more are huge.
    assert_eq!(of(Enabled::Always), (1 + 8 + 8 + 1, 2));
    assert_eq!(of(Enabled::Madvise), (3, 32));
}

#[test]
fn memory_that_moves_stays_what_it_is() {
    let at = |first, change| MappingChange { steps: 0, change, first, pages: 16 };
    let of = |before: &[Change]| {
        let mut faults = Faults::new(&[65536], Enabled::Madvise).unwrap();
        faults.add_changes(&before.iter().map(|&change| at(512, change)).collect::<Vec<_>>());
        faults.add_changes(&[at(512, Change::MovedFrom), at(1024, Change::MovedTo)]);
        faults.push(&(1024..1040).map(write).collect::<Vec<_>>());
        let [counts] = faults.counts().unwrap()[..] else { panic!("one size") };
        (counts.heap, counts.anonymous, counts.file)
    };
    assert_eq!(of(&[]), (1, 0, 0));
    assert_eq!(of(&[Change::Heap]), (1, 0, 0));
    assert_eq!(of(&[Change::Heap, Change::Requested]), (1, 0, 0));
    assert_eq!(of(&[Change::Anonymous]), (0, 16, 0));
    assert_eq!(of(&[Change::File]), (0, 0, 16));
}

#[test]
fn only_mapped_memory_is_filled() {
    let at = |change, first, pages| MappingChange { steps: 0, change, first, pages };
    let mut faults = Faults::new(&[65536], Enabled::Madvise).unwrap();
    faults.add_changes(&[at(Change::Heap, 512, 16), at(Change::Filled, 500, 1 << 40)]);
    faults.push(&[write(512)]);
    let [counts] = faults.counts().unwrap()[..] else { panic!("one size") };
    assert_eq!((counts.heap, counts.anonymous), (1, 0));
}
