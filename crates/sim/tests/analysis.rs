//! Analyses of real recordings against figures that were counted independently.

mod memory_source;

use memory_source::MemorySource;
use sim::analysis::{Analysis, analyze};
use std::path::Path;
use trace::TraceKind;
use trace::import::ImportOptions;
use types::{EventKind, NoProgress};

/// The analysis of a shared recording; none, with the reason printed, if it is not available.
fn shared(name: &str, top_processes: Option<usize>) -> Option<Analysis> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let path = root.join(name);
    if !path.exists() {
        testkit::skipped(&format!("{} is not on this machine", path.display()));
        return None;
    }
    let mut source = trace::open(&path, &ImportOptions::default()).expect("the recording opens");
    Some(analyze(&mut *source, top_processes, &NoProgress).expect("the recording is sound"))
}

fn rounded(share: f64) -> f64 {
    (share * 1000.0).round() / 1000.0
}

#[test]
#[ignore = "slow"]
fn swap700_has_its_known_figures() {
    let Some(analysis) = shared("swap/swap700.pgw.zst", Some(20)) else { return };
    assert_eq!(analysis.kind, TraceKind::Swap);
    assert_eq!((analysis.accesses, analysis.pages), (1_401_661, 401_929));
    assert_eq!(rounded(analysis.skew.top_share[2]), 0.284);
    let single = analysis.skew.single_access;
    assert_eq!((rounded(single.pages), rounded(single.accesses)), (0.391, 0.112));
    let single_out = analysis.single_out.unwrap();
    assert_eq!((rounded(single_out.pages), rounded(single_out.outs)), (0.757, 0.463));
    let swap = analysis.swap.as_ref().unwrap();
    assert_eq!((swap.outs, swap.ins), (656_824, 744_837));
    assert_eq!(rounded(swap.never_returned.outs), 0.32);
    assert_eq!(rounded(swap.never_returned.pages), 0.49);
    assert_eq!(analysis.writes, swap.outs);
    let faults = analysis.fault_time.as_ref().unwrap();
    let known = faults.device.count + faults.cached.count;
    assert!(known <= swap.ins && known * 100 > swap.ins * 99, "{known} of {} faults", swap.ins);
    let processes = analysis.processes.as_ref().unwrap();
    let sum: u64 = processes.iter().map(|process| process.accesses).sum();
    assert_eq!(sum, analysis.accesses);
    let rows = analysis.top_processes.as_ref().unwrap();
    assert_eq!((rows.len(), &rows[20].name[..]), (21, "others"));
    assert_eq!(rows.iter().map(|row| row.accesses).sum::<u64>(), analysis.accesses);
    let series = &analysis.traffic.as_ref().unwrap().series;
    let writes: u64 = series.iter().flat_map(|named| &named.writes).sum();
    let reads: u64 = series.iter().flat_map(|named| &named.reads).sum();
    assert_eq!((writes, reads), (swap.outs, swap.ins));
}

#[test]
fn swap1400_has_its_known_figures() {
    let Some(analysis) = shared("swap/swap1400.pgw.zst", None) else { return };
    assert_eq!((analysis.accesses, analysis.pages), (330_189, 219_800));
    assert_eq!(rounded(analysis.skew.top_share[2]), 0.133);
    let single = analysis.skew.single_access;
    assert_eq!((rounded(single.pages), rounded(single.accesses)), (0.498, 0.331));
    assert!(analysis.processes.is_none());
}

#[test]
fn pubg_has_its_known_figures() {
    let Some(analysis) = shared("pixel6a/pubg_exec.csv.gz", None) else { return };
    assert_eq!(analysis.kind, TraceKind::Block);
    assert_eq!((analysis.accesses, analysis.pages), (658_321, 525_367));
    assert_eq!((analysis.skew.top_share[2] * 100.0).round(), 20.0);
    assert_eq!((analysis.skew.single_access.pages * 100.0).round(), 79.0);
    assert!(analysis.swap.is_none() && analysis.top_10_percent_classes.is_none());
    let volume = analysis.volume.block.unwrap();
    assert_eq!(volume.top_10_percent_bytes + volume.rest_bytes, 658_321 * 4096);
    assert!(analysis.volume.swap.is_none());
}

#[test]
fn json_has_the_promised_names() {
    use EventKind::{SwapIn, SwapOut};
    let events = [(SwapOut, 0), (SwapIn, 0), (SwapOut, 1), (EventKind::Exit, 0)];
    let mut source = MemorySource::events(&events);
    let analysis = analyze(&mut source, Some(20), &NoProgress).unwrap();
    let json = serde_json::to_value(&analysis).unwrap();
    assert_eq!(json["schema"], "pagewise.analyze/1");
    assert_eq!(
        (&json["accesses"], &json["pages"], &json["writes"]),
        (&3.into(), &2.into(), &2.into())
    );
    for share in ["0.01", "0.05", "0.1", "0.25", "0.5"] {
        assert!(json["top_share"][share].is_f64(), "{share}");
    }
    assert_eq!(json["pages_for_80_percent"], 1.0);
    assert_eq!(json["single_access"]["pages"], 0.5);
    assert_eq!(json["single_out"]["outs"], 1.0);
    assert_eq!(json["miss_ratio_curve"][0], serde_json::json!([0, 1.0]));
    assert_eq!(json["reuse_distance"], serde_json::json!([[0, 1]]));
    // Events are a microsecond apart.
    let interval = json["reaccess_interval_ns"].as_array().unwrap().last().unwrap();
    assert_eq!(interval, &serde_json::json!([1023, 1]));
    assert_eq!(json["processes"][0]["accesses"], 3);
    assert!(json["fault_time"].is_null(), "the trace has no durations");
    assert!(json["top_10_percent_classes"]["anonymous"]["pages"].is_f64());
}

#[test]
fn an_empty_trace_has_zeros_and_no_error() {
    let mut source = MemorySource::accesses(&[], 10);
    let analysis = analyze(&mut source, Some(20), &NoProgress).unwrap();
    assert_eq!((analysis.accesses, analysis.pages), (0, 0));
    assert_eq!(analysis.skew.top_share, [0.0; 5]);
    assert!(analysis.skew_curve.is_empty() && analysis.miss_ratio_curve.is_empty());
    let json = serde_json::to_string(&analysis).unwrap();
    assert!(!json.contains("NaN"), "{json}");
}
