//! Imports real recordings and compares with counts that were obtained without this code. The recordings
//! are beside the repository, in ../shared/data; without them, these tests are skipped with a note.

#![allow(clippy::unwrap_used, reason = "helpers of tests stop where tests do")]

use std::path::{Path, PathBuf};

use trace::formats::Role;
use trace::import::{ImportOptions, ImportReport, import};
use trace::{Mapping, Source, TraceKind};
use types::{EventFlags, EventKind, Events, NoProgress};

fn data(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data").join(name);
    if !path.exists() {
        testkit::skipped(&format!("{} is not on this machine", path.display()));
        return None;
    }
    Some(path)
}

fn import_with(names: &[&str], options: &ImportOptions) -> Option<(ImportReport, Vec<Event>)> {
    let inputs = names.iter().map(|name| data(name)).collect::<Option<Vec<PathBuf>>>()?;
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("trace.parquet");
    let report = import(&inputs, &output, options, &NoProgress).unwrap();
    let stored = events_of(&mut *trace::open(&output, &ImportOptions::default()).unwrap());
    assert_eq!(stored.len() as u64, report.events);
    if let [input] = &inputs[..] {
        let mut direct = trace::open(input, options).unwrap();
        assert!(events_of(&mut *direct) == stored, "read directly and from the trace file");
        assert_eq!(direct.header().pages, report.pages);
    }
    Some((report, stored))
}

fn import_shared(name: &str) -> Option<(ImportReport, Vec<Event>)> {
    import_with(&[name], &ImportOptions::default())
}

type Event = (i64, EventKind, EventFlags, u32, u32);

fn events_of(source: &mut dyn Source) -> Vec<Event> {
    let (mut all, mut events) = (Vec::new(), Events::default());
    while source.next_batch(&mut events).unwrap() {
        for index in 0..events.len() {
            let event = events.get(index);
            let time_ns = events.time_ns.get(index).copied().unwrap_or(0);
            all.push((time_ns, event.kind, event.flags, event.page.0, event.process.0));
        }
    }
    all
}

fn count(events: &[Event], kind: EventKind) -> usize {
    events.iter().filter(|event| event.1 == kind).count()
}

/// Distinct pages of the accesses. Device traffic may have other pages.
fn accessed_pages(events: &[Event]) -> usize {
    let accesses = events.iter().filter(|event| event.1.is_access());
    accesses.map(|event| event.3).collect::<std::collections::BTreeSet<u32>>().len()
}

#[test]
#[ignore = "slow"]
fn swap_traces_have_the_known_counts() {
    for (name, outs, ins, pages) in [
        ("swap/swap700.pgw.zst", 656_824, 744_837, 401_929),
        ("swap/swap1400.pgw.zst", 219_788, 110_401, 219_800),
    ] {
        let Some((report, events)) = import_shared(name) else { return };
        assert_eq!(report.kind, Some(TraceKind::Swap));
        assert_eq!(count(&events, EventKind::SwapOut), outs, "{name}");
        assert_eq!(count(&events, EventKind::SwapIn), ins, "{name}");
        assert_eq!(accessed_pages(&events), pages, "{name}");
        assert_eq!(report.accesses, (outs + ins) as u64);
        assert!(count(&events, EventKind::DeviceRead) > 0);
    }
}

#[test]
fn a_phones_block_trace_is_split_into_pages() {
    let Some((report, _)) = import_shared("pixel6a/pubg_exec.csv.gz") else { return };
    assert_eq!((report.accesses, report.pages), (658_321, Some(525_367)));
    assert_eq!(report.rejected, 0);
    assert_eq!(report.format, "blockcsv");
}

#[test]
fn four_formats_of_one_trace_give_the_same_accesses() {
    let columns = [(Role::Time, "time"), (Role::Op, "op"), (Role::Size, "size"), (Role::Id, "lbn")];
    let columns = columns.map(|(role, name)| (role, name.to_owned())).to_vec();
    let objects = ImportOptions { mapping: Some(Mapping::Objects), ..ImportOptions::default() };
    let mut first: Option<Vec<u32>> = None;
    for (name, format, options) in [
        ("csv.gz", "blockcsv", ImportOptions { columns, ..objects.clone() }),
        ("txt", "ids", objects.clone()),
        ("oracleGeneral.bin", "oracle", objects.clone()),
        ("vscsi.gz", "vscsi", objects.clone()),
    ] {
        let name = format!("formats/cachetrace/cloudPhysicsIO.{name}");
        let Some((report, events)) = import_with(&[&name], &options) else { return };
        assert_eq!(report.format, format);
        assert_eq!((report.accesses, report.pages), (113_872, Some(48_974)), "{name}");
        let pages: Vec<u32> = events.iter().map(|event| event.3).collect();
        assert_eq!(first.get_or_insert_with(|| pages.clone()), &pages, "{name}");
    }
}

#[test]
fn per_cpu_files_are_merged_by_time() {
    let names: Vec<String> =
        (0..8).map(|cpu| format!("formats/blktrace/keks.blktrace.{cpu}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let Some((report, events)) = import_with(&names, &ImportOptions::default()) else { return };
    let seen = |name: &str| report.seen.get(name).copied();
    assert_eq!((seen("D"), seen("C")), (Some(1192), Some(1206)));
    assert!(events.is_sorted_by_key(|event| event.0));
    assert_eq!(report.sources.len(), 8);
    assert!(report.accesses > 0);
}

#[test]
#[ignore = "slow"]
fn the_same_run_as_ftrace_text_has_no_bad_line() {
    let Some((report, _)) = import_shared("swap/swap700.ftrace.zst") else { return };
    assert_eq!((report.rejected, report.seen["block_rq_issue"]), (0, 671_587));
    let accounted: u64 = report.skipped.values().sum();
    assert!(report.accesses > 4_000_000 && accounted < 671_587);
}

#[test]
fn recordings_without_block_events_import_empty_and_list_what_they_hold() {
    for (name, event, seen) in [
        ("lisa_trace.txt", "sched_switch", 1856),
        ("trappy_trace_filesystem.txt", "ext4_da_write_end", 18),
        ("trappy_trace_surfaceflinger.systrace.html", "sched_switch", 715),
        ("openharmony_bytrace_full.txt", "sched_switch", 0),
    ] {
        let Some((report, events)) = import_shared(&format!("formats/ftrace-text/{name}")) else {
            return;
        };
        assert!(events.is_empty(), "{name}");
        assert_eq!(report.rejected, 0, "{name}: {:?}", report.rejects);
        if seen > 0 {
            assert_eq!(report.seen[event], seen, "{name}");
        }
        assert!(!report.seen.is_empty());
    }
}
