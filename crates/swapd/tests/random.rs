//! Random requests to the engine with every placement: each answer is checked against a model of all content.

mod support;

use policy::tiers::CATALOG;
use support::disk::TestDisk;
use support::kernel::Load;
use support::{parts, run};

/// Requests per case, of about ten slots each.
const REQUESTS: u64 = 20_000;

#[test]
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
fn a_disk_that_fails_every_write_still_serves_the_fast_tier() {
    for (seed, row) in (30..).zip(CATALOG) {
        let load = Load { expects_errors: true, ..Load::new(seed, 200, REQUESTS / 4) };
        let disk = TestDisk::new(seed, load.slots, 6).failing(0, 100);
        let (parts, control) = parts(row.name, load, 50, disk, false);
        run(parts, &control);
    }
}
