//! Random requests to the engine with every placement: each answer is checked against a model of all content.

mod support;

use linux::disk_queue::Part;
use policy::tiers::CATALOG;
use support::disk::TestDisk;
use support::kernel::Load;
use support::{parts, run};
use swapd::carrier::SLOT_BYTES;
use swapd::store::{Disk, Encrypted, KEY_BYTES};

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
            let disk = Encrypted::new(disk, Some(&[7; KEY_BYTES]));
            let (parts, control) = parts(row.name, load, 50, disk, true);
            let parts = run(parts, &control);
            assert_eq!(parts.statistics.errors_checksum.get(), 0, "{}", row.name);
            assert!(parts.carrier.slots_checked > load.requests, "{}", row.name);
        }
    }
}

#[test]
fn a_reader_of_the_disk_sees_no_content() {
    let mut plain = TestDisk::new(1, 4, 2);
    let mut disk = Encrypted::new(TestDisk::new(1, 4, 2), Some(&[7; KEY_BYTES]));
    let page = [5; SLOT_BYTES];
    let write = |disk: &mut dyn Disk| {
        for slot in [0, 1] {
            disk.buffer_mut(0)[slot * SLOT_BYTES..][..SLOT_BYTES].copy_from_slice(&page);
        }
        let part = Part { buffer: 0, begin: 0, bytes: 2 * SLOT_BYTES };
        disk.write(0, part, SLOT_BYTES as u64);
        while disk.ended().is_none() {}
    };
    write(&mut plain);
    write(&mut disk);
    assert_eq!(plain.at(1), page);
    let disk = disk.into_inner();
    assert!(disk.at(1) != page && disk.at(1) != disk.at(2), "equal pages look equal on the disk");
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
