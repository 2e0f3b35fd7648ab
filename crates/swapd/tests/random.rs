//! Random requests to the engine with every placement: each answer is checked against a model of all content.

mod support;

use linux::disk_queue::Part;
use policy::tiers::CATALOG;
use support::disk::TestDisk;
use support::kernel::Load;
use support::{SPARE, parts, parts_compressed, parts_with, run};
use swapd::carrier::SLOT_BYTES;
use swapd::store::{Algorithm, Disk, Encrypted, KEY_BYTES, Tier};

/// Requests per case, of about ten slots each.
const REQUESTS: u64 = 20_000;

#[test]
#[ignore = "slow"]
fn every_placement_gives_back_what_was_written() {
    for (seed, row) in (1..).zip(CATALOG) {
        for frames in [1, 16, 300] {
            for buffers in [2, 12] {
                let load = Load::new(seed, 1000, REQUESTS / 6);
                let disk = TestDisk::new(seed, load.slots, buffers);
                let (parts, control) = parts(row.name, load, frames, disk, false);
                let parts = run(parts, &control);
                assert!(parts.carrier.slots_checked > 4 * load.requests, "{}", row.name);
                assert!(parts.tiers.frames_used() <= frames as u64, "{}", row.name);
            }
        }
    }
}

#[test]
fn a_tiny_area_with_one_frame_serves_too() {
    for (seed, row) in (10..).zip(CATALOG) {
        let load = Load { open: 20, ..Load::new(seed, 4, REQUESTS) };
        let disk = TestDisk::new(seed, load.slots, 2);
        let (parts, control) = parts(row.name, load, 1, disk, false);
        run(parts, &control);
    }
}

#[test]
#[ignore = "slow"]
fn failing_slots_cost_only_their_requests() {
    for (seed, row) in (20..).zip(CATALOG) {
        for (bad_reads, bad_writes) in [(3, 0), (0, 3), (2, 2)] {
            let load = Load { expects_errors: true, ..Load::new(seed, 500, REQUESTS / 3) };
            let disk = TestDisk::new(seed, load.slots, 6).failing(bad_reads, bad_writes);
            let (parts, control) = parts(row.name, load, 50, disk, true);
            let parts = run(parts, &control);
            let counted = parts.statistics.errors_slow.get();
            let seen = parts.carrier.errors;
            assert!(counted > 0, "{} {bad_reads} {bad_writes}: {counted} {seen}", row.name);
            assert_eq!(parts.statistics.errors_checksum.get(), 0, "{}", row.name);
        }
    }
}

#[test]
fn an_encrypted_disk_gives_back_what_was_written_and_failing_slots_cost_only_theirs() {
    for (seed, row) in (60..).zip(CATALOG) {
        for bad in [0, 2] {
            // Without optimization, encryption takes most of the time.
            let load = Load { expects_errors: bad > 0, ..Load::new(seed, 500, REQUESTS / 60) };
            let disk = TestDisk::new(seed, load.slots, 6).failing(bad, bad);
            let disk = Encrypted::new(disk, Tier::Slow, Some(&[7; KEY_BYTES]));
            let (parts, control) = parts(row.name, load, 50, disk, true);
            let parts = run(parts, &control);
            assert_eq!(parts.statistics.errors_checksum.get(), 0, "{}", row.name);
            assert!(parts.carrier.slots_checked > load.requests, "{}", row.name);
        }
    }
}

#[test]
fn a_reader_of_the_disk_sees_no_content() {
    let page = [5; SLOT_BYTES];
    let write = |disk: &mut dyn Disk| {
        for slot in [0, 1] {
            disk.buffer_mut(0)[slot * SLOT_BYTES..][..SLOT_BYTES].copy_from_slice(&page);
        }
        let part = Part { buffer: 0, begin: 0, bytes: 2 * SLOT_BYTES };
        disk.write(0, part, SLOT_BYTES as u64);
        while disk.ended().is_none() {}
    };
    let mut plain = TestDisk::new(1, 4, 2);
    write(&mut plain);
    assert_eq!(plain.at(1), page);
    let [fast, slow] = Tier::ALL.map(|tier| {
        let mut disk = Encrypted::new(TestDisk::new(1, 4, 2), tier, Some(&[7; KEY_BYTES]));
        write(&mut disk);
        disk.into_inner()
    });
    for disk in [&fast, &slow] {
        assert!(
            disk.at(1) != page && disk.at(1) != disk.at(2),
            "equal pages look equal on the disk"
        );
    }
    assert!(fast.at(1) != slow.at(1), "equal pages look equal on both disks");
}

/// Disks for both tiers; blocks of the fast one fail, in percent.
fn disks(
    load: Load,
    frames: usize,
    buffers: usize,
    bad: (u32, u32),
) -> (TestDisk, Option<TestDisk>) {
    let fast = TestDisk::new(load.seed + 1000, (frames + SPARE) as u32, buffers);
    (TestDisk::new(load.seed, load.slots, buffers), Some(fast.failing(bad.0, bad.1)))
}

#[test]
fn a_fast_tier_on_a_disk_gives_back_what_was_written() {
    for (seed, row) in (100..).zip(CATALOG) {
        for (frames, slots, open) in [(1, 4, 20), (1, 1000, 12), (16, 1000, 12), (300, 1000, 12)] {
            for buffers in [2, 12] {
                let load = Load { open, ..Load::new(seed, slots, REQUESTS / 6) };
                let disks = disks(load, frames, buffers, (0, 0));
                let (parts, control) = parts_with(row.name, load, frames, disks, false);
                let parts = run(parts, &control);
                let case = format!("{} {frames} {buffers}", row.name);
                assert!(parts.carrier.slots_checked > load.requests / 4, "{case}");
                assert!(parts.tiers.frames_used() <= frames as u64, "{case}");
                let statistics = &parts.statistics;
                let fast = &statistics.fast_requests;
                assert!(fast.writes.get() <= statistics.fast.writes.get(), "{case}");
                // Victims are read as well.
                assert!(fast.reads.get() > 0 || statistics.fast.reads.get() == 0, "{case}");
            }
        }
    }
}

#[test]
fn failing_frames_cost_only_what_no_slow_copy_has() {
    for (seed, row) in (120..).zip(CATALOG) {
        for bad in [(4, 0), (0, 4), (3, 3), (0, 100)] {
            let load = Load { expects_errors: true, ..Load::new(seed, 500, REQUESTS / 3) };
            let disks = disks(load, 100, 6, bad);
            let (parts, control) = parts_with(row.name, load, 100, disks, true);
            let parts = run(parts, &control);
            let case = format!("{} {bad:?}", row.name);
            let statistics = &parts.statistics;
            let uses_frames = statistics.fast.writes.get() + statistics.errors_fast.get() > 0;
            assert_eq!(statistics.errors_fast.get() > 0, uses_frames, "{case}");
            assert_eq!(statistics.errors_slow.get(), 0, "{case}");
            assert_eq!(statistics.errors_checksum.get(), 0, "{case}");
            if bad.0 == 0 {
                // A page that no frame takes goes to the slow tier.
                assert_eq!(parts.carrier.errors, 0, "{case}");
            }
        }
    }
}

#[test]
fn failing_blocks_of_both_tiers_and_encryption_give_no_other_data() {
    for (seed, row) in (140..).zip(CATALOG) {
        let load = Load { expects_errors: true, ..Load::new(seed, 500, REQUESTS / 30) };
        let (slow, fast) = disks(load, 50, 6, (3, 3));
        let key = Some(&[7; KEY_BYTES]);
        let slow = Encrypted::new(slow.failing(2, 2), Tier::Slow, key);
        let fast = fast.map(|fast| Encrypted::new(fast, Tier::Fast, key));
        let (parts, control) = parts_with(row.name, load, 50, (slow, fast), true);
        let parts = run(parts, &control);
        assert_eq!(parts.statistics.errors_checksum.get(), 0, "{}", row.name);
        assert!(parts.carrier.slots_checked > load.requests, "{}", row.name);
    }
}

#[test]
fn a_wrong_checksum_is_an_error_and_never_data() {
    // The fast tier in memory, on a disk, and on a disk that lies too.
    for (seed, row) in (180..).zip(CATALOG) {
        for wrong_frames in [None, Some(0), Some(4)] {
            let load = Load { expects_errors: true, ..Load::new(seed, 500, REQUESTS / 6) };
            let slow = TestDisk::new(seed, load.slots, 6).lying(4);
            let fast = wrong_frames
                .map(|wrong| TestDisk::new(seed + 1000, (50 + SPARE) as u32, 6).lying(wrong));
            let (parts, control) = parts_with(row.name, load, 50, (slow, fast), true);
            // The model of all content checks each answer without an error.
            let parts = run(parts, &control);
            let case = format!("{} {wrong_frames:?}", row.name);
            assert!(parts.statistics.errors_checksum.get() > 0, "{case}");
            assert!(parts.carrier.errors > 0, "{case}");
            assert!(parts.carrier.slots_checked > load.requests / 4, "{case}");
        }
    }
}

#[test]
fn requests_that_the_kernel_did_not_take_are_given_again() {
    for open in [1, 12] {
        let load = Load { open, ..Load::new(170, 500, 2000) };
        let disk = TestDisk::new(170, 500, 6).refusing(60);
        let (parts, control) = parts("hierarchical", load, 50, disk, true);
        let parts = run(parts, &control);
        assert!(parts.disk.requests > 100 && parts.carrier.slots_checked > load.requests / 4);
    }
}

#[test]
fn a_frame_that_cannot_be_read_is_retired_and_the_slow_copy_answers() {
    // A page that is read from the slow tier again gets a frame and keeps its copy there.
    let load = Load { expects_errors: true, ..Load::new(160, 1000, 4000) };
    let (slow, fast) = disks(load, 300, 6, (100, 0));
    let (parts, control) = parts_with("hybrid", load, 300, (slow, fast), true);
    let parts = run(parts, &control);
    let statistics = &parts.statistics;
    let promotions = statistics.promotions.get();
    assert!(promotions > 0 && statistics.fast.reads.get() == 0, "{promotions} promotions");
    assert!(parts.carrier.errors < statistics.errors_fast.get(), "no slow copy answered");
    let (free, used) = (parts.fast.free(), parts.tiers.frames_used() as usize);
    assert!(free + used < 300 + SPARE, "{free} free and {used} used: none is retired");
}

#[test]
#[ignore = "slow"]
fn a_compressed_tier_gives_back_what_was_written() {
    for algorithm in Algorithm::ALL {
        let mut refused = 0;
        for (seed, row) in (200..).zip(CATALOG) {
            for (pages, slots) in [(1, 1000), (1, 6), (16, 1000), (100, 1000)] {
                for buffers in [2, 12] {
                    let load = Load::new(seed, slots, REQUESTS / 12);
                    let disk = TestDisk::new(seed, load.slots, buffers);
                    let memory = (pages, algorithm);
                    let (parts, control) = parts_compressed(row.name, load, memory, disk, true);
                    let parts = run(parts, &control);
                    let case = format!("{} {pages} {buffers} {algorithm:?}", row.name);
                    let statistics = &parts.statistics;
                    let errors = (statistics.errors_fast.get(), statistics.errors_checksum.get());
                    assert_eq!(errors, (0, 0), "{case}");
                    let used = parts.tiers.frames_used();
                    assert!(used <= 4 * pages as u64, "{case}");
                    let counts = parts.fast.pool_counts().unwrap();
                    assert_eq!(counts.pages, used, "{case}: pages that no slot has");
                    assert!(counts.bytes <= (pages * SLOT_BYTES) as u64, "{case}");
                    let held = parts.fast.free() as u64 + used;
                    let frames = (4 * pages).min(slots as usize) + SPARE;
                    assert_eq!(held, frames as u64, "{case}: frames are lost");
                    refused += statistics.compressed.refused_pages.get();
                }
            }
        }
        assert!(refused > 100, "{algorithm:?}: the pool was never full");
    }
}

#[test]
fn a_compressed_tier_holds_more_pages_than_its_memory() {
    for algorithm in Algorithm::ALL {
        let load = Load::new(230, 1000, REQUESTS / 10);
        let disk = TestDisk::new(230, load.slots, 6);
        let memory = (100, algorithm);
        let (parts, control) = parts_compressed("hierarchical", load, memory, disk, true);
        let parts = run(parts, &control);
        let counts = parts.fast.pool_counts().unwrap();
        assert!(counts.pages > 130, "{algorithm:?}: {counts:?}");
        assert!(counts.raw_pages > 0 && counts.filled_pages > 0, "{algorithm:?}: {counts:?}");
        let capacity = parts.tiers.capacity();
        assert!((100..400).contains(&capacity), "{algorithm:?}: {capacity} {counts:?}");
        // Few pages found no room, because the placement keeps to what fits.
        let refused = parts.statistics.compressed.refused_pages.get();
        assert!(refused * 20 < parts.statistics.fast.writes.get(), "{algorithm:?}: {refused}");
    }
}

#[test]
#[ignore = "slow"]
fn a_failing_disk_behind_a_compressed_tier_costs_only_its_requests() {
    for (seed, row) in (240..).zip(CATALOG) {
        for (bad_reads, bad_writes) in [(3, 0), (0, 3), (2, 2), (0, 100)] {
            for algorithm in Algorithm::ALL {
                let load = Load { expects_errors: true, ..Load::new(seed, 500, REQUESTS / 12) };
                let disk = TestDisk::new(seed, load.slots, 6).failing(bad_reads, bad_writes);
                let memory = (30, algorithm);
                let (parts, control) = parts_compressed(row.name, load, memory, disk, true);
                let parts = run(parts, &control);
                let case = format!("{} {bad_reads} {bad_writes} {algorithm:?}", row.name);
                let statistics = &parts.statistics;
                assert!(statistics.errors_slow.get() > 0 || bad_writes == 100, "{case}");
                assert_eq!(statistics.errors_checksum.get(), 0, "{case}");
                assert_eq!(statistics.errors_fast.get(), 0, "{case}");
            }
        }
    }
}

#[test]
fn a_disk_that_fails_every_write_still_serves_the_fast_tier() {
    for (seed, row) in (30..).zip(CATALOG) {
        let load = Load { expects_errors: true, ..Load::new(seed, 200, REQUESTS / 4) };
        let disk = TestDisk::new(seed, load.slots, 6).failing(0, 100);
        let (parts, control) = parts(row.name, load, 50, disk, false);
        run(parts, &control);
    }
}

#[test]
fn a_page_whose_frame_fails_before_its_demotion_is_lost_not_stale() {
    // With these seeds a frame fails while a demotion of its page, the first to write it to the slow tier, waits.
    for seed in [1212, 1217, 1234, 1247] {
        for has_checksums in [true, false] {
            let load = Load { expects_errors: true, ..Load::new(seed, 500, 4000) };
            let disks = disks(load, 100, 6, (4, 0));
            let (parts, control) = parts_with("hierarchical", load, 100, disks, has_checksums);
            let parts = run(parts, &control);
            let statistics = &parts.statistics;
            assert_eq!(statistics.errors_checksum.get(), 0, "seed {seed}");
            assert_eq!(statistics.errors_slow.get(), 0, "seed {seed}");
            assert!(parts.carrier.errors > 0, "seed {seed}");
        }
    }
}
