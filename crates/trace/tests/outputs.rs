//! What an import leaves behind: a complete trace file, or nothing.

#![allow(clippy::unwrap_used, reason = "helpers of tests stop where tests do")]

use std::io::Write;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use trace::ErrorKind;
use trace::import::{ImportOptions, import};
use types::{Cancelled, NoProgress, Progress};

/// A folder with one recording in it.
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

/// Ten thousand requests, the last of them cut short.
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
    assert!(
        error.to_string().ends_with("a.lis:2: expected `START COUNT IGNORED NUMBER`"),
        "{error}"
    );
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
fn files_of_two_formats_are_not_mixed() {
    let (folder, input, output) = folder_with("ids", b"1\n2\n");
    let other = folder.path().join("a.lis");
    std::fs::write(&other, b"5 3 0 0\n").unwrap();
    let error =
        import(&[input, other], &output, &ImportOptions::default(), &NoProgress).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert!(error.to_string().contains("need one format"), "{error}");
}
