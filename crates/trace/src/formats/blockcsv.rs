//! `blockcsv`: delimited text with a header line that names the columns. What a column holds
//! follows from its name, or from what the caller says. The header of the Pixel 6a traces
//! (MobileBlockIOTraces) is known: its sizes are sectors, though the name alone says bytes.

use types::ProcessId;

use super::csv_columns::{COLUMNS_MAX, Columns, take_field};
use super::ids::object_id;
use super::requests::{
    EXPECTED_LENGTH, REQUEST_BYTES_MAX, SECTOR_BYTES, operation_of_word, sectors_to_bytes,
};
use super::{Confidence, Format, ReadOptions, Role, head_lines};
use crate::input::Input;
use crate::ledger::Ledger;
use crate::lines::{Expected, LineParser, Lines, TextReader, after_line, is_passed_over};
use crate::record::{AddressUnit, Mapping, Operation, Record, RecordReader, Traits};
use crate::text::{decimal, take_decimal, take_time, time};
use crate::{Error, ErrorKind, Position};

/// The row of this format.
pub const FORMAT: Format = Format {
    name: "blockcsv",
    summary: "CSV with a header line: block requests or object accesses",
    has_columns: true,
    has_parts: false,
    sniff,
    open,
};

fn sniff(head: &[u8]) -> Confidence {
    let line = head_lines(head, 1).first().copied().unwrap_or_default();
    let Ok(line) = std::str::from_utf8(line) else { return Confidence::No };
    if Columns::are_known(line) {
        return Confidence::Certain;
    }
    let columns = Columns::by_name(line);
    let has_place = columns.has(Role::Sector) || columns.has(Role::Id);
    let has_more = columns.has(Role::Op) || columns.has(Role::Time) || columns.has(Role::Size);
    Confidence::Likely.when(has_place && has_more)
}

fn open(input: Input, options: &ReadOptions) -> Result<Box<dyn RecordReader>, Error> {
    let mut lines = Lines::new(input);
    let header = String::from_utf8_lossy(&lines.header()?).into_owned();
    let columns = Columns::choose(&header, &options.columns)
        .and_then(|columns| columns.check(options.mapping).map(|mapping| (columns, mapping)));
    let (columns, mapping) = columns.map_err(|message| {
        Error::new(ErrorKind::Usage, lines.input().path(), message)
            .at(Position::Line(lines.count()))
    })?;
    Ok(Box::new(TextReader::new(lines, BlockCsv::new(columns, mapping))))
}

/// The columns as lines are split by them.
struct Layout {
    delimiter: u8,
    roles: Vec<Option<Role>>,
    time_unit_ns: u64,
    /// What is read of each column.
    steps: Vec<Step>,
    /// Whether an id is the address, and not the sector.
    is_by_id: bool,
    /// Which roles have a column.
    has: [bool; Role::ALL.len()],
}

/// What is read of a column.
#[derive(Clone, Copy)]
enum Step {
    Time,
    Operation,
    Id,
    Sector,
    /// Sectors or bytes.
    Length,
    Process,
    Device,
    Other,
}

impl Layout {
    fn new(columns: Columns, mapping: Mapping) -> Layout {
        let is_by_id = mapping == Mapping::Objects && columns.has(Role::Id);
        let step = |role: &Option<Role>| match role {
            Some(Role::Time) => Step::Time,
            Some(Role::Op) => Step::Operation,
            Some(Role::Id) if is_by_id => Step::Id,
            Some(Role::Sector) if !is_by_id => Step::Sector,
            Some(Role::Sectors) => Step::Length,
            Some(Role::Size) if !columns.has(Role::Sectors) => Step::Length,
            Some(Role::Process) => Step::Process,
            Some(Role::Device) => Step::Device,
            _ => Step::Other,
        };
        Layout {
            delimiter: columns.delimiter,
            time_unit_ns: columns.time_unit_ns,
            steps: columns.roles.iter().map(step).collect(),
            is_by_id,
            has: Role::ALL.map(|(_, role)| columns.has(role)),
            roles: columns.roles,
        }
    }

    #[inline]
    fn has(&self, role: Role) -> bool {
        self.has[role as usize]
    }

    /// The fields of a line by role.
    fn split<'line>(&self, line: &'line [u8]) -> Result<Fields<'line>, Expected> {
        let mut fields = Fields::default();
        let mut rest = Some(line);
        for role in &self.roles {
            let text = rest.ok_or(Expected("as many fields as the header has"))?;
            let slot = role.map_or(UNUSED_SLOT, |role| role as usize);
            (fields.0[slot], rest) = take_field(text, self.delimiter);
        }
        // A name with the delimiter in it, or rows with a column that has no name, would shift the others.
        let is_blank = |byte: &u8| *byte == self.delimiter || byte.is_ascii_whitespace();
        let is_complete = rest.is_none_or(|rest| rest.iter().all(is_blank));
        if !is_complete && self.roles.len() < COLUMNS_MAX {
            return Err(Expected("no more fields than the header has"));
        }
        Ok(fields)
    }
}

struct BlockCsv {
    layout: Layout,
    mapping: Mapping,
    device_last: Last<u32>,
    process_last: Last<ProcessId>,
    /// Requests since the ledger was told, by operation.
    seen: [u64; SEEN.len()],
}

/// What a line says.
#[derive(Debug, PartialEq)]
struct Values<'line> {
    time_ns: i64,
    operation: Operation,
    /// Sector or object.
    address: u64,
    /// Sectors or bytes.
    length: u64,
    process: Text<'line>,
    device: Text<'line>,
}

impl Default for Values<'_> {
    fn default() -> Self {
        let (operation, none) = (Operation::Read, Text::Same);
        Values { time_ns: 0, operation, address: 0, length: 0, process: none, device: none }
    }
}

/// The fields of a line by role, empty where the file has no such column, and a place for fields
/// without a role.
#[derive(Default)]
struct Fields<'line>([&'line [u8]; Role::ALL.len() + 1]);

/// The place for fields without a role.
const UNUSED_SLOT: usize = Role::ALL.len();

impl<'line> Fields<'line> {
    #[inline]
    fn get(&self, role: Role) -> &'line [u8] {
        self.0[role as usize]
    }
}

impl LineParser for BlockCsv {
    #[inline(always)]
    fn usual_line(
        &mut self,
        text: &[u8],
        records: &mut Vec<Record>,
        ledger: &mut Ledger,
    ) -> Option<usize> {
        if text.first() == Some(&b'#') {
            return None;
        }
        let (values, rest) = self.take_values(text)?;
        self.append(values, records, ledger).ok()?;
        Some(text.len() - rest.len())
    }

    fn line(
        &mut self,
        line: &[u8],
        records: &mut Vec<Record>,
        ledger: &mut Ledger,
    ) -> Result<(), Expected> {
        if is_passed_over(line) {
            return Ok(());
        }
        let values = self.values(&self.layout.split(line)?)?;
        self.append(values, records, ledger)?;
        if memchr::memchr(b'"', line).is_some() {
            // What stood in quotes may hold a delimiter, so that another line may only begin like it.
            self.device_last.forget();
            self.process_last.forget();
        }
        Ok(())
    }

    fn end_block(&mut self, ledger: &mut Ledger) {
        for operation in SEEN {
            let count = std::mem::take(&mut self.seen[operation as usize]);
            if count > 0 {
                ledger.see(seen_as(operation), count);
            }
        }
    }

    fn traits(&self) -> Traits {
        let is_objects = self.mapping == Mapping::Objects;
        Traits {
            address: if is_objects { AddressUnit::Id } else { AddressUnit::Sector },
            mapping: self.mapping,
            has_clock: self.layout.has(Role::Time),
            has_operations: self.layout.has(Role::Op),
            has_sizes: self.layout.has(Role::Sectors) || self.layout.has(Role::Size),
            has_durations: false,
            has_stages: false,
        }
    }
}

/// The operations that a word can mean.
const SEEN: [Operation; 5] = [
    Operation::Read,
    Operation::Write,
    Operation::Discard,
    Operation::Flush,
    Operation::Passthrough,
];

fn seen_as(operation: Operation) -> &'static [u8] {
    match operation {
        Operation::Read => b"read",
        Operation::Write => b"write",
        Operation::Discard => b"discard",
        Operation::Flush => b"flush",
        _ => b"other",
    }
}

impl BlockCsv {
    fn new(columns: Columns, mapping: Mapping) -> BlockCsv {
        BlockCsv {
            layout: Layout::new(columns, mapping),
            mapping,
            device_last: Last::none(),
            process_last: Last::none(),
            seen: [0; SEEN.len()],
        }
    }

    /// The way of nearly every line: the fields one after the other, each read as it is found, and
    /// what follows the line. None where there are quotes, blanks, more fields than columns or
    /// anything else that `values` judges.
    #[inline(always)]
    fn take_values<'text>(&self, text: &'text [u8]) -> Option<(Values<'text>, &'text [u8])> {
        let delimiter = self.layout.delimiter;
        let mut values = Values::default();
        let mut rest = text;
        for (column, &step) in self.layout.steps.iter().enumerate() {
            if column > 0 {
                rest = rest.strip_prefix(&[delimiter])?;
            }
            match step {
                Step::Time => {
                    (values.time_ns, rest) = take_time(rest, self.layout.time_unit_ns)?;
                }
                Step::Sector => (values.address, rest) = take_decimal(rest)?,
                Step::Length => (values.length, rest) = take_decimal(rest)?,
                Step::Operation => {
                    let (word, after) = take_plain(rest, delimiter)?;
                    (values.operation, rest) = (operation_of_word(word)?, after);
                }
                Step::Id => {
                    let (id, after) = take_plain(rest, delimiter)?;
                    (values.address, rest) = (id_of(id)?, after);
                }
                Step::Process => {
                    (values.process, rest) = self.process_last.take(rest, delimiter)?
                }
                Step::Device => (values.device, rest) = self.device_last.take(rest, delimiter)?,
                Step::Other => rest = take_plain(rest, delimiter)?.1,
            }
        }
        Some((values, after_line(rest)?))
    }

    /// Appends the record of a line.
    #[inline(always)]
    fn append(
        &mut self,
        values: Values<'_>,
        records: &mut Vec<Record>,
        ledger: &mut Ledger,
    ) -> Result<(), Expected> {
        let bytes = self.bytes(values.length, values.operation)?;
        self.seen[values.operation as usize] += 1;
        let device = self.device(values.device, ledger);
        let process = self.process(values.process, ledger);
        let record = Record::new(values.operation, values.address);
        records.push(Record { time_ns: values.time_ns, bytes, device, process, ..record });
        Ok(())
    }

    /// What the fields of a line say.
    fn values<'line>(&self, fields: &Fields<'line>) -> Result<Values<'line>, Expected> {
        let layout = &self.layout;
        let mut values = Values {
            process: Text::Other(fields.get(Role::Process)),
            device: Text::Other(fields.get(Role::Device)),
            ..Values::default()
        };
        if layout.has(Role::Op) {
            let operation = operation_of_word(fields.get(Role::Op).trim_ascii());
            values.operation = operation.ok_or(Expected("a read or write as operation"))?;
        }
        values.address = if layout.is_by_id {
            id_of(fields.get(Role::Id)).ok_or(Expected("an object id"))?
        } else {
            let sector = decimal(fields.get(Role::Sector).trim_ascii());
            sector.ok_or(Expected("a number as sector"))?
        };
        if layout.has(Role::Sectors) {
            let sectors = decimal(fields.get(Role::Sectors).trim_ascii());
            values.length = sectors.ok_or(Expected("a number of sectors"))?;
        } else if layout.has(Role::Size) {
            let bytes = decimal(fields.get(Role::Size).trim_ascii());
            values.length = bytes.ok_or(Expected("a number of bytes as size"))?;
        }
        if layout.has(Role::Time) {
            let when = time(fields.get(Role::Time).trim_ascii(), layout.time_unit_ns);
            values.time_ns = when.ok_or(Expected("a number as time"))?;
        }
        Ok(values)
    }

    /// The bytes of a request by what its length column says.
    #[inline]
    fn bytes(&self, length: u64, operation: Operation) -> Result<u64, Expected> {
        if self.layout.has(Role::Sectors) {
            return sectors_to_bytes(length, operation).ok_or(Expected(EXPECTED_LENGTH));
        }
        if !self.layout.has(Role::Size) {
            // A request whose length nobody recorded touches at least the page of its sector.
            return Ok(if self.mapping == Mapping::Objects { 0 } else { SECTOR_BYTES });
        }
        let is_split = self.mapping != Mapping::Objects && operation != Operation::Discard;
        if is_split && length > REQUEST_BYTES_MAX {
            return Err(Expected(EXPECTED_LENGTH));
        }
        Ok(length)
    }

    #[inline]
    fn device(&mut self, name: Text<'_>, ledger: &mut Ledger) -> u32 {
        self.device_last.meaning(name, |name| ledger.device(name.trim_ascii()))
    }

    #[inline]
    fn process(&mut self, text: Text<'_>, ledger: &mut Ledger) -> ProcessId {
        self.process_last.meaning(text, |text| {
            let (name, pid) = name_and_pid(text.trim_ascii());
            ledger.named_process(pid, name)
        })
    }
}

/// A field of text: the same as in the line before, or another.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Text<'line> {
    Same,
    Other(&'line [u8]),
}

/// What the same field of the line before meant: it comes many times in a row.
struct Last<T> {
    text: Vec<u8>,
    meaning: Option<T>,
}

impl<T: Copy> Last<T> {
    const fn none() -> Last<T> {
        Last { text: Vec::new(), meaning: None }
    }

    /// The next field is not compared with that of the line before.
    fn forget(&mut self) {
        self.meaning = None;
    }

    /// The field that `rest` begins with, and what follows it; none where it is quoted.
    #[inline(always)]
    fn take<'line>(&self, rest: &'line [u8], delimiter: u8) -> Option<(Text<'line>, &'line [u8])> {
        if self.meaning.is_some()
            && let Some(after) = rest.strip_prefix(&self.text[..])
            && after.first().is_none_or(|&byte| byte == delimiter || byte == b'\n')
        {
            return Some((Text::Same, after));
        }
        let (text, after) = take_plain(rest, delimiter)?;
        Some((Text::Other(text), after))
    }

    /// What `text` means, which `find` knows of any.
    #[inline(always)]
    fn meaning(&mut self, text: Text<'_>, find: impl FnOnce(&[u8]) -> T) -> T {
        let text = match (text, self.meaning) {
            (Text::Same, Some(meaning)) => return meaning,
            // The file has no such column, and this is its first line.
            (Text::Same, None) => b"",
            (Text::Other(text), _) => text,
        };
        let meaning = find(text);
        self.text.clear();
        self.text.extend_from_slice(text);
        self.meaning = Some(meaning);
        meaning
    }
}

/// The field that `rest` begins with, and what follows it; none where it is quoted.
#[inline(always)]
fn take_plain(rest: &[u8], delimiter: u8) -> Option<(&[u8], &[u8])> {
    if let [letter, next, ..] = rest
        && *next == delimiter
        && letter.is_ascii_alphanumeric()
    {
        return Some(rest.split_at(1));
    }
    let end = memchr::memchr2(delimiter, b'\n', rest).unwrap_or(rest.len());
    let is_last = rest.get(end).is_none_or(|&byte| byte != delimiter);
    let end = if is_last && rest[..end].ends_with(b"\r") { end - 1 } else { end };
    if rest.first() == Some(&b'"') { None } else { Some(rest.split_at(end)) }
}

/// The object that a field names, if it names one.
fn id_of(field: &[u8]) -> Option<u64> {
    let id = field.trim_ascii();
    (!id.is_empty()).then(|| object_id(id))
}

/// The parts of `NAME-PID`, `PID` or `NAME`; the name itself may hold dashes.
fn name_and_pid(text: &[u8]) -> (&[u8], u32) {
    let pid_of = |digits: &[u8]| decimal(digits).and_then(|pid| u32::try_from(pid).ok());
    if let Some(pid) = pid_of(text) {
        return (b"", pid);
    }
    let split = memchr::memrchr(b'-', text)
        .and_then(|dash| Some((&text[..dash], pid_of(&text[dash + 1..])?)));
    split.unwrap_or((text, 0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::formats::tests::{read_text, read_with};
    use crate::lines::trimmed;

    /// Lines of the phone's columns, and what damage makes of them.
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
        assert_eq!(ledger.processes()[1].name, "a-b");
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

    proptest! {
        #[test]
        fn usual_lines_read_like_any_other(texts in prop::collection::vec(texts(), 1..4)) {
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

    /// The processes of the records, their sectors, and the lines that were refused.
    fn brief(text: &str) -> (Vec<(String, u64)>, Vec<u64>) {
        let (records, ledger) = read_text(&FORMAT, text);
        let name = |record: &Record| {
            let process = &ledger.processes()[record.process.index()];
            format!("{}-{}", process.name, process.pid)
        };
        let records = records.iter().map(|record| (name(record), record.address)).collect();
        (records, ledger.rejects().1.iter().map(|reject| reject.line).collect())
    }

    const PHONE: &str = "proces,device,rw_flag,sector,size,timestamp\n";

    #[test]
    fn comments_and_empty_lines_are_passed_over_wherever_they_are() {
        // A comment may look like a line of this file.
        let text =
            format!("# recorded\n\n{PHONE}#x-3,8,R,8,8,1\na-1,8,R,8,8,1\n#x-3,8,R,8,8,1\n \n");
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
}
