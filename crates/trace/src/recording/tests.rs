use std::io::Write;

use proptest::prelude::*;

use super::*;
use crate::input::Input;

const MAGIC_BYTES: usize = MAGIC.checked.len();

fn read(bytes: &[u8]) -> Result<Vec<RecordingBlock>, crate::Error> {
    let mut reader = Reader::new(Input::from_bytes("test.pgr", bytes)?)?.expect("a recording");
    let mut blocks = Vec::new();
    while let Some(block) = reader.read_block()? {
        blocks.push(block);
    }
    Ok(blocks)
}

/// The recording in the layout of the version before: heads without a checksum.
fn unchecked(bytes: &[u8]) -> Vec<u8> {
    let mut older = MAGIC.unchecked.to_vec();
    for block in blocks_of(bytes) {
        older.extend([&block[..12], &block[16..]].concat());
    }
    older
}

/// The bytes of each block.
fn blocks_of(bytes: &[u8]) -> Vec<&[u8]> {
    let (mut rest, mut blocks) = (&bytes[MAGIC_BYTES..], Vec::new());
    while !rest.is_empty() {
        let length = u32::from_le_bytes(rest[4..8].try_into().unwrap()) as usize;
        let (block, others) = rest.split_at(16 + length);
        blocks.push(block);
        rest = others;
    }
    blocks
}

fn write(records: &[Record]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &About::default()).unwrap();
    for &record in records {
        writer.push(record).unwrap();
    }
    writer.sample(&Sample { time_ns: 7, ..Sample::default() }).unwrap();
    writer.finish(Ending { lost: 3, ..Ending::default() }).unwrap()
}

/// Words that often repeat, as in real recordings.
fn word() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 1..4u64, any::<u64>()]
}

prop_compose! {
    fn any_record()(
        (time_ns, address, object) in (word(), word(), word()),
        (process, auxiliary, device) in (0..3u32, any::<u32>(), 0..2u32),
        (pages, kind, flags) in (0..2u16, 0..20u8, any::<u8>()),
    ) -> Record {
        Record { time_ns, address, object, process, auxiliary, device, pages, kind, flags }
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(records in prop::collection::vec(any_record(), 0..200)) {
        let blocks = read(&write(&records)).unwrap();
        let read: Vec<Record> = blocks
            .iter()
            .filter_map(|block| match block { RecordingBlock::Records(records) => Some(records), _ => None })
            .flatten()
            .copied()
            .collect();
        prop_assert_eq!(&read, &records);
        prop_assert!(matches!(blocks[0], RecordingBlock::About(_)));
        let ending = Ending { recorded: records.len() as u64, lost: 3, ..Ending::default() };
        prop_assert_eq!(blocks.last(), Some(&RecordingBlock::Ending(ending)));
    }

    #[test]
    fn damage_is_refused_or_leaves_whole_blocks(at in 0usize..400, value in any::<u8>()) {
        let mut bytes = write(&[Record::default(); 40]);
        let at = MAGIC_BYTES + at % (bytes.len() - MAGIC_BYTES);
        bytes[at] = value;
        // The result is arbitrary, but the call must not panic or take more memory than a block.
        let _ = read(&bytes);
    }
}

#[test]
fn a_block_of_records_is_laid_out_as_documented() {
    let out = Record {
        time_ns: 300,
        address: 7,
        object: 5,
        process: 2,
        pages: 1,
        kind: 1,
        ..Record::default()
    };
    let records = [
        out,
        Record { kind: 2, address: 0, process: 0, pages: 0, ..out },
        Record { time_ns: 299, address: 6, ..out },
        Record { flags: 3, auxiliary: 9, address: 6, object: 5, time_ns: 299, ..out },
    ];
    let mut packer = packing::Packer::default();
    records.iter().for_each(|&record| packer.push(record));
    let rows: [&[u8]; 5] = [
        &[4, 0, 0, 0],
        &[1, 0b0010_0110, 0x11, 88, 2, 1, 0, 0, 0, 0, 0, 2, 0, 0, 0, 14, 10],
        &[2, 0, 0xf0],
        &[1, 0b0001_0000, 0xf1, 1, 1],
        &[1, 0b0000_1001, 0xff, 3, 9, 0, 0, 0],
    ];
    assert_eq!(packer.bytes(), rows.concat());
    assert_eq!(packing::unpack(packer.bytes()).as_deref(), Some(&records[..]));
}

#[test]
fn every_truncation_keeps_the_whole_blocks_before_it() {
    let records: Vec<Record> =
        (0..100).map(|time_ns| Record { time_ns, ..Record::default() }).collect();
    let bytes = write(&records);
    let whole = read(&bytes).unwrap();
    for length in MAGIC_BYTES + 1..bytes.len() {
        let blocks = read(&bytes[..length]).unwrap();
        let kept =
            blocks.iter().filter(|block| !matches!(block, RecordingBlock::CutShort(_))).count();
        assert_eq!(blocks[..kept], whole[..kept], "{length} bytes");
    }
}

#[test]
fn a_long_recording_has_many_blocks() {
    let records: Vec<Record> = (0..3 * RECORDS_MAX as u64)
        .map(|time_ns| Record { time_ns, ..Record::default() })
        .collect();
    let blocks = read(&write(&records)).unwrap();
    assert_eq!(
        blocks.iter().filter(|block| matches!(block, RecordingBlock::Records(_))).count(),
        3
    );
}

#[test]
fn a_hostile_length_is_refused() {
    let mut bytes = unchecked(&write(&[]));
    bytes.extend(2u32.to_le_bytes());
    bytes.extend(u32::MAX.to_le_bytes());
    bytes.extend(8u32.to_le_bytes());
    assert!(read(&bytes).unwrap_err().to_string().contains("at byte"));
}

/// A recording with three blocks of records of the same length.
fn alike() -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &About::default()).unwrap();
    for time_ns in 1..4 {
        writer.push(Record { time_ns, ..Record::default() }).unwrap();
        writer.flush().unwrap();
    }
    writer.finish(Ending::default()).unwrap()
}

#[test]
fn missing_duplicated_and_moved_blocks_are_refused() {
    let bytes = alike();
    let blocks = blocks_of(&bytes);
    assert_eq!(blocks[1].len(), blocks[2].len());
    let joined = |order: &[usize]| {
        let chosen: Vec<&[u8]> = order.iter().map(|&place| blocks[place]).collect();
        read(&[&bytes[..MAGIC_BYTES], &chosen.concat()].concat())
    };
    assert_eq!(joined(&[0, 1, 2, 3, 4]).unwrap().len(), 5);
    for order in [&[0, 2, 3, 4][..], &[0, 1, 1, 2, 3, 4], &[0, 2, 1, 3, 4], &[0, 1, 2, 3, 4, 4]] {
        let error = joined(order).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Corrupt);
        let found = "the head of a block is damaged, or blocks before it are missing";
        assert!(error.to_string().contains(found), "{order:?}: {error}");
    }
    // A recording without its last blocks is cut.
    assert_eq!(joined(&[0, 1]).unwrap().len(), 2);
}

#[test]
fn recordings_of_the_version_before_are_read() {
    let older = unchecked(&alike());
    assert_eq!(read(&older).unwrap(), read(&alike()).unwrap());
    let kind_at = MAGIC_BYTES + blocks_of(&alike())[0].len() - size_of::<u32>();
    let mut spoilt = older;
    assert_eq!(spoilt[kind_at], BlockKind::Records as u8);
    spoilt[kind_at] ^= 64;
    let error = read(&spoilt).unwrap_err().to_string();
    assert!(error.contains("expected a block of a known kind, found 66"), "{error}");
}

#[test]
fn unknown_kinds_of_blocks_are_skipped() {
    let mut frames = crate::framing::FrameWriter::new(Vec::new(), &MAGIC).unwrap();
    frames.write_json(BlockKind::About as u32, &About::default()).unwrap();
    frames.write(66, b"later").unwrap();
    let blocks = read(&frames.finish().unwrap()).unwrap();
    assert_eq!(blocks[1..], [RecordingBlock::Unknown(66)]);
}

#[test]
fn zeros_after_the_last_block_are_a_cut() {
    let (bytes, zeros) = (alike(), vec![0; 5000]);
    let last = bytes.len() - blocks_of(&bytes)[4].len();
    for sound in [&bytes[..last], &unchecked(&bytes)] {
        let blocks = read(&[sound, &zeros].concat()).unwrap();
        assert_eq!(blocks.last(), Some(&RecordingBlock::CutShort(5000)));
        assert_eq!(blocks[..4], read(&bytes).unwrap()[..4]);
    }
}

#[test]
fn a_full_disk_is_reported() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    assert!(Writer::new(Full, &About::default()).is_err());
}
