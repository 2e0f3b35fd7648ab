//! Random requests to an engine that serves a device: each answer is checked against a model of all content, and the
//! device has every write before it is answered.

mod support;

use support::disk::TestDisk;
use support::kernel::{Kernel, Load};
use support::{SPARE, parts_of_device, run};
use swapd::carrier::SLOT_BYTES;
use swapd::engine::Parts;
use swapd::store::{Algorithm, FramesIn};

/// Requests per case, of about ten slots each.
const REQUESTS: u64 = 3_000;

type Policy = (&'static str, &'static [(&'static str, &'static str)]);

const POLICIES: [Policy; 7] = [
    ("nvm-cache", &[("admit_at", "fault"), ("ghost", "4")]),
    ("nvm-cache", &[("admit_at", "fault")]),
    ("hierarchical", &[]),
    ("hybrid-clock", &[]),
    ("hybrid", &[]),
    ("adaptive", &[]),
    ("flash", &[]),
];

fn served(
    policy: Policy,
    load: Load,
    frames: (usize, FramesIn),
    (slow, fast): (TestDisk, Option<TestDisk>),
) -> Parts<Kernel, TestDisk> {
    let device = slow.content();
    let (parts, control) = parts_of_device(policy, load, frames, (slow, fast), device.clone());
    let parts = run(parts, &control);
    let statistics = &parts.statistics;
    assert_eq!(parts.disk.syncs, parts.carrier.flushes, "{policy:?}: a flush was not passed on");
    assert_eq!(statistics.errors_checksum.get(), 0, "{policy:?}");
    // The device has everything, so a frame that leaves costs nothing.
    let written = statistics.slow.writes.get();
    assert!(written > 0 && statistics.voids.get() == 0, "{policy:?}");
    assert!(parts.carrier.slots_checked > load.requests / 4, "{policy:?}");
    for slot in 0..load.slots {
        let copies = parts.fast.copies(slot);
        assert!(copies.is_slow && !copies.is_lost, "{policy:?}: slot {slot} is not on the device");
    }
    parts
}

#[test]
fn a_device_has_every_write_and_reads_give_its_content() {
    for (seed, policy) in (300..).zip(POLICIES) {
        for (frames, slots, open) in [(1, 4, 20), (16, 1000, 12), (300, 1000, 12)] {
            for buffers in [2, 12] {
                let load = Load { open, ..Load::new(seed, slots, REQUESTS) };
                let disk = TestDisk::new(seed, slots, buffers);
                let parts = served(policy, load, (frames, FramesIn::Memory), (disk, None));
                assert!(parts.carrier.flushes > 0, "{policy:?}");
                let hits = parts.statistics.fast.reads.get();
                assert!(hits > 0 || policy.0 == "flash", "{policy:?}: no read was a hit");
                assert_eq!(
                    parts.fast.free() as u64 + parts.tiers.frames_used(),
                    (frames + SPARE) as u64
                );
            }
        }
    }
}

#[test]
fn the_fast_tier_of_a_device_may_be_compressed_or_lie_on_a_disk() {
    for (seed, policy) in (320..).zip(POLICIES) {
        let load = Load::new(seed, 500, REQUESTS);
        let disk = || TestDisk::new(seed, 500, 6);
        let fast = TestDisk::new(seed + 1, (50 + SPARE) as u32, 6);
        served(policy, load, (50, FramesIn::Disk), (disk(), Some(fast)));
        let frames_in = FramesIn::Pool { algorithm: Algorithm::Lz4, pages: 30 };
        served(policy, load, (120, frames_in), (disk(), None));
    }
}

#[test]
fn failing_blocks_cost_only_their_requests_and_leave_no_other_data() {
    for (seed, policy) in (340..).zip(POLICIES) {
        for (reads, writes) in [(3, 0), (0, 3), (2, 2), (0, 100)] {
            let load = Load { expects_errors: true, ..Load::new(seed, 500, REQUESTS) };
            let disk = TestDisk::new(seed, 500, 6).failing(reads, writes);
            let device = disk.content();
            let frames = (50, FramesIn::Memory);
            let (parts, control) = parts_of_device(policy, load, frames, (disk, None), device);
            let parts = run(parts, &control);
            let case = format!("{policy:?} {reads} {writes}");
            assert!(parts.statistics.errors_slow.get() > 0, "{case}");
            assert_eq!(parts.statistics.errors_checksum.get(), 0, "{case}");
        }
    }
}

#[test]
fn failing_frames_cost_no_request() {
    for (seed, policy) in (360..).zip(POLICIES) {
        for bad in [(4, 0), (0, 4), (3, 3), (0, 100)] {
            let load = Load::new(seed, 500, REQUESTS);
            let disk = TestDisk::new(seed, 500, 6);
            let fast = TestDisk::new(seed + 1, (100 + SPARE) as u32, 6).failing(bad.0, bad.1);
            let parts = served(policy, load, (100, FramesIn::Disk), (disk, Some(fast)));
            assert_eq!(parts.carrier.errors, 0, "{policy:?} {bad:?}");
        }
    }
}

#[test]
fn a_device_is_not_written_by_reads() {
    let disk = TestDisk::new(380, 64, 6);
    let before = disk.content();
    let load = Load::new(380, 64, 200);
    let (mut parts, control) =
        parts_of_device(POLICIES[0], load, (16, FramesIn::Memory), (disk, None), before.clone());
    parts.carrier.reads_only = true;
    let content = before.lock().unwrap().clone();
    let parts = run(parts, &control);
    assert!(*before.lock().unwrap() == content && content.len() == 64 * SLOT_BYTES);
    let statistics = &parts.statistics;
    assert_eq!((statistics.slow.writes.get(), statistics.slow_requests.writes.get()), (0, 0));
    assert!(statistics.demotions.get() > 0 && statistics.fast.reads.get() > 0);
}
