//! The engine allocates nothing while it serves, whatever the placement.

mod support;

use policy::tiers::CATALOG;
use support::disk::TestDisk;
use support::kernel::Load;
use support::parts;
use swapd::engine::{Engine, Settings};
use swapd::store::{Disk, Encrypted, KEY_BYTES};
use testkit::counting::{Counting, allocations};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Serves, and returns how often it allocated.
fn served<D: Disk>(architecture: &str, load: Load, disk: D) -> u64 {
    let (parts, control) = parts(architecture, load, 200, disk, true);
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
        assert_eq!(served(row.name, load, disk), 0, "{}", row.name);
    }
    let load = Load::new(70, 2000, 500);
    let disk = Encrypted::new(TestDisk::new(70, load.slots, 8), Some(&[1; KEY_BYTES]));
    assert_eq!(served("hierarchical", load, disk), 0, "encrypted");
}
