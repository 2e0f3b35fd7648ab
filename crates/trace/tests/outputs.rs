//! An import leaves a complete trace file, or nothing.

#![allow(clippy::unwrap_used, reason = "helpers of tests stop where tests do")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use trace::import::{ImportOptions, import};
use trace::{ErrorKind, Mapping, Role};
use types::{Cancelled, NoProgress, Progress};

/// A folder with a recording in it.
fn folder_with(name: &str, bytes: &[u8]) -> (TempDir, PathBuf, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join(name);
    std::fs::write(&input, bytes).unwrap();
    let output = folder.path().join("trace.parquet");
    (folder, input, output)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Ten thousand requests, of which the last is truncated.
fn torn_oracle() -> Vec<u8> {
    let record = |number: u64| {
        let mut record = 7u32.to_le_bytes().to_vec();
        record.extend(number.to_le_bytes());
        record.extend(512u32.to_le_bytes());
        record.extend((-1i64).to_le_bytes());
        record
    };
    let mut bytes: Vec<u8> = (0..10_000).flat_map(record).collect();
    bytes.truncate(bytes.len() - 5);
    bytes
}

#[test]
fn damaged_input_leaves_no_output() {
    let gzip = |bytes: &[u8]| {
        let level = flate2::Compression::fast();
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    };
    let cut = gzip(&b"7\n8\n9\n".repeat(100_000));
    for (bytes, kind) in [
        (torn_oracle(), ErrorKind::Corrupt),
        (cut[..cut.len() / 2].to_vec(), ErrorKind::Corrupt),
        (Vec::new(), ErrorKind::Corrupt),
        (vec![0x80, 0x81, 0, 1], ErrorKind::UnknownFormat),
    ] {
        let (folder, input, output) = folder_with("input", &bytes);
        let error = import(&[input], &output, &ImportOptions::default(), &NoProgress).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(" at byte "), "{error}");
        assert_eq!(names(folder.path()), ["input"]);
    }
}

#[test]
fn an_output_is_replaced_only_by_force_and_never_an_input() {
    let (folder, input, output) = folder_with("ids", b"1\n2\n");
    std::fs::write(&output, b"precious").unwrap();
    let inputs = [input.clone()];
    let plain = ImportOptions::default();
    assert_eq!(import(&inputs, &output, &plain, &NoProgress).unwrap_err().kind(), ErrorKind::Usage);
    assert_eq!(std::fs::read(&output).unwrap(), b"precious");
    let force = ImportOptions { force: true, ..ImportOptions::default() };
    assert_eq!(import(&inputs, &output, &force, &NoProgress).unwrap().accesses, 2);
    assert_eq!(import(&inputs, &input, &force, &NoProgress).unwrap_err().kind(), ErrorKind::Usage);
    assert_eq!(std::fs::read(&input).unwrap(), b"1\n2\n");
    assert_eq!(names(folder.path()).len(), 2);
}

#[test]
fn bad_lines_are_counted_or_refused() {
    let text = b"5 3 0 0\nnonsense\n7 1 0 2\n";
    let (folder, input, output) = folder_with("a.lis", text);
    let arc = ImportOptions { format: Some("arc".into()), ..ImportOptions::default() };
    let report = import(std::slice::from_ref(&input), &output, &arc, &NoProgress).unwrap();
    assert_eq!((report.accesses, report.pages, report.rejected), (4, Some(3), 1));
    assert_eq!((report.rejects[0].line, report.rejects[0].file.ends_with("a.lis")), (2, true));
    assert_eq!(report.losses[0].count, 1);
    let strict = ImportOptions { strict: true, force: true, ..arc };
    let error = import(&[input], &output, &strict, &NoProgress).unwrap_err();
    let message = "a.lis:2: expected `START COUNT IGNORED NUMBER`, found `nonsense`";
    assert!(error.to_string().ends_with(message), "{error}");
    assert_eq!(names(folder.path()).len(), 2);
}

#[test]
fn a_cancelled_import_leaves_no_output() {
    struct Stop;
    impl Progress for Stop {
        fn advance(&self, done: u64, total: u64) -> Result<(), Cancelled> {
            assert!(done > 0 && done <= total);
            Err(Cancelled)
        }
    }
    let (folder, input, output) = folder_with("ids", b"1\n2\n");
    let error = import(&[input], &output, &ImportOptions::default(), &Stop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    assert_eq!(names(folder.path()), ["ids"]);
}

#[test]
fn each_file_of_a_merge_is_read_at_its_own_stage() {
    let line = |event: &str, sector: u32| {
        format!("cat-7 [001] 1.00000{}: {event}: 8,0 R 4096 () {sector} + 8 [cat]\n", sector / 8)
    };
    let issued = [line("block_bio_queue", 8), line("block_rq_issue", 16)].concat();
    let queued = [line("block_bio_queue", 24), line("block_rq_complete", 32)].concat();
    let (folder, first, output) = folder_with("issued", issued.as_bytes());
    let second = folder.path().join("queued");
    std::fs::write(&second, queued).unwrap();
    let report = import(&[first, second], &output, &ImportOptions::default(), &NoProgress).unwrap();
    assert_eq!((report.accesses, report.pages), (2, Some(2)));
}

#[test]
fn text_after_a_byte_order_mark_is_recognised() {
    let csv = b"\xef\xbb\xbftime,lba,op\n1,2,R\n";
    let ftrace = b"\xef\xbb\xbf# tracer: nop\n";
    for (bytes, format) in
        [(&csv[..], "blockcsv"), (ftrace, "ftrace"), (b"\xef\xbb\xbf1\n2\n", "ids")]
    {
        let (_folder, input, output) = folder_with("input", bytes);
        let report = import(&[input], &output, &ImportOptions::default(), &NoProgress).unwrap();
        assert_eq!(report.format, format);
    }
}

#[test]
fn a_named_pipe_is_opened_once() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    if !made.is_ok_and(|status| status.success()) {
        testkit::skipped("this machine makes no named pipes");
        return;
    }
    let (sender, receiver) = std::sync::mpsc::channel();
    let writing = pipe.clone();
    std::thread::spawn(move || std::fs::write(writing, b"7\n8\n7\n"));
    // Use a separate thread: opening the pipe a second time would wait forever for a writer.
    std::thread::spawn(move || {
        let mut source = trace::open(&pipe, &ImportOptions::default()).unwrap();
        let mut pages = Vec::new();
        let has_some = source.next_accesses(&mut pages).unwrap();
        let numbers: Vec<u32> = pages.iter().map(|page| page.0).collect();
        sender.send((has_some, numbers)).unwrap();
    });
    let read = receiver.recv_timeout(Duration::from_secs(60)).expect("the pipe is opened once");
    assert_eq!(read, (true, vec![0, 1, 0]));
}

#[test]
fn the_trace_file_lists_its_bad_lines() {
    let (_folder, input, output) = folder_with("a.lis", b"5 3 0 0\nnonsense\n7 1 0 2\n");
    let arc = ImportOptions { format: Some("arc".into()), ..ImportOptions::default() };
    import(std::slice::from_ref(&input), &output, &arc, &NoProgress).unwrap();
    for (path, options) in [(&input, &arc), (&output, &ImportOptions::default())] {
        let mut source = trace::open(path, options).unwrap();
        while source.next_accesses(&mut Vec::new()).unwrap() {}
        let header = source.header();
        assert_eq!((header.losses[0].count, header.rejects[0].line), (1, 2), "{}", path.display());
    }
}

#[test]
fn options_that_say_how_to_read_a_recording_are_refused_for_a_trace_file() {
    let (_folder, input, output) = folder_with("ids", b"1\n2\n");
    import(&[input], &output, &ImportOptions::default(), &NoProgress).unwrap();
    let block = ImportOptions { mapping: Some(Mapping::Block), ..ImportOptions::default() };
    let column = vec![(Role::Id, "id".to_owned())];
    let map = ImportOptions { columns: column, format: Some("arc".into()), ..block.clone() };
    for (options, named) in [(block, "leave out --as,"), (map, "--format and --as and --map,")] {
        let errors = [
            trace::open(&output, &options).err().unwrap(),
            trace::open_any(&output, &options).err().unwrap(),
        ];
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::Usage);
            assert!(error.to_string().contains(named), "{error}");
        }
    }
}

#[test]
fn files_of_two_formats_are_not_mixed() {
    let (folder, input, output) = folder_with("ids", b"1\n2\n");
    let other = folder.path().join("a.lis");
    std::fs::write(&other, b"5 3 0 0\n").unwrap();
    let error =
        import(&[input, other], &output, &ImportOptions::default(), &NoProgress).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert!(error.to_string().contains("need one format"), "{error}");
}
