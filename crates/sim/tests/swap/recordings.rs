//! The recordings of ten real programs: exact counts of flash-only, and the shares of its I/O time from
//! an independent replay (../shared/specs/S1-multi-swap.md, S1.8).

use crate::support::request;
use sim::swap::{Marks, Outcome, SimulateRequest, simulate_many};
use std::path::PathBuf;
use trace::import::ImportOptions;
use types::NoProgress;

const PAGES_PER_MIB: u64 = 256;

/// Results of one pass over a recording; none if the recordings are not available.
fn replay(recording: &str, requests: &[SimulateRequest]) -> Option<Vec<Outcome>> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/data/swap")
        .join(format!("{recording}.pgw.zst"));
    if !path.exists() {
        testkit::skipped(&format!("{} is not on this machine", path.display()));
        return None;
    }
    let mut source = trace::open(&path, &ImportOptions::default()).expect("the recording opens");
    let outcomes = simulate_many(&mut *source, requests, &Marks::None, &NoProgress);
    Some(outcomes.into_iter().map(|outcome| outcome.expect("the replay succeeds")).collect())
}

#[test]
#[ignore = "slow"]
fn flash_only_has_the_known_counts() {
    for (recording, reads, writes) in
        [("swap700", 744_837, 656_824), ("swap1400", 110_401, 219_788)]
    {
        let Some(outcomes) = replay(recording, &[request("flash", 0, "")]) else { return };
        assert_eq!((outcomes[0].slow.reads, outcomes[0].slow.writes), (reads, writes));
        let by_process: u64 =
            outcomes[0].processes.iter().map(|process| process.counts.slow_reads).sum();
        assert_eq!(by_process, reads, "{recording}");
    }
}

#[test]
#[ignore = "slow"]
fn shares_of_flash_only_equal_those_of_the_reference_replay() {
    let columns = [
        ("hierarchical", ""),
        ("hybrid", "entry_bit=0 flash_copy_on_promotion=keep"),
        ("hybrid", "entry_bit=0 flash_copy_on_promotion=free"),
        ("hybrid", "entry_bit=1 flash_copy_on_promotion=keep"),
        ("hybrid", "entry_bit=1 flash_copy_on_promotion=free"),
        // The reference replay orders by use rather than by request.
        ("nvm-cache", "admitted_time=now overwritten_time=now"),
        ("priority", ""),
    ];
    let rows: [(&str, u64, [f64; 7]); 8] = [
        ("swap700", 64, [1.07, 1.01, 1.12, 1.03, 1.22, 0.932, 0.975]),
        ("swap700", 128, [1.05, 0.99, 1.09, 1.01, 1.18, 0.845, 0.937]),
        ("swap700", 256, [0.92, 0.93, 1.00, 0.94, 1.06, 0.737, 0.861]),
        ("swap700", 512, [0.82, 0.65, 0.67, 0.63, 0.68, 0.70, 0.75]),
        ("swap700", 768, [0.49, 0.64, 0.64, 0.48, 0.49, 0.70, 0.59]),
        ("swap700", 1200, [0.16, 0.64, 0.64, 0.46, 0.46, 0.70, 0.23]),
        ("swap1400", 256, [0.83, 1.00, 1.00, 1.03, 1.13, 1.00, 0.73]),
        ("swap1400", 512, [0.35, 1.00, 1.00, 1.03, 1.03, 1.00, 0.50]),
    ];
    for recording in ["swap700", "swap1400"] {
        let mut requests = vec![request("flash", 0, "")];
        let mut expected = Vec::new();
        for (_, mib, shares) in rows.iter().filter(|(name, _, _)| *name == recording) {
            for ((architecture, options), share) in columns.iter().zip(shares) {
                requests.push(request(architecture, mib * PAGES_PER_MIB, options));
                expected.push((architecture, options, mib, *share));
            }
        }
        let Some(outcomes) = replay(recording, &requests) else { return };
        for (outcome, (architecture, options, mib, share)) in outcomes[1..].iter().zip(expected) {
            let found = outcome.io_time_s / outcomes[0].io_time_s;
            // The table has two digits, rounded from three, or three.
            let hundredths = share * 100.0;
            let has_two_digits = (hundredths - hundredths.round()).abs() < 1e-6;
            let tolerance = if has_two_digits { 0.005_6 } else { 0.000_6 };
            assert!(
                (found - share).abs() <= tolerance,
                "{recording} {architecture} {options} {mib} MiB: {found:.4}, not {share}"
            );
        }
    }
}

#[test]
#[ignore = "slow"]
fn adaptive_keeps_its_documented_results() {
    let sizes = [64, 256, 768].map(|mib| mib * PAGES_PER_MIB);
    let others = [
        ("hierarchical", ""),
        ("hierarchical", "eviction=clock"),
        ("hybrid", "entry_bit=0 flash_copy_on_promotion=keep"),
        ("hybrid", "entry_bit=1 flash_copy_on_promotion=keep"),
        ("nvm-cache", ""),
        ("priority", ""),
    ];
    let mut requests = Vec::new();
    for pages in sizes {
        requests.push(request("adaptive", pages, ""));
        requests.extend(others.map(|(name, options)| request(name, pages, options)));
    }
    for recording in ["swap700", "swap1400"] {
        let Some(outcomes) = replay(recording, &requests) else { return };
        for outcomes in outcomes.chunks(1 + others.len()) {
            let (adaptive, others) = outcomes.split_first().expect("a chunk is not empty");
            let best = others.iter().map(|other| other.io_time_s).fold(f64::INFINITY, f64::min);
            assert!(adaptive.io_time_s <= 1.01 * best, "{recording} {}", adaptive.fast_bytes);
            let hierarchical = others[0].fast.writes.min(others[1].fast.writes);
            assert!(adaptive.fast.writes <= hierarchical, "{recording} {}", adaptive.fast_bytes);
        }
    }
}
