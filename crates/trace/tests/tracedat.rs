//! The events of trace.dat files, compared with what `trace-cmd report` prints. Needs trace-cmd; a test
//! says why it skips. `PAGEWISE_TRACE_DAT` names another file to compare.

use std::path::Path;
use std::process::Command;

use trace::input::Input;
use trace::tracedat::{Event, FieldKind, TraceDat, Value};

/// Text of `trace-cmd`; `None` if it is not installed or fails.
fn trace_cmd(arguments: &[&str], file: &Path) -> Option<String> {
    let output = Command::new("trace-cmd").args(arguments).arg(file).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A value as `trace-cmd report -R` prints it.
fn printed(event: &Event<'_>) -> String {
    let mut text = String::new();
    for field in &event.format.fields {
        let value = match event.value(field) {
            Some(Value::Text(value)) => String::from_utf8_lossy(value).into_owned(),
            Some(Value::Bytes(bytes)) => {
                let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                format!("ARRAY[{}]", bytes.join(", "))
            }
            Some(Value::Unsigned(value)) if field.kind == FieldKind::Pointer => {
                format!("{value:#x}")
            }
            Some(Value::Unsigned(value)) if is_long(&field.type_name) => format!("{value:#x}"),
            Some(Value::Unsigned(value)) => value.to_string(),
            Some(Value::Signed(value)) if is_long(&field.type_name) && field.size == 4 => {
                format!("{:#x}", value as u32)
            }
            Some(Value::Signed(value)) => value.to_string(),
            None => "(cut)".to_owned(),
        };
        text.push_str(&format!(" {}={value}", field.name));
    }
    text
}

fn is_long(type_name: &str) -> bool {
    type_name.split(' ').any(|word| word == "long")
}

/// Task, CPU, time, event and fields of a line of the report, with single blanks.
fn line_of(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether two lines are equal but for the zeros or the `0x` that the print format of the event adds to a
/// number or leaves out.
fn is_same(ours: &str, theirs: &str) -> bool {
    let number = |word: &str| {
        let (name, value) = word.split_once('=')?;
        let digits = value.strip_prefix("0x").unwrap_or(value).trim_start_matches('0');
        Some((name.to_owned(), digits.to_owned()))
    };
    let mut pairs = ours.split(' ').zip(theirs.split(' '));
    let is_each = pairs.all(|(ours, theirs)| {
        ours == theirs || number(ours).is_some_and(|ours| Some(ours) == number(theirs))
    });
    is_each && ours.split(' ').count() == theirs.split(' ').count()
}

fn compare(path: &Path) -> Option<usize> {
    let report = trace_cmd(&["report", "-R", "-t", "-i"], path)?;
    let theirs: Vec<String> = report
        .lines()
        .filter(|line| !line.starts_with("cpus=") && !line.trim().is_empty())
        .map(line_of)
        .collect();
    let mut input = Input::open(path, false).expect("the file is there");
    let mut file = TraceDat::open(&mut input).expect("the file is valid");
    let mut ours = Vec::new();
    let comms: std::collections::HashMap<i32, String> = (0..1 << 22)
        .filter_map(|pid| Some((pid, String::from_utf8_lossy(file.comm(pid)?).into_owned())))
        .collect();
    while let Some(event) = file.next_event().expect("the file is valid") {
        let comm = match event.pid {
            0 => "<idle>",
            pid => comms.get(&pid).map_or("<...>", String::as_str),
        };
        let (seconds, rest) = (event.time_ns / 1_000_000_000, event.time_ns % 1_000_000_000);
        ours.push(line_of(&format!(
            "{comm}-{} [{:03}] {seconds}.{rest:09}: {}: {}",
            event.pid,
            event.cpu,
            event.format.name,
            printed(&event)
        )));
    }
    let pairs = ours.iter().zip(&theirs).enumerate();
    let different: Vec<_> = pairs.filter(|(_, (ours, theirs))| !is_same(ours, theirs)).collect();
    // The first of each kind of event.
    let mut kinds = std::collections::BTreeMap::new();
    for (index, (ours, theirs)) in &different {
        let kind = ours.split(": ").nth(1).unwrap_or_default();
        kinds.entry(kind).or_insert((index, ours, theirs));
    }
    assert!(different.is_empty(), "{} of {}: {kinds:#?}", different.len(), path.display());
    assert_eq!(ours.len(), theirs.len(), "events of {}", path.display());
    Some(ours.len())
}

#[test]
fn events_equal_those_of_trace_cmd_report() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let sample = root.join("shared/data/formats/trace-dat/trappy_trace_v6.dat");
    if let Ok(other) = std::env::var("PAGEWISE_TRACE_DAT") {
        let events = compare(Path::new(&other)).expect("trace-cmd reads the file");
        println!("{other}: {events} events are equal");
    }
    if !sample.exists() {
        testkit::skipped("the public sample of trace.dat is not on this machine");
        return;
    }
    let Some(events) = compare(&sample) else {
        testkit::skipped("trace-cmd is not installed");
        return;
    };
    assert_eq!(events, 525);
    // Version 7 of the same events, with and without compression.
    let folder = tempfile::tempdir().unwrap();
    for compression in ["none", "zstd"] {
        let converted = folder.path().join(compression);
        let sample = sample.display().to_string();
        let arguments =
            ["convert", "-i", &sample, "--file-version", "7", "--compression", compression, "-o"];
        if trace_cmd(&arguments, &converted).is_none() {
            testkit::skipped(&format!(
                "trace-cmd does not convert to version 7 with {compression}"
            ));
            continue;
        }
        assert_eq!(compare(&converted), Some(events), "{compression}");
    }
}
