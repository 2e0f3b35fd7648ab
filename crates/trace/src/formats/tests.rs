//! The conformance test of the catalog, and helpers for the tests of each format.

use super::*;
use crate::ledger::Ledger;
use crate::record::{Record, Traits};

/// Every record of `bytes`, read as `format` with `options`.
pub fn read_with(
    format: &Format,
    bytes: &[u8],
    options: &ReadOptions,
) -> Result<(Vec<Record>, Ledger), Error> {
    let input = Input::from_bytes("sample", bytes.to_vec())?;
    let mut reader = (format.open)(input, options)?;
    let (mut records, mut ledger) = (Vec::new(), Ledger::new(false));
    while reader.read(&mut records, &mut ledger)? {}
    Ok((records, ledger))
}

/// Every record of `bytes`, read as `format` without options.
pub fn read_bytes(format: &Format, bytes: &[u8]) -> Result<(Vec<Record>, Ledger), Error> {
    read_with(format, bytes, &ReadOptions::default())
}

/// Every record of `text`, which `format` must accept.
pub fn read_text(format: &Format, text: &str) -> (Vec<Record>, Ledger) {
    read_bytes(format, text.as_bytes()).unwrap()
}

/// Inputs that must not make any format panic.
fn hostile() -> Vec<(&'static str, Vec<u8>)> {
    let noise: Vec<u8> =
        (0..100_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    vec![
        ("one byte", vec![b'x']),
        ("a zero", vec![0]),
        ("a newline", b"\n".to_vec()),
        ("carriage returns", b"\r\r\r\n\r".to_vec()),
        ("noise", noise),
        ("ones", vec![0xff; 4096]),
        ("zeros", vec![0; 4096]),
        ("dashes", vec![b'-'; 4096]),
        ("commas", vec![b','; 4096]),
        ("digits", vec![b'9'; 4096]),
        ("quotes", b"\"\"\"\",\"\n".repeat(100)),
        ("a very long line", vec![b' '; 3 << 20]),
    ]
}

/// A small recording per format, the first of its fuzzing seeds.
fn seed(format: &Format) -> Vec<u8> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    let path = folder.join(format.name).join("small");
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn names_are_unique_and_plain() {
    for (index, format) in CATALOG.iter().enumerate() {
        assert!(format.name.bytes().all(|byte| byte.is_ascii_lowercase()));
        assert!(CATALOG[..index].iter().all(|other| other.name != format.name));
        assert!(!format.summary.is_empty() && !format.summary.ends_with('.'));
    }
}

#[test]
fn every_format_is_documented() {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/formats.md");
    let text = std::fs::read_to_string(&page).unwrap();
    // Nothing writes this layout any more; the page describes it without its name.
    let is_named = |format: &&Format| format.name != "pgw";
    for format in CATALOG.iter().filter(is_named) {
        let row = format!("\n| `{}` | ", format.name);
        assert!(text.contains(&row), "docs/formats.md has no row for {}", format.name);
    }
}

#[test]
fn nothing_makes_a_reader_panic() {
    for format in CATALOG {
        for (what, bytes) in hostile() {
            let _ = (format.sniff)(&bytes);
            if let Err(error) = read_bytes(format, &bytes) {
                let text = error.to_string();
                let line = text.strip_prefix("sample:").and_then(|rest| rest.split_once(": "));
                let is_at_line = line.is_some_and(|(number, _)| number.parse::<u64>().is_ok());
                assert!(
                    is_at_line || text.starts_with("sample at byte "),
                    "{}, {what}: {text}",
                    format.name
                );
            }
        }
    }
}

#[test]
fn every_format_recognises_only_its_own_files() {
    for format in CATALOG {
        let mut input = Input::from_bytes("sample", seed(format)).unwrap();
        assert_eq!(recognise(&mut input).unwrap().name, format.name);
    }
}

#[test]
fn every_format_fills_the_ledger() {
    for format in CATALOG {
        let (records, ledger) = read_bytes(format, &seed(format)).unwrap();
        let seen: u64 = ledger.seen().iter().map(|(_, count)| count).sum();
        assert!(
            records.is_empty() != format.has_accesses && seen > 0,
            "{} counts no events, see Ledger::see, or has accesses against its row",
            format.name
        );
    }
}

#[test]
fn truncated_and_damaged_files_cause_no_panic() {
    for format in CATALOG {
        let whole = seed(format);
        let (records, _) = read_bytes(format, &whole).unwrap();
        assert_eq!(!records.is_empty(), format.has_accesses, "{}", format.name);
        for length in 1..whole.len().min(2000) {
            let _ = read_bytes(format, &whole[..length]);
        }
        for place in 0..whole.len().min(2000) {
            let mut spoilt = whole.clone();
            for value in [b'9', 0xff] {
                spoilt[place] = value;
                let _ = read_bytes(format, &spoilt);
            }
        }
    }
}

#[test]
fn crlf_and_a_missing_last_newline_give_the_same_records() {
    for format in CATALOG {
        let whole = seed(format);
        let Ok(text) = std::str::from_utf8(&whole) else { continue };
        if text.contains('\0') {
            continue;
        }
        let brief = |text: &str| -> Vec<(i64, u64, u64)> {
            let (records, _) = read_text(format, text);
            records.iter().map(|record| (record.time_ns, record.address, record.bytes)).collect()
        };
        let expected = brief(text);
        assert_eq!(brief(&text.replace('\n', "\r\n")), expected, "{}", format.name);
        assert_eq!(brief(text.trim_end_matches('\n')), expected, "{}", format.name);
    }
}

#[test]
fn traits_agree_with_records() {
    for format in CATALOG {
        let bytes = seed(format);
        let input = Input::from_bytes("sample", bytes.clone()).unwrap();
        let traits: Traits = (format.open)(input, &ReadOptions::default()).unwrap().traits();
        let (records, _) = read_bytes(format, &bytes).unwrap();
        assert!(traits.has_clock || records.iter().all(|record| record.time_ns == 0));
        assert!(traits.has_durations || records.iter().all(|record| record.duration_ns == 0));
    }
}

#[test]
fn archives_and_files_of_other_tools_get_a_hint() {
    let mut xz = Input::from_bytes("t.xz", b"\xfd7zXZrest\0\x01".to_vec()).unwrap();
    let error = recognise(&mut xz).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnknownFormat);
    assert!(error.to_string().contains("unpack it first"), "{error}");
    let mut noise = Input::from_bytes("n", vec![0x80, 0x01, 0x02, 0x00]).unwrap();
    assert!(recognise(&mut noise).unwrap_err().to_string().contains("blockcsv"));
    for (version, age) in [(1, "earlier"), (4, "newer")] {
        let file = [&b"pgwrec\x00"[..], &[version], &[0; 60]].concat();
        let error = recognise(&mut Input::from_bytes("r.pgr", file).unwrap()).unwrap_err();
        assert!(error.to_string().contains(age), "{error}");
    }
}
