//! Disks that fail or stall: which slot the statistics name, and that requests wait instead of failing.

mod support;

use std::time::{Duration, Instant};

use serde_json::Value;
use support::disk::TestDisk;
use support::kernel::{Kernel, Load};
use support::{SPARE, parts, parts_with, run};
use swapd::engine::Parts;
use swapd::statistics::{Serving, Statistics};

const SLOTS: u32 = 500;
const FRAMES: usize = 50;

/// `errors` of the statistics as users read them.
fn errors(statistics: &Statistics) -> Value {
    let text = statistics.json(&Serving::default());
    serde_json::from_str::<Value>(&text).unwrap()["errors"].clone()
}

/// Serves a load from a slow tier that cannot read these slots.
fn serve_without(load: Load, bad_slots: &[u64]) -> Parts<Kernel, TestDisk> {
    let disk = TestDisk::new(load.seed, load.slots, 6).failing_at(bad_slots);
    let (parts, control) = parts("hierarchical", load, FRAMES, disk, false);
    run(parts, &control)
}

#[test]
fn the_slot_of_a_failed_read_is_reported() {
    for (seed, slot) in (300..).zip([0, 1, 263, 499]) {
        let load = Load { expects_errors: true, ..Load::new(seed, SLOTS, 2000) };
        let parts = serve_without(load, &[slot]);
        let errors = errors(&parts.statistics);
        assert!(parts.carrier.errors > 0, "slot {slot} was never read");
        assert_eq!(errors["last_slow_slot"], slot, "{errors}");
        assert_eq!(errors["slow"], parts.statistics.errors_slow.get(), "{errors}");
        assert!(parts.statistics.errors_slow.get() > 0, "{errors}");
    }
    let parts = serve_without(Load::new(310, SLOTS, 2000), &[]);
    assert_eq!(errors(&parts.statistics).get("last_slow_slot"), None);
}

#[test]
fn the_slot_that_failed_last_is_reported() {
    let bad_slots = [20, 300];
    let mut seen = Vec::new();
    for seed in 320..332 {
        // One request at a time, which names at most one of the slots, so that their order is known.
        let load = Load { open: 1, expects_errors: true, ..Load::new(seed, SLOTS, 2000) };
        let parts = serve_without(load, &bad_slots);
        let last = parts.disk.last_bad.unwrap();
        assert_eq!(errors(&parts.statistics)["last_slow_slot"], last, "seed {seed}");
        seen.push(last);
    }
    assert!(bad_slots.iter().all(|slot| seen.contains(slot)), "{seen:?}");
}

/// Serves a load from disks of which some end nothing for a time: those of the slow tier, of the fast tier, or of both.
fn serve_through(stall: Duration, (is_slow, is_fast): (bool, bool), architecture: &str) {
    let load = Load::new(340, SLOTS, 2000);
    let slow = TestDisk::new(340, SLOTS, 6);
    let slow = if is_slow { slow.stalling(100, stall) } else { slow };
    let fast = is_fast.then(|| TestDisk::new(341, (FRAMES + SPARE) as u32, 6).stalling(100, stall));
    // The model of all content checks each answer, and refuses errors.
    let (parts, control) = parts_with(architecture, load, FRAMES, (slow, fast), true);
    let begun = Instant::now();
    let parts = run(parts, &control);
    let case = format!("{architecture} {is_slow} {is_fast}");
    assert!(begun.elapsed() >= stall, "{case}: no stall");
    assert_eq!(parts.carrier.errors, 0, "{case}");
    assert!(parts.carrier.slots_checked > load.requests, "{case}");
    let Statistics { errors_fast, errors_slow, errors_checksum, wait_fast, wait_slow, .. } =
        &*parts.statistics;
    assert_eq!(
        [errors_fast, errors_slow, errors_checksum].map(|count| count.get()),
        [0; 3],
        "{case}"
    );
    // A program waited for its page all the time; the histogram is exact to a sixteenth.
    let waits = [wait_fast, wait_slow].map(|waits| waits.quantile_ns(1.0).unwrap_or(0));
    let longest = waits.into_iter().max().unwrap();
    assert!(longest as f64 > stall.as_nanos() as f64 * 15.0 / 16.0, "{case}: {waits:?}");
}

#[test]
fn requests_wait_for_a_slow_tier_that_stalls() {
    for architecture in ["hierarchical", "adaptive"] {
        serve_through(Duration::from_secs(2), (true, false), architecture);
    }
}

#[test]
fn requests_wait_for_a_fast_tier_that_stalls() {
    serve_through(Duration::from_secs(2), (false, true), "hierarchical");
}

#[test]
#[ignore = "slow"]
fn requests_wait_for_disks_that_stall_for_ten_seconds() {
    std::thread::scope(|scope| {
        for architecture in ["hierarchical", "hybrid-clock", "adaptive"] {
            for stalling in [(true, false), (false, true), (true, true)] {
                scope.spawn(move || serve_through(Duration::from_secs(10), stalling, architecture));
            }
        }
    });
}
