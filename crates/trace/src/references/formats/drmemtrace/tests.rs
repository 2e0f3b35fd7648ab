//! Entries as drraw2trace writes them, made by hand.

use ReferenceKind::{Instruction, Read, Write};
use proptest::prelude::*;

use super::*;
use crate::ErrorKind;

/// An entry as bytes.
fn entry(kind: u16, size: u16, address: u64) -> Vec<u8> {
    [&kind.to_le_bytes()[..], &size.to_le_bytes(), &address.to_le_bytes()].concat()
}

/// A file of these entries between the header with the usual markers, and the footer.
fn file(entries: &[(u16, u16, u64)]) -> Vec<u8> {
    let begin = [
        (entry::HEADER, 0, 6),
        (entry::MARKER, marker::VERSION, 6),
        (entry::MARKER, marker::FILE_TYPE, 0x240),
        (entry::THREAD, 4, 71),
        (entry::PROCESS, 4, 70),
    ];
    let end = [(entry::THREAD_EXIT, 4, 71), (entry::FOOTER, 0, 0)];
    let all = begin.iter().chain(entries).chain(&end);
    all.flat_map(|&(kind, size, address)| entry(kind, size, address)).collect()
}

/// The references of a file as kind, address and size; what was lost, with counts; and the number of threads.
fn read(bytes: &[u8]) -> Result<Found, Error> {
    let mut reader = open(Input::from_bytes("sample", bytes)?)?;
    let (mut references, mut ledger) = (Vec::new(), Ledger::new(false));
    while reader.read(&mut references, &mut ledger)? {}
    let brief = |reference: Reference| (reference.kind, reference.address, reference.bytes);
    let losses = ledger.losses().into_iter().map(|loss| (loss.what, loss.count)).collect();
    Ok((references.into_iter().map(brief).collect(), losses, reader.threads()))
}

type Found = (Vec<(ReferenceKind, u64, u32)>, Vec<(String, u64)>, Option<u64>);

#[test]
fn loads_stores_and_fetches_keep_their_sizes_and_markers_are_none() {
    let bytes = file(&[
        (entry::MARKER, 2, 13_300_000_000_000_000),
        (entry::MARKER, 3, 5),
        (entry::ENCODING, 3, 0x00c3_8948),
        (entry::INSTRUCTION, 3, 0x40_1000),
        (entry::READ, 8, 0x7fff_0010),
        (entry::WRITE, 64, 0x7fff_0040),
        (entry::MARKER, 29, 0x40_2000),
        (entry::INSTRUCTION_LAST, 1, 0x40_1003),
        (entry::TAKEN_JUMP, 2, 0x40_2000),
        (entry::UNTAKEN_JUMP, 6, 0x40_2002),
        (entry::SYSENTER, 2, 0x40_2008),
    ]);
    let (references, losses, threads) = read(&bytes).unwrap();
    let expected = [
        (Instruction, 0x40_1000, 3),
        (Read, 0x7fff_0010, 8),
        (Write, 0x7fff_0040, 64),
        (Instruction, 0x40_1003, 1),
        (Instruction, 0x40_2000, 2),
        (Instruction, 0x40_2002, 6),
        (Instruction, 0x40_2008, 2),
    ];
    assert_eq!((references, losses, threads), (expected.to_vec(), vec![], Some(1)));
}

#[test]
fn bundles_follow_the_instruction_before_them() {
    let lengths = u64::from_le_bytes([2, 7, 1, 0, 0, 0, 0, 9]);
    let bytes = file(&[
        (entry::INSTRUCTION, 4, 0x1000),
        (entry::BUNDLE, 3, lengths),
        (entry::READ, 4, 0x9000),
        (entry::BUNDLE, 1, 5),
    ]);
    let (references, ..) = read(&bytes).unwrap();
    let expected = [
        (Instruction, 0x1000, 4),
        (Instruction, 0x1004, 2),
        (Instruction, 0x1006, 7),
        (Instruction, 0x100d, 1),
        (Read, 0x9000, 4),
        (Instruction, 0x100e, 5),
    ];
    assert_eq!(references, expected);
    // The header and its markers are 60 bytes.
    let error = read(&file(&[(entry::BUNDLE, 1, 5)])).unwrap_err().to_string();
    assert_eq!(
        error,
        "sample at byte 60: a bundle of instructions without an instruction before it"
    );
    let error = read(&file(&[(entry::INSTRUCTION, 4, 0), (entry::BUNDLE, 9, 5)])).unwrap_err();
    assert!(error.to_string().contains("byte 72: expected a bundle of at most 8"), "{error}");
}

#[test]
fn repeats_of_a_string_instruction_are_not_fetched_again() {
    let bytes = file(&[
        (entry::PERHAPS_FETCHED, 2, 0x1000),
        (entry::READ, 8, 0x5000),
        (entry::PERHAPS_FETCHED, 2, 0x1000),
        (entry::READ, 8, 0x5008),
        (entry::NOT_FETCHED, 2, 0x1000),
        (entry::READ, 8, 0x5010),
        (entry::PERHAPS_FETCHED, 2, 0x1002),
    ]);
    let (references, ..) = read(&bytes).unwrap();
    let fetched: Vec<_> = references.iter().filter(|found| found.0 == Instruction).collect();
    assert_eq!(fetched, [&(Instruction, 0x1000, 2), &(Instruction, 0x1002, 2)]);
    assert_eq!(references.len(), 5);
}

#[test]
fn threads_are_counted_and_what_is_not_the_programs_own_is_lost() {
    let bytes = file(&[
        (entry::READ, 8, 0x1),
        (entry::THREAD, 4, 72),
        (entry::READ, 8, 0x2),
        (entry::THREAD, 4, 71),
        (entry::PREFETCH, 1, 0x3),
        (entry::PREFETCH_OF_LEVEL_LAST, 1, 0x3),
        (entry::HARDWARE_PREFETCH, 1, 0x3),
        (entry::FLUSH_LAST, 1, 0x3),
        (entry::MARKER, marker::KERNEL_BEGIN, 1),
        (entry::INSTRUCTION, 4, 0xffff_8000_0000_0000),
        (entry::MARKER, marker::KERNEL_END, 1),
        (entry::MARKER, marker::WINDOW, 0),
        (entry::MARKER, marker::WINDOW, 1),
        (entry::PROCESS, 4, 90),
        (entry::WRITE, 8, 0x1),
        (entry::MARKER, marker::FILE_TYPE, 0x80),
    ]);
    let (references, losses, threads) = read(&bytes).unwrap();
    assert_eq!(references, [(Read, 1, 8), (Read, 2, 8)]);
    let mut expected =
        vec![(PREFETCHES, 4), (OF_KERNEL, 1), (WINDOWS, 1), (OF_OTHERS, 1), (FILTERED, 1)];
    expected.sort_unstable();
    let losses: Vec<(&str, u64)> = losses.iter().map(|(what, count)| (&**what, *count)).collect();
    assert_eq!((losses, threads), (expected, Some(2)));
}

#[test]
fn a_missing_footer_is_a_loss_and_other_damage_an_error() {
    let whole = file(&[(entry::READ, 8, 0x1)]);
    let entries = whole.len() / ENTRY_BYTES;
    let (_, losses, _) = read(&whole[..(entries - 1) * ENTRY_BYTES]).unwrap();
    assert_eq!(losses, [(CUT.to_owned(), 1)]);
    let error = read(&whole[..whole.len() - 3]).unwrap_err();
    assert!(error.to_string().contains("ends within a record: 9 bytes"), "{error}");
    let error = read(&file(&[(50, 0, 0)])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(
        error.to_string().contains("byte 60: expected an entry of type 0 to 49, found type 50")
    );
    let error = read(&entry(entry::READ, 8, 1)).unwrap_err().to_string();
    assert!(error.contains("byte 0: expected the header of a trace that drraw2trace wrote"));
    let error = read(&entry(entry::HEADER, 0, 7)).unwrap_err().to_string();
    assert!(error.ends_with("expected a version from 2 to 6, found 7"), "{error}");
    let after = [whole, entry(entry::READ, 8, 1)].concat();
    assert!(read(&after).unwrap_err().to_string().contains("expected the header"));
}

#[test]
fn files_that_follow_each_other_are_read_on() {
    let two = [file(&[(entry::READ, 8, 1)]), file(&[(entry::WRITE, 8, 2)])].concat();
    let (references, losses, _) = read(&two).unwrap();
    assert_eq!((references, losses), (vec![(Read, 1, 8), (Write, 2, 8)], vec![]));
}

#[test]
fn only_a_header_with_a_known_version_is_recognised() {
    assert_eq!(sniff(&file(&[])), Confidence::Certain);
    assert_eq!(sniff(&entry(entry::HEADER, 0, 4)), Confidence::Certain);
    assert_eq!(sniff(&entry(entry::HEADER, 0, 1)), Confidence::No);
    let other = [entry(entry::HEADER, 0, 4), entry(entry::READ, 8, 4)].concat();
    assert_eq!(sniff(&other), Confidence::No);
    assert_eq!(sniff(b"\x19"), Confidence::No);
}

proptest! {
    /// Any entries are read or refused, an entry gives at most a bundle of references, and what is read before
    /// damage does not depend on what follows.
    #[test]
    fn arbitrary_entries_are_read_or_refused(
        entries in proptest::collection::vec((0u16..52, 0u16..40, any::<u64>()), 0..60),
    ) {
        let whole = file(&entries);
        let mut reader = open(Input::from_bytes("sample", whole).unwrap()).unwrap();
        let (mut references, mut ledger) = (Vec::new(), Ledger::new(false));
        while let Ok(true) = reader.read(&mut references, &mut ledger) {}
        prop_assert!(references.len() <= BUNDLE_MAX * entries.len());
        let (mut before, mut ledger) = (Vec::new(), Ledger::new(false));
        let half = file(&entries[..entries.len() / 2]);
        let mut reader = open(Input::from_bytes("sample", half).unwrap()).unwrap();
        while let Ok(true) = reader.read(&mut before, &mut ledger) {}
        prop_assert_eq!(&references[..before.len()], &before[..]);
    }
}
