//! Text of system traces on public samples and beside other programs. Samples are not part of the repository; a test
//! says why it skips.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use trace::system::{Event, Kind, OpenedSystem, SystemReader, Tally};

/// A public sample, if it is on this machine.
fn sample(name: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let path = root.join("shared/data/formats").join(name);
    if !path.exists() {
        testkit::skipped(&format!("the public sample {name} is not on this machine"));
        return None;
    }
    Some(path)
}

/// Every event of a file, the counts by name, and the number of bad lines.
fn read(path: &Path) -> (Vec<Event>, BTreeMap<String, u64>, u64) {
    let OpenedSystem { mut reader, .. } = trace::system::open(path).expect("a format reads it");
    let (mut events, mut tally) = (Vec::new(), Tally::default());
    while reader.read(&mut events, &mut tally).expect("the file can be read") {}
    (events, tally.events(), reader.rejects().0)
}

#[test]
fn samples_of_ftrace_text_have_their_known_counts() {
    for (name, known) in [
        ("ftrace-text/lisa_trace.txt", &[("sched_switch", 1856), ("sched_wakeup", 1068)][..]),
        (
            "ftrace-text/trappy_trace_surfaceflinger.systrace.html",
            &[("sched_switch", 715), ("sched_blocked_reason", 31)],
        ),
    ] {
        let Some(path) = sample(name) else { continue };
        let (events, counts, _) = read(&path);
        for &(event, count) in known {
            assert_eq!(counts.get(event), Some(&count), "{name}: {event}");
        }
        let switches = events.iter().filter(|event| matches!(event.kind, Kind::Switch(_))).count();
        assert_eq!(Some(&(switches as u64)), counts.get("sched_switch"), "{name}");
    }
}

/// Start, end and accesses of each region in the raw report of damo, in its order.
fn regions_of_damo(report: &str) -> Vec<(u64, u64, u32)> {
    let region = |line: &str| {
        let (range, rest) = line.split_once(" (")?;
        let (start, end) = range.split_once('-')?;
        let accesses = rest.split_once(')')?.1.split_whitespace().next()?.parse().ok()?;
        let address = |digits| u64::from_str_radix(digits, 16).ok();
        Some((address(start)?, address(end)?, accesses))
    };
    report.lines().filter_map(region).collect()
}

#[test]
fn regions_of_perf_script_equal_those_of_damo() {
    let Some(path) = sample("damon/damo_perf.data.script") else { return };
    let Some(report) = sample("damon/damo_expect_report-raw_perf_script") else { return };
    let (events, counts, rejected) = read(&path);
    assert_eq!((counts["damon_aggregated"], rejected), (10_260, 0));
    let ours: Vec<_> = events
        .iter()
        .filter_map(|event| match event.kind {
            Kind::Region { start, end, accesses, .. } => Some((start, end, accesses)),
            _ => None,
        })
        .collect();
    let theirs = regions_of_damo(&std::fs::read_to_string(report).unwrap());
    assert_eq!(theirs.len(), ours.len());
    assert!(ours == theirs, "regions differ from those of damo");
}

/// Compares the events of a trace.dat file with those of its text, which `trace-cmd report` prints with the fields as
/// numbers (`-R`) or as the kernel words them. False if trace-cmd is not installed.
fn compare_with_text(path: &Path, arguments: &[&str]) -> bool {
    let report = Command::new("trace-cmd").arg("report").args(arguments).arg(path).output();
    let Ok(report) = report else {
        testkit::skipped("trace-cmd is not installed");
        return false;
    };
    assert!(report.status.success(), "{}", String::from_utf8_lossy(&report.stderr));
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("trace.txt");
    std::fs::write(&text, report.stdout).unwrap();
    let (of_text, counts_of_text, _) = read(&text);
    let (of_file, counts_of_file, _) = read(path);
    assert!(!counts_of_file.is_empty(), "{} has no events", path.display());
    assert_eq!(counts_of_text, counts_of_file);
    let pairs = of_text.iter().zip(&of_file);
    let different: Vec<_> = pairs.filter(|(text, file)| text != file).collect();
    let first = different.first();
    assert!(different.is_empty(), "{} of {}: {first:#?}", different.len(), of_file.len());
    assert_eq!(of_text.len(), of_file.len());
    true
}

/// `PAGEWISE_TRACE_DAT` names another file to compare.
#[test]
fn text_of_trace_cmd_gives_the_events_of_its_file() {
    let others = std::env::var_os("PAGEWISE_TRACE_DAT").map(PathBuf::from);
    for path in others.into_iter().chain(sample("trace-dat/trappy_trace_v6.dat")) {
        if !(compare_with_text(&path, &["-R", "-t", "-i"])
            && compare_with_text(&path, &["-t", "-N"]))
        {
            return;
        }
    }
}

#[test]
fn a_public_log_of_android_has_its_kills() {
    let Some(path) = sample("phone-logs/loghub_Android_2k.log") else { return };
    let (events, counts, rejected) = read(&path);
    assert_eq!((counts.values().sum::<u64>(), rejected), (2000, 0));
    assert!(events.iter().any(|event| matches!(event.kind, Kind::Exit { tid: 12236, .. })));
    assert!(events.iter().any(|event| matches!(event.kind, Kind::Process { pid: 13003, .. })));
}
