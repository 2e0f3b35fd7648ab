//! The engine allocates nothing while it serves, whatever the placement.

mod support;

use policy::tiers::CATALOG;
use support::disk::TestDisk;
use support::kernel::Load;
use support::parts;
use swapd::engine::{Engine, Settings};
use testkit::counting::{Counting, allocations};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn serving_allocates_nothing() {
    for (seed, row) in (40..).zip(CATALOG) {
        let load = Load::new(seed, 2000, 20_000);
        let disk = TestDisk::new(seed, load.slots, 8);
        let (parts, control) = parts(row.name, load, 200, disk, true);
        let settings = Settings { requests: 24, moves: 64, ..Settings::default() };
        let mut engine = Engine::new(parts, &settings);
        let before = allocations();
        engine.serve(&control).unwrap();
        assert_eq!(allocations() - before, 0, "{}", row.name);
    }
}
