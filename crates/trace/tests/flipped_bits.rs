//! A flipped bit in a file of pagewise is an error or a reported loss, or changes nothing. Small files
//! are tested bit by bit, larger files at places all over them.

#![allow(clippy::unwrap_used, reason = "helpers of tests stop where tests do")]

use std::fmt::{Debug, Write};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use trace::import::{ImportOptions, import};
use trace::recording::{self, FileName, Record, Sample, flag, kind, moments};
use trace::references::{self, Filter, Origin, Reference, Stop};
use trace::table::{self, Table, Values};
use trace::{Error, ErrorKind, Mapping, Rows, Source, allocations, kills, store};
use types::{NoProgress, ReferenceKind};

/// What a reader returns for a file, and the losses that it reports.
type Answer = Result<(String, u64), Error>;

/// A way to read a file.
type Read = fn(&Path) -> Answer;

/// Largest file, in bits, of which every bit is flipped.
const BITS_MAX: usize = 40_000;

/// Number of bits flipped in a larger file.
const SAMPLE: usize = 300;

fn no_flip_passes(name: &str, bytes: &[u8], readers: &[Read]) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    std::fs::write(&path, bytes).unwrap();
    let file = File::options().write(true).open(&path).unwrap();
    let sound: Vec<(String, u64)> = readers.iter().map(|read| read(&path).unwrap()).collect();
    let (mut passed, bits) = (Vec::new(), bits_of(bytes.len()));
    for &bit in &bits {
        let (place, sound_byte) = (bit / 8, bytes[bit / 8]);
        file.write_all_at(&[sound_byte ^ 1 << (bit % 8)], place as u64).unwrap();
        for (read, (content, lost)) in readers.iter().zip(&sound) {
            let is_noticed = match read(&path) {
                Err(error) => {
                    matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::UnknownFormat)
                }
                Ok((found, found_lost)) => {
                    found_lost > *lost || (&found, &found_lost) == (content, lost)
                }
            };
            if !is_noticed {
                passed.push((place, bit % 8));
            }
        }
        file.write_all_at(&[sound_byte], place as u64).unwrap();
    }
    let count = passed.len();
    passed.truncate(5);
    assert!(
        count == 0,
        "{name}: {count} of {} flips pass, such as (byte, bit) {passed:?}",
        bits.len()
    );
}

/// All bits of `bytes` bytes, or a sample of them.
fn bits_of(bytes: usize) -> Vec<usize> {
    let bits = 8 * bytes;
    if bits <= BITS_MAX {
        return (0..bits).collect();
    }
    // A step of odd length reaches every bit of a byte in each part of the file.
    (0..SAMPLE).map(|number| number * ((bits / SAMPLE) | 1) % bits).collect()
}

fn text(part: &impl Debug) -> String {
    format!("{part:?}")
}

fn rows_of(source: &mut dyn Source) -> Answer {
    let (mut rows, mut content) = (Rows::default(), String::new());
    while source.next_rows(&mut rows)? {
        write!(content, "{rows:?}").unwrap();
    }
    let lost = source.header().losses.iter().map(|loss| loss.count).sum();
    Ok((content + &text(source.header()), lost))
}

fn swap(path: &Path) -> Answer {
    rows_of(&mut *trace::open(path, &ImportOptions::default())?)
}

fn blocks(path: &Path) -> Answer {
    let options = ImportOptions { mapping: Some(Mapping::Block), ..ImportOptions::default() };
    rows_of(&mut *trace::open(path, &options)?)
}

fn accesses(path: &Path) -> Answer {
    let mut source = trace::open(path, &ImportOptions::default())?;
    let (mut pages, mut content) = (Vec::new(), String::new());
    while source.next_accesses(&mut pages)? {
        write!(content, "{pages:?}").unwrap();
    }
    Ok((content, 0))
}

fn snapshots(path: &Path) -> Answer {
    let mut content = String::new();
    let (about, is_cut) = moments::walk(path, &NoProgress, &mut |found| {
        write!(content, "{found:?}").unwrap();
    })?;
    Ok((content + &text(&about), is_cut.into()))
}

fn history(path: &Path) -> Answer {
    let history = allocations::read(path, &NoProgress)?;
    let lost = history.losses.iter().map(|loss| loss.count).sum();
    Ok((text(&history), lost))
}

fn anatomy(path: &Path) -> Answer {
    let outcome = kills::read(path)?;
    Ok((text(&outcome), outcome.lost + u64::from(outcome.is_cut)))
}

fn steps(path: &Path) -> Answer {
    let mut reader = references::Reader::open(path)?;
    let (mut batch, mut sum) = (Vec::new(), 0u64);
    while reader.next_steps(&mut batch)? {
        for step in &batch {
            for word in [step.references, step.kind as u64, step.block] {
                sum = sum.wrapping_mul(31).wrapping_add(word);
            }
        }
    }
    let content = text(&(reader.origin(), reader.totals(), reader.ending(), sum));
    Ok((content, reader.ending().is_none().into()))
}

fn cells(path: &Path) -> Answer {
    Ok((text(&table::read(path)?), 0))
}

fn ours(path: &str) -> Vec<u8> {
    std::fs::read(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap()
}

/// The file as an earlier pagewise wrote it: no block has a checksum of its head.
fn without_checked_heads(newer: &[u8]) -> Vec<u8> {
    let (magic, mut rest) = newer.split_at(8);
    let mut older = [&magic[..7], &[magic[7] - 1]].concat();
    while !rest.is_empty() {
        let length = u32::from_le_bytes(rest[4..8].try_into().unwrap()) as usize;
        let (block, others) = rest.split_at(16 + length);
        older.extend([&block[..12], &block[16..]].concat());
        rest = others;
    }
    older
}

/// Checks that both versions of a recording give the same answer, and that no flip passes in either.
fn both_versions(path: &str, readers: &[Read]) {
    let newer = ours(path);
    let older = without_checked_heads(&newer);
    let folder = tempfile::tempdir().unwrap();
    let answer = |bytes: &[u8]| {
        let path = folder.path().join("file");
        std::fs::write(&path, bytes).unwrap();
        let found: Vec<_> = readers.iter().map(|read| read(&path).unwrap()).collect();
        found
    };
    assert_eq!(answer(&older), answer(&newer), "{path}");
    no_flip_passes(path, &newer, readers);
    no_flip_passes(&format!("{path}, heads not checked"), &older, readers);
}

/// A recording with a block of each kind.
fn recording() -> Vec<u8> {
    let about = recording::About {
        sources: ["swap", "files", "block", moments::SOURCE].map(str::to_owned).to_vec(),
        ..recording::About::default()
    };
    let mut writer = recording::Writer::new(Vec::new(), &about).unwrap();
    let name = FileName { device: 1 << 20, inode: 7, path: "/usr/lib/libc.so.6".to_owned() };
    writer.name_files(&[name]).unwrap();
    let page = Record { process: 9, device: 1 << 20, pages: 1, ..Record::default() };
    for number in 0..40 {
        let (address, object) = (number % 7, (number % 5) << 8);
        let kind = [kind::PAGE_OUT, kind::SWAP_WRITE, kind::SWAP_READ, kind::SWAP_IN, kind::BLOCK]
            [number as usize % 5];
        let object = if kind == kind::BLOCK { 8192 } else { object };
        writer.push(Record { time_ns: 10 * number, address, object, kind, ..page }).unwrap();
    }
    writer.push(Record { kind: kind::FILE_ADDED, address: 5, object: 7, ..page }).unwrap();
    writer.push(Record { kind: kind::KILL, flags: flag::OOM_KILL, ..page }).unwrap();
    let process = moments::ProcessState { process: 9, resident: 4096, ..Default::default() };
    let moment = moments::Moment { time_ns: 400, processes: vec![process], ..Default::default() };
    writer.moment(&moment).unwrap();
    writer.sample(&Sample { time_ns: 500, ..Sample::default() }).unwrap();
    writer.finish(recording::Ending::default()).unwrap()
}

#[test]
#[ignore = "slow"]
fn no_flip_passes_in_a_recording() {
    no_flip_passes("recording", &recording(), &[swap, blocks, snapshots]);
}

#[test]
#[ignore = "slow"]
fn no_flip_passes_in_recordings_of_kills() {
    both_versions("examples/kills/grow.pgr", &[snapshots]);
}

#[test]
#[ignore = "slow"]
fn no_flip_passes_in_recordings_of_allocations() {
    both_versions("examples/allocations/photo.pgr", &[history]);
    both_versions("examples/allocations/arrays.pgr", &[history]);
}

#[test]
#[ignore = "slow"]
fn no_flip_passes_in_recordings_of_killtrace() {
    both_versions("tests/golden/kills-6.1.pgk", &[anatomy]);
}

#[test]
#[ignore = "slow"]
fn no_flip_passes_in_a_trace_of_references() {
    let command = ["convert", "a.jpg"].map(str::to_owned).to_vec();
    for count in [100, 100_000u64] {
        let (mut filter, mut steps) = (Filter::new(), Vec::new());
        for number in 0..count {
            let kind = ReferenceKind::ALL[number as usize % 3];
            let address = number * number % 9973 * 64;
            filter.refer(Reference { kind, address, bytes: 8 }, &mut steps);
        }
        let origin = Origin::new("capture", command.clone());
        let mut writer = references::Writer::new(Vec::new(), &origin).unwrap();
        writer.write(&steps, filter.totals()).unwrap();
        let ending = references::Ending::new(filter.totals(), Stop::End, None).with_status(0);
        no_flip_passes("references", &writer.finish(&ending).unwrap(), &[self::steps]);
    }
}

#[test]
#[ignore = "slow"]
fn no_flip_passes_in_a_trace_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("recording"), recording()).unwrap();
    let ids: String = (0..70_000u64).map(|id| format!("{}\n", id * id % 4999)).collect();
    std::fs::write(path("ids"), ids).unwrap();
    for input in ["recording", "ids"] {
        let trace = path(&format!("{input}.parquet"));
        import(&[path(input)], &trace, &ImportOptions::default(), &NoProgress).unwrap();
        no_flip_passes(input, &std::fs::read(trace).unwrap(), &[swap, accesses]);
    }
}

#[test]
fn no_flip_passes_in_a_table() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table");
    let column = |name: &str, values| table::Column { name: name.to_owned(), values };
    let columns = vec![
        column("key", Values::Text(vec![Some("a".to_owned()), None, Some("b".repeat(200))])),
        column("reads", Values::Integer(vec![Some(i64::MAX), Some(0), Some(1)])),
        column("io_time_s", Values::Number(vec![Some(0.1), None, Some(0.2)])),
        column("holds", Values::Flag(vec![None, Some(true), Some(false)])),
    ];
    let metadata = vec![("schema".to_owned(), "pagewise.sweep/1".to_owned())];
    table::write(&path, &Table { metadata, columns }).unwrap();
    no_flip_passes("table", &std::fs::read(path).unwrap(), &[cells]);
}

#[test]
fn files_of_an_earlier_pagewise_are_read() {
    // A trace without its seal equals that of an earlier pagewise.
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("ids"), "1\n2\n1\n").unwrap();
    import(&[path("ids")], &path("new"), &ImportOptions::default(), &NoProgress).unwrap();
    let sealed = std::fs::read(path("new")).unwrap();
    let seal = sealed.windows(8).position(|bytes| bytes == b"pgwcheck").unwrap();
    let pieces = u32::from_le_bytes(sealed[seal - 4..seal].try_into().unwrap()) as usize;
    let unsealed = [&sealed[..seal - 8 - 8 * pieces], &sealed[seal + 8..]].concat();
    std::fs::write(path("old"), unsealed).unwrap();
    assert_eq!(swap(&path("old")).unwrap(), swap(&path("new")).unwrap());
    assert!(store::Reader::open(&path("old")).is_ok());
}
