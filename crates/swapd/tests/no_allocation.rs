//! The engine allocates nothing while it serves, whatever the placement.

mod support;

use std::sync::Arc;

use policy::tiers::CATALOG;
use support::disk::TestDisk;
use support::kernel::{Kernel, Load};
use support::{SPARE, parts_compressed, parts_of_device, parts_with};
use swapd::engine::{Control, Engine, Parts, Settings};
use swapd::store::{Algorithm, Disk, Encrypted, FramesIn, KEY_BYTES, Tier};
use testkit::counting::{Counting, allocations};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Frames of the fast tier.
const FRAMES: usize = 200;

/// Serves, and returns how often it allocated.
fn served<D: Disk>(architecture: &str, load: Load, disks: (D, Option<D>)) -> u64 {
    allocations_of(parts_with(architecture, load, FRAMES, disks, true))
}

fn allocations_of<D: Disk>((parts, control): (Parts<Kernel, D>, Arc<Control>)) -> u64 {
    let settings = Settings { requests: 24, moves: 64, ..Settings::default() };
    let mut engine = Engine::new(parts, &settings);
    let before = allocations();
    engine.serve(&control).unwrap();
    allocations() - before
}

#[test]
#[ignore = "slow"]
fn serving_allocates_nothing() {
    for (seed, row) in (40..).zip(CATALOG) {
        let load = Load::new(seed, 2000, 20_000);
        let disk = TestDisk::new(seed, load.slots, 8);
        assert_eq!(served(row.name, load, (disk, None)), 0, "{}", row.name);
        let disk = TestDisk::new(seed, load.slots, 8);
        let fast = TestDisk::new(seed, (FRAMES + SPARE) as u32, 8).failing(2, 2);
        let load = Load { expects_errors: true, ..load };
        assert_eq!(served(row.name, load, (disk, Some(fast))), 0, "{} on a disk", row.name);
    }
    for (seed, row) in (80..).zip(CATALOG) {
        for algorithm in Algorithm::ALL {
            let load = Load::new(seed, 2000, 4000);
            let disk = TestDisk::new(seed, load.slots, 8);
            let parts = parts_compressed(row.name, load, (FRAMES / 4, algorithm), disk, true);
            assert_eq!(allocations_of(parts), 0, "{} compressed by {algorithm:?}", row.name);
        }
    }
    let load = Load::new(70, 2000, 500);
    let disk = Encrypted::new(TestDisk::new(70, load.slots, 8), Tier::Slow, Some(&[1; KEY_BYTES]));
    assert_eq!(served("hierarchical", load, (disk, None)), 0, "encrypted");
}

#[test]
fn serving_a_device_allocates_nothing() {
    let policy = ("nvm-cache", &[("admit_at", "fault"), ("ghost", "4")][..]);
    let load = Load::new(90, 2000, 2_000);
    let disk = TestDisk::new(90, load.slots, 8);
    let device = disk.content();
    let frames = (FRAMES, FramesIn::Memory);
    let parts = parts_of_device(policy, load, frames, (disk, None), device);
    assert_eq!(allocations_of(parts), 0);
}
