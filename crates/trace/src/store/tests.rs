use std::path::Path;

use proptest::prelude::*;
use types::{
    Cancelled, EventFlags, EventKind, Events, NoProgress, PAGE_BYTES, PageId, ProcessId, Progress,
};

use super::info::PROCESSES_TOLD;
use super::layout::ROW_GROUP_ROWS;
use super::{Reader, SCHEMA, Writer, info, join, save, slice};
use crate::recording::{About, Disk, Missing, System};
use crate::renumber::Renumber;
use crate::system::Contents;
use crate::{Error, ErrorKind, Header, Loss, Reject, Rows, Source, TraceKind, page_key, table};

fn header(kind: TraceKind, rows: &Rows, pages: Option<u32>) -> Header {
    Header {
        schema: SCHEMA,
        pagewise: "0.0.0".to_owned(),
        kind,
        format: "test".to_owned(),
        has_clock: !rows.events.time_ns.is_empty(),
        has_operations: true,
        has_sizes: !rows.bytes.is_empty(),
        has_durations: !rows.duration_ns.is_empty(),
        start_ns: 1_000,
        page_bytes: PAGE_BYTES,
        has_addresses: true,
        events: rows.len() as u64,
        pages,
        processes: (0..4).map(|pid| (pid, format!("app{pid}) Z ("))).collect(),
        devices: vec!["sda".to_owned()],
        files: Vec::new(),
        recorder: None,
        further_recorders: Vec::new(),
        shortage: None,
        system: Some(Contents { sessions: 1, ..Contents::default() }),
        recorded_ns: None,
        zeros: None,
        losses: vec![Loss { what: "torn lines".to_owned(), count: 3 }],
        rejects: vec![Reject {
            file: "torn".into(),
            line: 7,
            expected: "a number".into(),
            found: "seven".into(),
        }],
        disordered: 5,
        seen: vec![("request".to_owned(), 5)],
        sources: vec![("00".repeat(32), "swap.trace".to_owned())],
        part: None,
    }
}

/// Rows as in an import: pages numbered by first appearance, exits without a page.
fn rows_of(seeds: &[(u8, u8, u16, u8)], has_optional: bool) -> (Rows, u32) {
    let mut rows = Rows::default();
    let mut renumber = Renumber::unlimited();
    let mut numbers = Vec::new();
    for (index, &(kind, space, address, rest)) in seeds.iter().enumerate() {
        let kind = EventKind::ALL[usize::from(kind) % EventKind::ALL.len()];
        let (space, address) = (u32::from(space % 3), u64::from(address) << 30);
        let is_exit = kind == EventKind::Exit;
        let page = if is_exit {
            0
        } else {
            numbers.clear();
            renumber.number_batch(&[page_key(space, address)], &mut numbers).unwrap();
            numbers[0]
        };
        rows.events.kind.push(kind);
        rows.events.flags.push(EventFlags(rest & 15));
        rows.events.page.push(PageId(page));
        rows.events.process.push(ProcessId(u32::from(rest % 4)));
        rows.space.push(space);
        rows.address.push(address);
        if has_optional {
            rows.events.time_ns.push(index as i64 * 10);
            rows.bytes.push(u32::from(rest) * 16);
            rows.duration_ns.push(u64::MAX - u64::from(rest));
        }
    }
    (rows, renumber.len() as u32)
}

fn write(path: &Path, rows: &Rows, header: &Header, batch: usize) {
    let mut writer = Writer::create(path, false).unwrap();
    let mut start = 0;
    while start < rows.len() {
        let end = (start + batch).min(rows.len());
        writer.write(&part(rows, start..end)).unwrap();
        start = end;
    }
    writer.finish(header).unwrap();
}

fn part(rows: &Rows, range: std::ops::Range<usize>) -> Rows {
    fn cut<T: Clone>(values: &[T], range: &std::ops::Range<usize>) -> Vec<T> {
        values.get(range.clone()).map(<[T]>::to_vec).unwrap_or_default()
    }
    Rows {
        events: Events {
            time_ns: cut(&rows.events.time_ns, &range),
            kind: cut(&rows.events.kind, &range),
            flags: cut(&rows.events.flags, &range),
            page: cut(&rows.events.page, &range),
            process: cut(&rows.events.process, &range),
        },
        space: cut(&rows.space, &range),
        address: cut(&rows.address, &range),
        bytes: cut(&rows.bytes, &range),
        duration_ns: cut(&rows.duration_ns, &range),
    }
}

fn read_rows(path: &Path) -> Result<Rows, Error> {
    let mut reader = Reader::open(path)?;
    let (mut all, mut rows) = (Rows::default(), Rows::default());
    while reader.next_rows(&mut rows)? {
        all.events.time_ns.append(&mut rows.events.time_ns);
        all.events.kind.append(&mut rows.events.kind);
        all.events.flags.append(&mut rows.events.flags);
        all.events.page.append(&mut rows.events.page);
        all.events.process.append(&mut rows.events.process);
        all.space.append(&mut rows.space);
        all.address.append(&mut rows.address);
        all.bytes.append(&mut rows.bytes);
        all.duration_ns.append(&mut rows.duration_ns);
    }
    Ok(all)
}

fn read_events(path: &Path) -> Result<Events, Error> {
    let mut reader = Reader::open(path)?;
    let (mut all, mut events) = (Events::default(), Events::default());
    while reader.next_batch(&mut events)? {
        all.time_ns.append(&mut events.time_ns);
        all.kind.append(&mut events.kind);
        all.flags.append(&mut events.flags);
        all.page.append(&mut events.page);
        all.process.append(&mut events.process);
    }
    Ok(all)
}

fn read_accesses(path: &Path) -> Result<Vec<PageId>, Error> {
    let mut reader = Reader::open(path)?;
    let (mut all, mut pages) = (Vec::new(), Vec::new());
    while reader.next_accesses(&mut pages)? {
        all.append(&mut pages);
    }
    Ok(all)
}

fn accesses_of(events: &Events) -> Vec<PageId> {
    let pairs = events.page.iter().zip(&events.kind);
    pairs.filter(|(_, kind)| kind.is_access()).map(|(&page, _)| page).collect()
}

fn seeds(longest: usize) -> impl Strategy<Value = Vec<(u8, u8, u16, u8)>> {
    prop::collection::vec((any::<u8>(), any::<u8>(), 0u16..400, any::<u8>()), 0..longest)
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_written_trace_is_read_back(
        seeds in seeds(2000), has_optional: bool, batch in 1usize..700, is_objects: bool,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.parquet");
        let (rows, pages) = rows_of(&seeds, has_optional);
        let kind = if is_objects { TraceKind::Objects } else { TraceKind::Block };
        let header = header(kind, &rows, Some(pages));
        write(&path, &rows, &header, batch);
        prop_assert_eq!(Reader::open(&path).unwrap().header().clone(), header);
        let back = read_rows(&path).unwrap();
        prop_assert_eq!(format!("{back:?}"), format!("{rows:?}"));
        let events = read_events(&path).unwrap();
        prop_assert_eq!(format!("{events:?}"), format!("{:?}", rows.events));
        prop_assert_eq!(read_accesses(&path).unwrap(), accesses_of(&rows.events));
    }

    #[test]
    fn pages_without_numbers_are_numbered_while_reading(seeds in seeds(2000)) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.parquet");
        let (numbered, pages) = rows_of(&seeds, true);
        let mut raw = part(&numbered, 0..numbered.len());
        raw.events.page.clear();
        write(&path, &raw, &header(TraceKind::Swap, &raw, None), 500);
        prop_assert_eq!(&read_events(&path).unwrap().page, &numbered.events.page);
        prop_assert_eq!(&read_rows(&path).unwrap().events.page, &numbered.events.page);
        // Pages of accesses and of device traffic are numbered together.
        let accesses = accesses_of(&numbered.events);
        prop_assert!(accesses.iter().all(|page| page.0 < pages));
        prop_assert_eq!(read_accesses(&path).unwrap(), accesses);
    }

    #[test]
    fn a_slice_has_the_events_of_its_times(seeds in seeds(600), from in 0i64..3000, length in 1i64..6000) {
        // A trace without events has no times and is refused.
        prop_assume!(!seeds.is_empty());
        let folder = tempfile::tempdir().unwrap();
        let (whole, piece) = (folder.path().join("whole"), folder.path().join("piece"));
        let (rows, pages) = rows_of(&seeds, true);
        write(&whole, &rows, &header(TraceKind::Swap, &rows, Some(pages)), 100);
        let made = slice(&whole, from..from + length, &piece, false, &NoProgress).unwrap();
        // Row i has time 10 i.
        let first = ((from + 9) / 10).min(rows.len() as i64) as usize;
        let last = ((from + length + 9) / 10).min(rows.len() as i64) as usize;
        let (expected, expected_pages) = rows_of(&seeds[first..last], true);
        let back = read_rows(&piece).unwrap();
        prop_assert_eq!(format!("{back:?}"), format!("{expected:?}"));
        prop_assert_eq!(Reader::open(&piece).unwrap().header().clone(), made.clone());
        prop_assert_eq!((made.events, made.pages), (expected.len() as u64, Some(expected_pages)));
        let start_ns = if expected.is_empty() { 1_000 } else { 1_000 + first as i64 * 10 };
        prop_assert_eq!(made.start_ns, start_ns);
        prop_assert_eq!(made.sources[0].0.len(), 64);
        prop_assert_eq!(made.sources[0].1.clone(), format!("whole from {from} ns to {} ns", from + length));
    }

    #[test]
    fn joined_slices_have_the_events_of_their_times(
        seeds in seeds(600),
        cuts in prop::collection::vec((0i64..700, 1i64..500), 1..6),
        again in prop::option::of((0i64..700, 1i64..500)),
    ) {
        prop_assume!(!seeds.is_empty());
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let (rows, pages) = rows_of(&seeds, true);
        write(&path("whole"), &rows, &header(TraceKind::Swap, &rows, Some(pages)), 100);
        // Row i has time 10 i. A slice may be cut from a slice, whose times count from its first event.
        let mut is_kept = vec![false; rows.len()];
        let mut pieces = Vec::new();
        for (number, &(from, length)) in cuts.iter().enumerate() {
            let piece = path(&format!("piece {number}"));
            let (from, to) = (10 * from, 10 * (from + length));
            slice(&path("whole"), from..to, &piece, false, &NoProgress).unwrap();
            (is_kept.iter_mut().enumerate())
                .for_each(|(row, is)| *is |= (from..to).contains(&(10 * row as i64)));
            pieces.push(piece);
        }
        if let (Some((from, length)), 1) = (again, pieces.len()) {
            let piece = path("piece of a piece");
            let (from, to) = (10 * from, 10 * (from + length));
            slice(&pieces[0], from..to, &piece, false, &NoProgress).unwrap();
            let start = is_kept.iter().position(|&is| is).unwrap_or_default() as i64 * 10;
            (is_kept.iter_mut().enumerate())
                .for_each(|(row, is)| *is &= (start + from..start + to).contains(&(10 * row as i64)));
            pieces = vec![piece];
        }
        let joined = join(&pieces, &path("joined"), false, &NoProgress).unwrap();
        let mut kept = is_kept.iter();
        let mut seeds = seeds;
        seeds.retain(|_| *kept.next().unwrap());
        let (mut expected, expected_pages) = rows_of(&seeds, true);
        let times = is_kept.iter().enumerate().filter(|&(_, &is)| is);
        let times: Vec<i64> = times.map(|(row, _)| 10 * row as i64).collect();
        let first = times.first().copied().unwrap_or(0);
        expected.events.time_ns = times.iter().map(|time| time - first).collect();
        let back = read_rows(&path("joined")).unwrap();
        prop_assert_eq!(format!("{back:?}"), format!("{expected:?}"));
        prop_assert_eq!(joined.header.pages, Some(expected_pages));
        prop_assert_eq!(joined.header.events, expected.len() as u64);
        let accesses = accesses_of(&expected.events).len() as u64;
        prop_assert_eq!(joined.accesses, accesses);
        let of_pieces: usize = pieces.iter().map(|piece| read_rows(piece).unwrap().len()).sum();
        prop_assert_eq!(joined.repeated, (of_pieces - expected.len()) as u64);
        if !times.is_empty() {
            prop_assert_eq!(joined.header.start_ns, 1_000 + first);
        }
        // A joined trace is a slice too, and joining it with its own part adds nothing.
        let twice = [path("joined"), pieces[0].clone()];
        let same = join(&twice, &path("again"), false, &NoProgress).unwrap();
        prop_assert_eq!(&same.header.part, &joined.header.part);
        let back = read_rows(&path("again")).unwrap();
        prop_assert_eq!(format!("{back:?}"), format!("{expected:?}"));
    }

    #[test]
    fn damage_is_an_error_or_other_rows_but_never_a_panic(
        seeds in seeds(500), hits in prop::collection::vec((any::<usize>(), any::<u8>()), 1..8),
        cut in prop::option::of(any::<usize>()),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.parquet");
        let (rows, pages) = rows_of(&seeds, true);
        write(&path, &rows, &header(TraceKind::Block, &rows, Some(pages)), 500);
        let mut bytes = std::fs::read(&path).unwrap();
        for (place, value) in hits {
            let place = place % bytes.len();
            bytes[place] = value;
        }
        if let Some(length) = cut {
            bytes.truncate(length % bytes.len());
        }
        std::fs::write(&path, &bytes).unwrap();
        for result in [
            read_events(&path).map(|events| events.page),
            read_rows(&path).map(|rows| rows.events.page),
            read_accesses(&path),
        ] {
            match result {
                Ok(read) => {
                    let bound = Reader::open(&path).unwrap().header().pages.unwrap_or(u32::MAX);
                    prop_assert!(read.iter().all(|page| page.0 < bound.max(1)));
                }
                Err(error) => prop_assert!(error.to_string().contains("trace.parquet")),
            }
        }
    }
}

#[test]
fn row_groups_are_bounded_and_those_outside_a_range_are_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.parquet");
    let count = 2 * ROW_GROUP_ROWS + 1000;
    let seeds: Vec<_> = (0..count).map(|index| (7, 0, (index % 400) as u16, 0)).collect();
    let (rows, pages) = rows_of(&seeds, true);
    write(&path, &rows, &header(TraceKind::Block, &rows, Some(pages)), 10_000);
    assert_eq!(read_accesses(&path).unwrap(), rows.events.page);
    let mut reader = Reader::open(&path).unwrap();
    reader.skip_outside(rows.events.time_ns[count - 10]..i64::MAX);
    let (mut batch, mut read) = (Rows::default(), 0);
    while reader.next_rows(&mut batch).unwrap() {
        read += batch.len();
    }
    assert!((10..=ROW_GROUP_ROWS).contains(&read), "{read} rows were read for the last 10");
}

#[test]
fn an_existing_file_is_kept_unless_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.parquet");
    std::fs::write(&path, "precious").unwrap();
    let (rows, pages) = rows_of(&[(7, 0, 1, 0)], true);
    let header = header(TraceKind::Block, &rows, Some(pages));
    let refusal = Writer::create(&path, false).err().unwrap();
    assert_eq!(refusal.kind(), ErrorKind::Usage);
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    let mut writer = Writer::create(&path, true).unwrap();
    writer.write(&rows).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    writer.finish(&header).unwrap();
    assert_eq!(read_accesses(&path).unwrap(), rows.events.page);
    // A file that appears between start and end is not overwritten either.
    let late = folder.path().join("late.parquet");
    let writer = Writer::create(&late, false).unwrap();
    std::fs::write(&late, "precious").unwrap();
    assert_eq!(writer.finish(&header).unwrap_err().kind(), ErrorKind::Usage);
    assert_eq!(std::fs::read(&late).unwrap(), b"precious");
    assert_eq!(names_in(folder.path()).len(), 2);
}

#[test]
fn a_dropped_writer_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(&folder.path().join("trace.parquet"), false).unwrap();
    writer.write(&rows_of(&[(7, 0, 1, 0)], true).0).unwrap();
    drop(writer);
    assert!(names_in(folder.path()).is_empty());
    let missing = folder.path().join("no such folder").join("trace.parquet");
    assert_eq!(Writer::create(&missing, false).err().unwrap().kind(), ErrorKind::Io);
}

#[test]
fn foreign_files_and_newer_layouts_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let refusal = |path: &Path| Reader::open(path).err().unwrap();
    let foreign = folder.path().join("foreign.parquet");
    let values = table::Values::Integer(vec![Some(1)]);
    let columns = vec![table::Column { name: "page".to_owned(), values }];
    table::write(&foreign, &table::Table { columns, ..table::Table::default() }).unwrap();
    assert_eq!(refusal(&foreign).kind(), ErrorKind::UnknownFormat);
    assert!(
        refusal(&foreign).to_string().contains("import the recording"),
        "{}",
        refusal(&foreign)
    );
    let of_run = folder.path().join("visits.parquet");
    std::fs::copy(&foreign, &of_run).unwrap();
    let error = refusal(&of_run).to_string();
    assert!(error.contains("pagewise study launch FOLDER"), "{error}");
    let (rows, pages) = rows_of(&[(7, 0, 1, 0)], true);
    let newer = folder.path().join("newer.parquet");
    let header = Header { schema: SCHEMA + 1, ..header(TraceKind::Block, &rows, Some(pages)) };
    write(&newer, &rows, &header, 1);
    let error = refusal(&newer);
    assert_eq!(error.kind(), ErrorKind::UnknownFormat);
    assert!(error.to_string().contains("layout version 2"), "{error}");
    let text = folder.path().join("text");
    std::fs::write(&text, "not Parquet at all").unwrap();
    assert_eq!(refusal(&text).kind(), ErrorKind::Corrupt);
    assert_eq!(refusal(&folder.path().join("absent")).kind(), ErrorKind::Io);
}

#[test]
fn a_header_with_too_few_pages_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.parquet");
    let (rows, pages) = rows_of(&[(7, 0, 1, 0), (7, 0, 2, 0)], false);
    write(&path, &rows, &header(TraceKind::Block, &rows, Some(pages - 1)), 2);
    assert_eq!(read_accesses(&path).unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(read_events(&path).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn info_counts_events_and_lists_gaps() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.parquet");
    let (rows, pages) = rows_of(&[(7, 0, 1, 1), (8, 0, 2, 1), (7, 0, 1, 2)], true);
    write(&path, &rows, &header(TraceKind::Block, &rows, Some(pages)), 2);
    let info = info(&mut Reader::open(&path).unwrap(), &NoProgress).unwrap();
    assert_eq!(info.kinds, [("read", 2), ("write", 1)]);
    assert_eq!((info.accesses, info.writes), (3, Some(1)));
    assert_eq!(info.duration_s, Some(20e-9));
    let events: Vec<u64> = info.processes.iter().map(|process| process.events).collect();
    assert_eq!(events, [0, 2, 1, 0]);
    assert_eq!(info.absent, ["swap-outs and swap-ins"]);
    assert_eq!(info.ruled_out.len(), 1);
}

#[test]
fn sources_that_were_not_recorded_are_absent_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.parquet");
    let (rows, pages) = rows_of(&[(7, 0, 1, 1)], true);
    let missing = Missing { what: "files".to_owned(), why: "not asked for".to_owned() };
    let recorder = Some(About { absent: vec![missing], ..About::default() });
    let header = Header { recorder, ..header(TraceKind::Block, &rows, Some(pages)) };
    write(&path, &rows, &header, 2);
    let info = info(&mut Reader::open(&path).unwrap(), &NoProgress).unwrap();
    assert_eq!(info.absent, ["swap-outs and swap-ins", "files: not asked for"]);
    assert_eq!(info.ruled_out.len(), 1);
}

#[test]
fn a_slice_keeps_the_description_of_the_machine() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, piece) = (folder.path().join("whole"), folder.path().join("piece"));
    let root = Some(Disk { class: "emmc".to_owned(), ..Disk::default() });
    let system = Some(System { root, ..System::default() });
    let recorder = Some(About { system, ..About::default() });
    let (rows, pages) = rows_of(&[(7, 0, 1, 1)], true);
    let header = Header { recorder, ..header(TraceKind::Block, &rows, Some(pages)) };
    write(&whole, &rows, &header, 1);
    let cut = slice(&whole, 0..10, &piece, false, &NoProgress).unwrap();
    assert_eq!(cut.recorder, header.recorder);
    assert_eq!(Reader::open(&piece).unwrap().header().recorder, header.recorder);
}

#[test]
fn info_of_an_empty_trace_rules_out_every_analysis() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.parquet");
    let rows = Rows::default();
    write(&path, &rows, &header(TraceKind::Swap, &rows, Some(0)), 1);
    let info = info(&mut Reader::open(&path).unwrap(), &NoProgress).unwrap();
    assert_eq!((info.accesses, info.duration_s), (0, None));
    assert!(info.absent.contains(&"accesses".to_owned()));
    assert!(info.absent.contains(&"time".to_owned()));
}

#[test]
fn a_cancelled_slice_leaves_no_file() {
    struct Stop;
    impl Progress for Stop {
        fn advance(&self, _done: u64, _total: u64) -> Result<(), Cancelled> {
            Err(Cancelled)
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let (whole, piece) = (folder.path().join("whole"), folder.path().join("piece"));
    let (rows, pages) = rows_of(&[(7, 0, 1, 0)], true);
    write(&whole, &rows, &header(TraceKind::Block, &rows, Some(pages)), 1);
    let error = slice(&whole, 0..10, &piece, false, &Stop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    let error = slice(&whole, 10..10, &piece, false, &NoProgress).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    let link = folder.path().join("link");
    std::fs::hard_link(&whole, &link).unwrap();
    for itself in [&whole, &link] {
        let error = slice(&whole, 0..10, itself, true, &NoProgress).unwrap_err();
        assert!(error.to_string().contains("is an input as well: name another output"), "{error}");
    }
    std::fs::remove_file(link).unwrap();
    assert_eq!(names_in(folder.path()), ["whole"]);
    let recording = folder.path().join("a recording");
    std::fs::write(&recording, "pgwrec").unwrap();
    let error = slice(&recording, 0..10, &piece, false, &NoProgress).unwrap_err();
    assert!(error.to_string().contains("with pagewise import"), "{error}");
    assert!(!piece.exists());
}

#[test]
fn only_slices_of_one_trace_are_joined() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (rows, pages) = rows_of(&[(7, 0, 1, 0), (7, 0, 2, 0)], true);
    for (whole, pid) in [("first", 1), ("other", 2)] {
        let processes = [(pid, "")].into_iter().collect();
        let header = Header { processes, ..header(TraceKind::Block, &rows, Some(pages)) };
        write(&path(whole), &rows, &header, 2);
        slice(&path(whole), 0..20, &path(&format!("slice of {whole}")), false, &NoProgress)
            .unwrap();
    }
    let refused = |names: [&str; 2]| {
        let error = join(&names.map(path), &path("out"), false, &NoProgress).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
        error.to_string()
    };
    let error = refused(["slice of first", "slice of other"]);
    assert!(error.contains("slice of other: is a slice of another trace than"), "{error}");
    let error = refused(["slice of first", "first"]);
    assert!(error.contains("first: is not a slice"), "{error}");
    let mut names = names_in(folder.path());
    names.sort();
    assert_eq!(names, ["first", "other", "slice of first", "slice of other"]);
}

#[test]
fn impossible_times_cause_no_panic() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, piece) = (folder.path().join("whole"), folder.path().join("piece"));
    let (mut rows, pages) = rows_of(&[(7, 0, 1, 0), (7, 0, 2, 0)], true);
    rows.events.time_ns = vec![-5, i64::MAX - 1];
    let header = Header { start_ns: i64::MIN, ..header(TraceKind::Block, &rows, Some(pages)) };
    write(&whole, &rows, &header, 2);
    let info = info(&mut Reader::open(&whole).unwrap(), &NoProgress).unwrap();
    assert_eq!(info.duration_s, Some(i64::MAX as f64 / 1e9));
    let made = slice(&whole, i64::MIN..i64::MAX, &piece, false, &NoProgress).unwrap();
    assert_eq!(made.start_ns, i64::MIN);
    assert_eq!(read_rows(&piece).unwrap().events.time_ns, [0, i64::MAX]);
}

#[test]
fn only_regular_files_are_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("folder");
    std::fs::create_dir(&inside).unwrap();
    assert_eq!(Writer::create(&inside, true).err().unwrap().kind(), ErrorKind::Usage);
    assert!(inside.is_dir());
}

#[test]
fn a_saved_source_has_the_same_events() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("1"), folder.path().join("2"));
    let seeds: Vec<_> = (0..500u16).map(|n| (n as u8, (n / 3) as u8, n % 50, n as u8)).collect();
    let (rows, pages) = rows_of(&seeds, false);
    write(&first, &rows, &header(TraceKind::Swap, &rows, Some(pages)), 100);
    save(&mut Reader::open(&first).unwrap(), &second, &NoProgress).unwrap();
    let (expected, saved) = (read_events(&first).unwrap(), read_events(&second).unwrap());
    assert_eq!((expected.kind, expected.page), (saved.kind, saved.page));
    assert_eq!((expected.flags, expected.process), (saved.flags, saved.process));
    let headers = [&first, &second].map(|path| Reader::open(path).unwrap().header().clone());
    assert_eq!(Header { has_addresses: false, ..headers[0].clone() }, headers[1]);
}

#[test]
fn a_saved_source_has_page_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("1"), folder.path().join("2"));
    let seeds: Vec<_> = (0..500u16).map(|n| (n as u8, (n / 3) as u8, n % 50, n as u8)).collect();
    let (rows, pages) = rows_of(&seeds, false);
    write(&first, &rows, &header(TraceKind::Swap, &rows, None), 100);
    let saved = save(&mut Reader::open(&first).unwrap(), &second, &NoProgress).unwrap();
    assert_eq!(saved.pages, Some(pages));
    assert_eq!(*Reader::open(&second).unwrap().header(), saved);
    assert_eq!(read_events(&first).unwrap().page, read_events(&second).unwrap().page);
}

#[test]
fn info_lists_the_busiest_of_very_many_processes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.parquet");
    let (rows, pages) = rows_of(&[(7, 0, 1, 3), (8, 0, 2, 3), (7, 0, 1, 2)], true);
    let header = header(TraceKind::Block, &rows, Some(pages));
    let processes = (0..PROCESSES_TOLD as u32 + 9).map(|pid| (pid, "app")).collect();
    write(&path, &rows, &Header { processes, ..header }, 2);
    let info = info(&mut Reader::open(&path).unwrap(), &NoProgress).unwrap();
    assert_eq!(info.processes_all, PROCESSES_TOLD + 9);
    assert_eq!((info.processes.len(), info.header.processes.len()), (1 << 16, 1 << 16));
    assert_eq!(info.processes.iter().map(|process| process.events).sum::<u64>(), 3);
    assert!(info.processes.is_sorted_by_key(|process| process.pid));
}
