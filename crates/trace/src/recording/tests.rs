use std::io::Write;

use proptest::prelude::*;

use super::*;
use crate::input::Input;

fn read(bytes: &[u8]) -> Result<Vec<Block>, crate::Error> {
    let mut input = Input::from_bytes("test.pgr", bytes)?;
    input.skip(MAGIC.len() as u64)?;
    let mut blocks = Vec::new();
    while let Some(block) = read_block(&mut input)? {
        blocks.push(block);
    }
    Ok(blocks)
}

fn write(records: &[Record]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &About::default()).unwrap();
    for &record in records {
        writer.push(record).unwrap();
    }
    writer.sample(&Sample { time_ns: 7, ..Sample::default() }).unwrap();
    writer.finish(Ending { lost: 3, ..Ending::default() }).unwrap()
}

/// Words that often are as before, as in real recordings.
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
            .filter_map(|block| match block { Block::Records(records) => Some(records), _ => None })
            .flatten()
            .copied()
            .collect();
        prop_assert_eq!(&read, &records);
        prop_assert!(matches!(blocks[0], Block::About(_)));
        let ending = Ending { recorded: records.len() as u64, lost: 3, ..Ending::default() };
        prop_assert_eq!(blocks.last(), Some(&Block::Ending(ending)));
    }

    #[test]
    fn damage_is_refused_or_leaves_whole_blocks(at in 0usize..400, value in any::<u8>()) {
        let mut bytes = write(&[Record::default(); 40]);
        let at = MAGIC.len() + at % (bytes.len() - MAGIC.len());
        bytes[at] = value;
        // Whatever it says, it must not panic and must not take more memory than a block has.
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
    for length in MAGIC.len() + 1..bytes.len() {
        let blocks = read(&bytes[..length]).unwrap();
        let kept = blocks.iter().filter(|block| !matches!(block, Block::CutShort(_))).count();
        assert_eq!(blocks[..kept], whole[..kept], "{length} bytes");
    }
}

#[test]
fn a_long_recording_has_many_blocks() {
    let records: Vec<Record> = (0..3 * RECORDS_MAX as u64)
        .map(|time_ns| Record { time_ns, ..Record::default() })
        .collect();
    let blocks = read(&write(&records)).unwrap();
    assert_eq!(blocks.iter().filter(|block| matches!(block, Block::Records(_))).count(), 3);
}

#[test]
fn a_hostile_length_is_refused() {
    let mut bytes = write(&[]);
    bytes.extend(2u32.to_le_bytes());
    bytes.extend(u32::MAX.to_le_bytes());
    bytes.extend(8u32.to_le_bytes());
    assert!(read(&bytes).unwrap_err().to_string().contains("at byte"));
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
