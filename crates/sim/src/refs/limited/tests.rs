//! The limited memory beside the count with ample memory, its invariants, and small cases.

use super::*;
use crate::refs::faults::{Enabled, Faults};
use crate::refs::lru_generations::BATCH_PAGES;
use crate::refs::naive_faults::changes;
use proptest::prelude::*;
use testkit::references::{filtered, program};
use types::{FILTER_BLOCKS, LeftBlock};

const AMPLE: u64 = 1 << 40;

fn memory(page_bytes: u64, pages: u64) -> LimitedMemory {
    LimitedMemory::new(Limit { page_bytes, pages, shift_pages: 0 }).unwrap()
}

fn step(page: u64, kind: ReferenceKind) -> ReferenceStep {
    ReferenceStep { references: 1, kind, block: page * 8, left: None }
}

fn mapped(change: Change, first: u64, pages: u64) -> MappingChange {
    MappingChange { steps: 0, change, first, pages }
}

/// Writes to all pages of a range. The filter holds only the last of them.
fn write(memory: &mut LimitedMemory, pages: std::ops::Range<u64>) -> LimitedFaults {
    for page in pages.clone() {
        let before = LeftBlock { block: (page - 1) * 8, is_written: true };
        let left = (page > pages.start).then_some(before);
        memory.push(&[ReferenceStep { left, ..step(page, ReferenceKind::Write) }]);
    }
    memory.faults()
}

impl LimitedMemory {
    /// Checks that what is in memory adds up, and is within the limit.
    fn check(&self) {
        let live = self.folios.iter().filter(|folio| folio.left > 0 || folio.is_orphan);
        let in_memory: u64 = self.generations.sizes().iter().flatten().sum();
        assert_eq!(self.used_pages, in_memory);
        assert!(self.used_pages <= live.map(|folio| folio.pages).sum());
        // The filter keeps the folios of its blocks in memory.
        let kept_pages = FILTER_BLOCKS as u64 * self.block;
        assert!(self.used_pages <= self.limit.pages.max(kept_pages + BATCH_PAGES));
        for chunk in &self.chunks {
            for page in chunk.iter() {
                assert!(!(page.is_present && page.is_swapped));
                assert!(page.is_present || !page.is_writable);
                for number in [page.folio, page.cached] {
                    assert!(number == NONE || self.folios[number as usize].left > 0);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn with_ample_memory_private_memory_faults_as_it_does_without_a_limit(seed: u64) {
        // No requests for huge pages, which only the other count knows.
        let seed = seed | 1;
        let steps = filtered(&program(seed, 4000));
        // Random moves go across mappings of several kinds, which Linux refuses.
        let mut changes = changes(seed, &steps);
        changes.retain(|of| !matches!(of.change, Change::MovedFrom | Change::MovedTo));
        for page_bytes in [4096, 16384, 65536, 2 << 20] {
            let mut faults = Faults::new(&[page_bytes], Enabled::Always).unwrap();
            faults.add_changes(&changes);
            faults.push(&steps);
            let expected = faults.counts().unwrap()[0];
            let mut limited = memory(page_bytes, AMPLE);
            limited.add_changes(&changes);
            limited.push(&steps);
            limited.check();
            let counted = limited.faults();
            prop_assert_eq!(counted.anonymous, expected.heap + expected.anonymous);
            prop_assert_eq!((counted.swap, counted.fallbacks), (0, 0));
        }
    }

    #[test]
    fn what_is_in_memory_adds_up_and_keeps_the_limit(seed: u64, pages in 300..900_u64) {
        let steps = filtered(&program(seed, 4000));
        let changes = changes(seed, &steps);
        for page_bytes in [4096, 65536] {
            let mut limited = memory(page_bytes, pages);
            let mut rest = &changes[..];
            for (at, batch) in steps.chunks(97).enumerate() {
                let end = (at * 97 + batch.len()) as u64;
                let (now, later) =
                    rest.split_at(rest.partition_point(|change| change.steps < end));
                limited.add_changes(now);
                rest = later;
                limited.push(batch);
                limited.check();
            }
        }
    }
}

#[test]
fn a_shift_moves_blocks_and_not_what_is_used() {
    let of = |shift_pages| {
        let limit = Limit { page_bytes: 65536, pages: AMPLE, shift_pages };
        let mut limited = LimitedMemory::new(limit).unwrap();
        limited.add_changes(&[mapped(Change::Heap, 1024, 32)]);
        let faults = write(&mut limited, 1024..1056);
        (faults.anonymous, faults.huge_pages)
    };
    assert_eq!((of(0), of(16)), ((2, 2), (2, 2)));
    // One block of 16 in the middle of 32 pages.
    assert_eq!(of(4), (17, 1));
}

#[test]
fn huge_pages_that_exceed_the_limit_are_mapped_by_base_pages_until_reclaim_makes_room() {
    let mut limited = memory(65536, 200);
    limited.add_changes(&[mapped(Change::Heap, 1024, 512)]);
    let faults = write(&mut limited, 1024..1024 + 192);
    assert_eq!((faults.huge_pages, faults.fallbacks), (12, 0));
    // 8 pages are left: base pages, and the ninth reclaims.
    let faults = write(&mut limited, 1216..1224);
    assert_eq!((faults.huge_pages, faults.anonymous), (12, 12 + 8));
    assert!(faults.fallbacks > 0);
    let faults = write(&mut limited, 1224..1536);
    assert!(faults.huge_pages > 12, "{faults:?}");
    limited.check();
}

#[test]
fn huge_pages_come_back_by_base_pages() {
    let mut limited = memory(65536, 256);
    limited.add_changes(&[mapped(Change::Heap, 1024, 1024)]);
    let first = write(&mut limited, 1024..2048);
    assert_eq!(first.swap_pages_read, 0);
    let again = write(&mut limited, 1024..1040);
    assert_eq!(again.swap_pages_read, 16);
    assert_eq!(again.huge_pages, first.huge_pages);
}

#[test]
fn a_fault_in_a_file_reads_around_it_and_maps_what_is_near() {
    let read = |pages: &[u64]| {
        let mut limited = memory(4096, AMPLE);
        limited.add_changes(&[mapped(Change::Heap, 9000, 1), mapped(Change::File, 1024, 256)]);
        // The first step makes the file one that the program itself maps.
        limited.steps = 1;
        for &page in pages {
            limited.push(&[step(page, ReferenceKind::Read)]);
        }
        (limited.faults().file, limited.faults().file_pages_read)
    };
    assert_eq!(read(&[1100]), (1, 32));
    // 1084 to 1115 are read, and those of the aligned 16 are mapped.
    assert_eq!(read(&[1100, 1088, 1103]), (1, 32));
    assert_eq!(read(&[1100, 1104]), (2, 32));
    // The mark is at 1108: a fault there reads 32 more.
    assert_eq!(read(&[1100, 1104, 1108]), (3, 64));
    assert_eq!(read(&[1100, 1200]), (2, 64));
}

#[test]
fn the_header_of_a_library_is_read_first() {
    let mut limited = memory(4096, AMPLE);
    limited.add_changes(&[mapped(Change::Heap, 9000, 1)]);
    limited.push(&[step(9000, ReferenceKind::Write)]);
    let at = |first, pages| MappingChange { steps: 1, change: Change::File, first, pages };
    limited.add_changes(&[at(1024, 256), at(1064, 100)]);
    limited.push(&[step(1100, ReferenceKind::Read)]);
    assert_eq!(limited.faults().file_pages_read, 4 + 32);
}

#[test]
fn written_pages_of_files_are_private_and_go_to_swap() {
    let mut limited = memory(4096, 128);
    limited.add_changes(&[mapped(Change::File, 1024, 64), mapped(Change::Heap, 4096, 512)]);
    let faults = write(&mut limited, 1024..1026);
    assert_eq!((faults.file, faults.anonymous), (2, 0));
    let before = write(&mut limited, 4096..4608);
    let faults = write(&mut limited, 1024..1025);
    assert_eq!((faults.file, faults.swap_pages_read), (2, before.swap_pages_read + 1));
}

#[test]
fn memory_that_moves_stays_in_memory() {
    let mut limited = memory(65536, AMPLE);
    limited.add_changes(&[mapped(Change::Heap, 1024, 64)]);
    write(&mut limited, 1024..1088);
    let at = |change, first, pages| MappingChange { steps: 64, change, first, pages };
    // Half of the second huge page moves, and the third and fourth.
    limited.add_changes(&[at(Change::MovedFrom, 1048, 40), at(Change::MovedTo, 4096, 40)]);
    let faults = write(&mut limited, 4096..4136);
    assert_eq!((faults.anonymous, faults.huge_pages, limited.used_pages), (4, 4, 64));
    limited.check();
    limited.add_changes(&[MappingChange { steps: 104, ..at(Change::Removed, 4096, 32) }]);
    write(&mut limited, 1024..1025);
    assert_eq!(limited.used_pages, 24 + 16);
    limited.check();
}

#[test]
fn impossible_sizes_are_refused() {
    for page_bytes in [2048, 4 << 20, 5000] {
        assert!(LimitedMemory::new(Limit { page_bytes, pages: 1, shift_pages: 0 }).is_err());
    }
}
