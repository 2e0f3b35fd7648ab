use proptest::prelude::*;

use super::*;
use crate::formats::tests::{read_text, read_with};
use crate::lines::trimmed;

/// Lines with the columns of the phone's header, some of them damaged.
fn texts() -> impl Strategy<Value = String> {
    let field = prop_oneof![
        "[0-9]{1,17}",
        "[0-9]{1,6}\\.[0-9]{0,12}",
        "(R|w|WS|28|x|)",
        "[\"# a-c]{0,3}-[0-9]{1,3}",
        "[\"# a\r\n]{0,3}",
    ];
    let line = prop::collection::vec(field, 5..8).prop_map(|fields| fields.join(","));
    let usual = "[a-b]{1,2}-[0-9],8,(R|W),[0-9]{1,10},[0-9]{1,3},[0-9]{1,5}\\.[0-9]{1,9}\r?\n?";
    prop_oneof![usual, line]
}

#[test]
fn the_phone_header_is_known_by_name() {
    let text = "proces,device,rw_flag,sector,size,timestamp\r
<...>-21102,8388608,R,3104240,152,48746.442531\r
a-b-7,8388608,WS,81235104,16,48750.608267999996\r
a-b-7,8388608,x,81235104,16,48750.7\r
a-b-7,8388608,W,81235104,16\r
a-b-7,8388608,W,81235104,99999999,48750.8\r
";
    assert_eq!(sniff(text.as_bytes()), Confidence::Certain);
    let (records, ledger) = read_text(&FORMAT, text);
    let brief: Vec<_> = records
        .iter()
        .map(|record| (record.operation, record.address, record.bytes, record.time_ns))
        .collect();
    assert_eq!(
        brief,
        [
            (Operation::Read, 3_104_240, 152 * 512, 48_746_442_531_000),
            (Operation::Write, 81_235_104, 16 * 512, 48_750_608_268_000),
        ]
    );
    assert_eq!(ledger.processes().get(1).unwrap().name, "a-b");
    assert_eq!(ledger.devices(), ["8388608"]);
    let lines: Vec<u64> = ledger.rejects().1.iter().map(|reject| reject.line).collect();
    assert_eq!(lines, [4, 5, 6]);
}

#[test]
fn the_caller_names_columns() {
    let text = "version;time_us;op;size;lbn;name\n1;5;2a;512;99;\"a;b\"\n1;6;28;0;98;x\n";
    let columns = [(Role::Time, "time_us"), (Role::Op, "op"), (Role::Id, "Name")]
        .map(|(role, name)| (role, name.to_owned()));
    let options = ReadOptions { mapping: Some(Mapping::Objects), columns: columns.to_vec() };
    let (records, _) = read_with(&FORMAT, text.as_bytes(), &options).unwrap();
    assert_eq!(records[0].address, object_id(b"a;b"));
    assert_eq!((records[0].time_ns, records[0].operation), (5000, Operation::Write));
    let wrong = ReadOptions { mapping: None, columns: vec![(Role::Id, "nonesuch".to_owned())] };
    let error = read_with(&FORMAT, text.as_bytes(), &wrong).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert!(error.to_string().contains("its columns are version, time_us"), "{error}");
    for (role, name) in [(Role::Time, "op"), (Role::Op, "name")] {
        let columns = [columns.to_vec(), vec![(role, name.to_owned())]].concat();
        let twice = ReadOptions { mapping: None, columns };
        let error = read_with(&FORMAT, text.as_bytes(), &twice).unwrap_err();
        assert!(error.to_string().contains("a column has one role"), "{error}");
    }
}

#[test]
fn an_offset_in_bytes_is_an_address() {
    let text = "time,op,offset,size\n1,R,8192,4096\n2,W,1000,100\n3,R,x,1\n4,R, 512 ,0\n";
    assert_eq!(sniff(text.as_bytes()), Confidence::Likely);
    let (records, ledger) = read_text(&FORMAT, text);
    let found: Vec<_> = records.iter().map(|record| (record.address, record.bytes)).collect();
    assert_eq!(found, [(16, 4096), (1, 488 + 100), (1, 0)]);
    assert_eq!(ledger.rejects().1[0].expected, "a number of bytes as offset");
    // Where both stand, the sector is the address.
    let (records, _) = read_text(&FORMAT, "op,offset,sector\nR,8192,7\n");
    assert_eq!(records[0].address, 7);
}

proptest! {
    #[test]
    fn the_fast_path_reads_the_same_values(texts in prop::collection::vec(texts(), 1..4)) {
        let header = "proces,device,rw_flag,sector,size,timestamp";
        let parser = BlockCsv::new(Columns::by_name(header), Mapping::Block);
        let text = texts.concat();
        let Some((usual, rest)) = parser.take_values(text.as_bytes()) else { return Ok(()) };
        prop_assert!(rest.is_empty() || rest[0] == b'\n');
        let line = trimmed(&text.as_bytes()[..text.len() - rest.len()]);
        prop_assert!(!line.contains(&b'\n'));
        let fields = parser.layout.split(line).expect("a usual line has every field");
        prop_assert_eq!(parser.values(&fields).expect("a usual line is good"), usual);
    }
}

/// The processes and sectors of the records, and the refused lines.
fn brief(text: &str) -> (Vec<(String, u64)>, Vec<u64>) {
    let (records, ledger) = read_text(&FORMAT, text);
    let name = |record: &Record| {
        let process = ledger.processes().get(record.process.index()).unwrap();
        format!("{}-{}", process.name, process.pid)
    };
    let records = records.iter().map(|record| (name(record), record.address)).collect();
    (records, ledger.rejects().1.iter().map(|reject| reject.line).collect())
}

const PHONE: &str = "proces,device,rw_flag,sector,size,timestamp\n";

#[test]
fn comments_and_empty_lines_are_skipped_everywhere() {
    // A comment may look like a line of this file.
    let text = format!("# recorded\n\n{PHONE}#x-3,8,R,8,8,1\na-1,8,R,8,8,1\n#x-3,8,R,8,8,1\n \n");
    assert_eq!(sniff(text.as_bytes()), Confidence::Certain);
    assert_eq!(brief(&text), (vec![("a-1".to_owned(), 8)], vec![]));
    assert_eq!(brief("sector\n#5\n7\n").0, [("-0".to_owned(), 7)]);
    let error = read_with(&FORMAT, b"#\n\ntime\n1\n", &ReadOptions::default()).unwrap_err();
    assert!(error.to_string().contains(":3"), "{error}");
}

#[test]
fn tabs_and_semicolons_separate_as_commas_do() {
    for delimiter in ["\t", ";"] {
        let text = format!("{PHONE}a-1,8,R,16,8,1\n").replace(',', delimiter);
        assert_ne!(sniff(text.as_bytes()), Confidence::No);
        assert_eq!(brief(&text), (vec![("a-1".to_owned(), 16)], vec![]), "{delimiter:?}");
    }
    // An index without a name.
    assert_eq!(brief("\tpid\tlba\top\n0\t5\t9\tR\n").0, [("-5".to_owned(), 9)]);
}

#[test]
fn the_phone_header_is_known_in_quotes_and_capitals_too() {
    for header in [
        "\"proces\",\"device\",\"rw_flag\",\"sector\",\"size\",\"timestamp\"",
        "Proces, Device, RW_FLAG, Sector, Size, Timestamp",
    ] {
        let text = format!("{header}\n\"a-1\",8,R,16,8,1\n");
        assert_eq!(sniff(text.as_bytes()), Confidence::Certain);
        assert_eq!(read_text(&FORMAT, &text).0[0].bytes, 8 * SECTOR_BYTES, "{header}");
    }
}

#[test]
fn quotes_keep_delimiters_and_quotes() {
    let text = "\"a,b\",comm,lba,op\n1,\"x,8\"\"\",7,R\n1,\"x,8\",8,R\n1,x,9,R\n1,x,8,9,R\n";
    let records = [("x,8\"\"-0", 7), ("x,8-0", 8), ("x-0", 9)];
    let records = records.map(|(name, sector)| (name.to_owned(), sector)).to_vec();
    assert_eq!(brief(text), (records, vec![5]));
}

#[test]
fn fields_without_a_column_are_refused_unless_they_are_empty() {
    let text = "comm,lba,op\na,1,R\na,2,R,\na,3,R,, \na,4,R,x\na,5\n";
    let (records, refused) = brief(text);
    assert_eq!(records.iter().map(|record| record.1).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(refused, [5, 6]);
}

#[test]
fn blanks_surround_any_field() {
    let text = "op , device, time, lba ,size\nR , 8,0 , 2.5, 16 , 512\nR, 8,0, 2.5,16,512";
    let text = text.replace("8,0", "8:0");
    let (records, ledger) = read_text(&FORMAT, &text);
    let brief = |record: &Record| (record.time_ns, record.address, record.bytes, record.device);
    assert_eq!(records.iter().map(brief).collect::<Vec<_>>(), [(2_500_000_000, 16, 512, 0); 2]);
    assert_eq!(ledger.devices(), ["8:0"]);
}

#[test]
fn numbers_are_read_whole_or_refused() {
    let line = |sector: &str| format!("{PHONE}a-1,8,R,{sector},8,1\n");
    let sector = |text: &str| brief(&line(text)).0.first().map(|record| record.1);
    assert_eq!(sector("0007"), Some(7));
    assert_eq!(sector("000000000000000000000000000008"), Some(8));
    for bad in ["", "+7", "-7", "7.0", "0x7", "7 7", "7\0", "18446744073709551616"] {
        assert_eq!(sector(bad), None, "{bad:?}");
    }
    let zeros = "0".repeat(3 << 20);
    let long = format!("{PHONE}a-1,8,R,{zeros}7,8,1\na-1,8,R,9,8,1");
    let (records, refused) = brief(&long);
    assert_eq!((records.last().map(|record| record.1), refused), (Some(9), vec![2]));
}

#[test]
fn a_header_without_a_place_is_refused() {
    let error = read_with(&FORMAT, b"time,op\n1,R\n", &ReadOptions::default()).unwrap_err();
    assert!(error.to_string().contains("--map id=COLUMN"), "{error}");
    assert_eq!(sniff(b"time,op\n1,R\n"), Confidence::No);
    assert_eq!(sniff(b"time,lba,op\n1,2,R\n"), Confidence::Likely);
}
