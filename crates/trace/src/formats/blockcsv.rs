//! `blockcsv`: delimited text with a header line that names the columns. What a column holds
//! follows from its name, or from what the caller says. The header of the Pixel 6a traces
//! (MobileBlockIOTraces) is known: its sizes are sectors, though the name alone says bytes.

use types::ProcessId;

use super::ids::object_id;
use super::requests::{
    EXPECTED_LENGTH, REQUEST_BYTES_MAX, SECTOR_BYTES, operation_of_word, sectors_to_bytes,
};
use super::{Confidence, Format, ReadOptions, Role};
use crate::input::Input;
use crate::ledger::Ledger;
use crate::lines::{Expected, LineParser, Lines, TextReader};
use crate::record::{AddressUnit, Mapping, Operation, Record, RecordReader, Traits};
use crate::text::{SECOND_NS, decimal, readable, time};
use crate::{Error, ErrorKind, Position};

/// The row of this format.
pub const FORMAT: Format = Format {
    name: "blockcsv",
    summary: "CSV with a header line: block requests or object accesses",
    has_columns: true,
    sniff,
    open,
};

/// Headers that mean something else than their names say.
const KNOWN_HEADERS: [(&str, &[Option<Role>]); 1] = [(
    "proces,device,rw_flag,sector,size,timestamp",
    &[
        Some(Role::Process),
        Some(Role::Device),
        Some(Role::Op),
        Some(Role::Sector),
        Some(Role::Sectors),
        Some(Role::Time),
    ],
)];

/// Column names, lower case and without the unit at their end, and what they hold.
const NAMES: [(Role, &[&str]); 8] = [
    (Role::Time, &["time", "timestamp", "ts", "t", "op_time", "clock"]),
    (Role::Op, &["op", "operation", "rw", "rwbs", "rw_flag", "op_name", "type", "io_type", "cmd"]),
    (Role::Id, &["id", "obj_id", "object", "object_id", "key", "block_id"]),
    (Role::Sector, &["sector", "lba", "lbn", "start_sector", "first_sector"]),
    (Role::Sectors, &["sectors", "nr_sectors", "nr_sector", "sector_count"]),
    (Role::Size, &["size", "bytes", "length", "len", "io_size", "obj_size", "size_bytes"]),
    (Role::Process, &["process", "proces", "comm", "pid", "task", "command"]),
    (Role::Device, &["device", "dev", "disk", "volume"]),
];

/// Ends of a time column's name, and nanoseconds per unit.
const TIME_UNITS: [(&str, u64); 4] =
    [("_ns", 1), ("_us", 1000), ("_ms", 1_000_000), ("_s", SECOND_NS)];

/// Columns beyond this one cannot be used.
const COLUMNS_MAX: usize = 256;

fn sniff(head: &[u8]) -> Confidence {
    let line = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    let line = line.split(|&byte| byte == b'\n').next().unwrap_or_default().trim_ascii_end();
    let Ok(line) = std::str::from_utf8(line) else { return Confidence::No };
    if KNOWN_HEADERS.iter().any(|(header, _)| *header == line) {
        return Confidence::Certain;
    }
    let columns = Columns::by_name(line);
    let has_place = columns.has(Role::Sector) || columns.has(Role::Id);
    let has_more = columns.has(Role::Op) || columns.has(Role::Time) || columns.has(Role::Size);
    Confidence::Likely.when(has_place && has_more)
}

fn open(input: Input, options: &ReadOptions) -> Result<Box<dyn RecordReader>, Error> {
    let mut lines = Lines::new(input);
    let header = readable(&lines.first()?);
    let columns = Columns::choose(&header, &options.columns)
        .and_then(|columns| columns.check(options.mapping).map(|mapping| (columns, mapping)));
    let (columns, mapping) = columns.map_err(|message| {
        Error::new(ErrorKind::Usage, lines.input().path(), message).at(Position::Line(1))
    })?;
    let parser = BlockCsv {
        layout: Layout::new(&columns),
        mapping,
        device_last: (Vec::new(), None),
        process_last: (Vec::new(), None),
    };
    Ok(Box::new(TextReader::new(lines, parser)))
}

/// What each column holds.
struct Columns {
    delimiter: u8,
    roles: Vec<Option<Role>>,
    time_unit_ns: u64,
}

/// The columns as lines are split by them.
struct Layout {
    delimiter: u8,
    /// Where in `Fields` each column's field goes.
    slots: Vec<usize>,
    time_unit_ns: u64,
    /// Which roles have a column.
    has: [bool; Role::ALL.len()],
}

impl Layout {
    fn new(columns: &Columns) -> Layout {
        let slot = |role: &Option<Role>| role.map_or(UNUSED_SLOT, |role| role as usize);
        Layout {
            delimiter: columns.delimiter,
            slots: columns.roles.iter().map(slot).collect(),
            time_unit_ns: columns.time_unit_ns,
            has: Role::ALL.map(|(_, role)| columns.has(role)),
        }
    }

    #[inline]
    fn has(&self, role: Role) -> bool {
        self.has[role as usize]
    }

    /// The fields of a line by role.
    #[inline]
    fn split<'line>(&self, line: &'line [u8]) -> Result<Fields<'line>, Expected> {
        let mut fields = Fields::default();
        let mut slots = self.slots.iter();
        if memchr::memchr(b'"', line).is_none() {
            let mut start = 0;
            let ends = memchr::memchr_iter(self.delimiter, line).chain(std::iter::once(line.len()));
            for (end, &slot) in ends.zip(slots.by_ref()) {
                fields.0[slot] = &line[start..end];
                start = end + 1;
            }
        } else {
            let mut rest = Some(line);
            while let Some(text) = rest
                && let Some(&slot) = slots.next()
            {
                (fields.0[slot], rest) = take_field(text, self.delimiter);
            }
        }
        match slots.next() {
            Some(_) => Err(Expected("as many fields as the header has")),
            None => Ok(fields),
        }
    }
}

impl Columns {
    fn by_name(header: &str) -> Columns {
        let delimiter = delimiter_of(header);
        if let Some((_, roles)) = KNOWN_HEADERS.iter().find(|(known, _)| *known == header) {
            return Columns { delimiter, roles: roles.to_vec(), time_unit_ns: SECOND_NS };
        }
        let mut columns = Columns { delimiter, roles: Vec::new(), time_unit_ns: SECOND_NS };
        for name in names(header, delimiter) {
            let (bare, unit_ns) = without_time_unit(&name);
            let holds = |known: &[&str]| known.contains(&name.as_str()) || known.contains(&bare);
            let role = NAMES.iter().find(|(_, known)| holds(known)).map(|&(role, _)| role);
            // Of two columns with one meaning the first counts.
            let role = role.filter(|&role| !columns.has(role));
            if role == Some(Role::Time) {
                columns.time_unit_ns = unit_ns;
            }
            columns.roles.push(role);
        }
        columns
    }

    /// By name, unless the caller says what some columns hold.
    fn choose(header: &str, chosen: &[(Role, String)]) -> Result<Columns, String> {
        let mut columns = Columns::by_name(header);
        let names = names(header, columns.delimiter);
        if !chosen.is_empty() {
            // The caller knows better throughout: a half-guessed file is worse than an error.
            columns.roles = vec![None; names.len()];
        }
        for (role, name) in chosen {
            let wanted = name.trim().to_lowercase();
            let place = names.iter().position(|name| *name == wanted).ok_or_else(|| {
                format!("has no column {name:?}; its columns are {}", names.join(", "))
            })?;
            if *role == Role::Time {
                columns.time_unit_ns = without_time_unit(&wanted).1;
            }
            columns.roles[place] = Some(*role);
        }
        columns.roles.truncate(COLUMNS_MAX);
        Ok(columns)
    }

    fn has(&self, role: Role) -> bool {
        self.roles.contains(&Some(role))
    }

    /// The mapping that the columns allow.
    fn check(&self, wanted: Option<Mapping>) -> Result<Mapping, String> {
        let has_sector = self.has(Role::Sector);
        let mapping = wanted.unwrap_or(if has_sector { Mapping::Block } else { Mapping::Objects });
        let is_enough = has_sector || (mapping == Mapping::Objects && self.has(Role::Id));
        if is_enough {
            return Ok(mapping);
        }
        let missing = if mapping == Mapping::Objects { "id or sector" } else { "sector" };
        let role = missing.split(' ').next().unwrap_or_default();
        Err(format!(
            "expected a header with a column for {missing}; name it with --map {role}=COLUMN"
        ))
    }
}

/// The delimiter that the header has most of.
fn delimiter_of(header: &str) -> u8 {
    let count = |delimiter: &u8| header.bytes().filter(|byte| byte == delimiter).count();
    [b'\t', b';', b','].into_iter().max_by_key(count).unwrap_or(b',')
}

fn names(header: &str, delimiter: u8) -> Vec<String> {
    let parts = header.split(char::from(delimiter));
    parts.map(|name| name.trim().trim_matches('"').to_lowercase()).collect()
}

fn without_time_unit(name: &str) -> (&str, u64) {
    let unit =
        TIME_UNITS.iter().find_map(|&(end, unit_ns)| Some((name.strip_suffix(end)?, unit_ns)));
    unit.unwrap_or((name, SECOND_NS))
}

struct BlockCsv {
    layout: Layout,
    mapping: Mapping,
    /// The same name comes many times in a row.
    device_last: (Vec<u8>, Option<u32>),
    process_last: (Vec<u8>, Option<ProcessId>),
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
    fn line(
        &mut self,
        line: &[u8],
        records: &mut Vec<Record>,
        ledger: &mut Ledger,
    ) -> Result<(), Expected> {
        if line.is_empty() || line[0] == b'#' {
            return Ok(());
        }
        let fields = self.layout.split(line)?;
        let operation = self.operation(&fields)?;
        let address = self.address(&fields)?;
        let bytes = self.bytes(&fields, operation)?;
        let time_ns = if self.layout.has(Role::Time) {
            let when = time(fields.get(Role::Time), self.layout.time_unit_ns);
            when.ok_or(Expected("a number as time"))?
        } else {
            0
        };
        ledger.see(seen_as(operation), 1);
        let device = self.device(&fields, ledger);
        let process = self.process(&fields, ledger);
        let record = Record::new(operation, address);
        records.push(Record { time_ns, bytes, device, process, ..record });
        Ok(())
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
        }
    }
}

fn seen_as(operation: Operation) -> &'static [u8] {
    match operation {
        Operation::Read => b"read",
        Operation::Write => b"write",
        Operation::Discard => b"discard",
        Operation::Flush => b"flush",
        _ => b"other",
    }
}

/// The field that `text` begins with, without its quotes, and what follows the delimiter.
#[inline]
fn take_field(text: &[u8], delimiter: u8) -> (&[u8], Option<&[u8]>) {
    if let [b'"', quoted @ ..] = text
        && let Some(close) = memchr::memchr(b'"', quoted)
        && quoted.get(close + 1).is_none_or(|&byte| byte == delimiter)
    {
        return (&quoted[..close], quoted.get(close + 2..));
    }
    let length = text.iter().position(|&byte| byte == delimiter).unwrap_or(text.len());
    (&text[..length], text.get(length + 1..))
}

impl BlockCsv {
    #[inline]
    fn operation(&self, fields: &Fields<'_>) -> Result<Operation, Expected> {
        if !self.layout.has(Role::Op) {
            return Ok(Operation::Read);
        }
        let word = fields.get(Role::Op).trim_ascii();
        operation_of_word(word).ok_or(Expected("a read or write as operation"))
    }

    #[inline]
    fn address(&self, fields: &Fields<'_>) -> Result<u64, Expected> {
        if self.mapping == Mapping::Objects && self.layout.has(Role::Id) {
            let id = fields.get(Role::Id).trim_ascii();
            return if id.is_empty() { Err(Expected("an object id")) } else { Ok(object_id(id)) };
        }
        decimal(fields.get(Role::Sector).trim_ascii()).ok_or(Expected("a number as sector"))
    }

    #[inline]
    fn bytes(&self, fields: &Fields<'_>, operation: Operation) -> Result<u64, Expected> {
        if self.layout.has(Role::Sectors) {
            let sectors = decimal(fields.get(Role::Sectors).trim_ascii());
            let sectors = sectors.ok_or(Expected("a number of sectors"))?;
            return sectors_to_bytes(sectors, operation).ok_or(Expected(EXPECTED_LENGTH));
        }
        if !self.layout.has(Role::Size) {
            // A request whose length nobody recorded touches at least the page of its sector.
            return Ok(if self.mapping == Mapping::Objects { 0 } else { SECTOR_BYTES });
        }
        let bytes = decimal(fields.get(Role::Size).trim_ascii());
        let bytes = bytes.ok_or(Expected("a number of bytes as size"))?;
        let is_split = self.mapping != Mapping::Objects && operation != Operation::Discard;
        if is_split && bytes > REQUEST_BYTES_MAX {
            return Err(Expected(EXPECTED_LENGTH));
        }
        Ok(bytes)
    }

    #[inline]
    fn device(&mut self, fields: &Fields<'_>, ledger: &mut Ledger) -> u32 {
        let name = fields.get(Role::Device);
        match self.device_last {
            (ref last, Some(device)) if last == name => device,
            _ => {
                let device = ledger.device(name);
                remember(&mut self.device_last, name, device);
                device
            }
        }
    }

    #[inline]
    fn process(&mut self, fields: &Fields<'_>, ledger: &mut Ledger) -> ProcessId {
        let text = fields.get(Role::Process);
        match self.process_last {
            (ref last, Some(process)) if last == text => process,
            _ => {
                let (name, pid) = name_and_pid(text.trim_ascii());
                let process = ledger.named_process(pid, name);
                remember(&mut self.process_last, text, process);
                process
            }
        }
    }
}

/// Keeps what `text` means, in the memory of what was kept before.
#[inline]
fn remember<T>(last: &mut (Vec<u8>, Option<T>), text: &[u8], meaning: T) {
    last.0.clear();
    last.0.extend_from_slice(text);
    last.1 = Some(meaning);
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
    use super::*;
    use crate::formats::tests::{read_text, read_with};

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
    }

    #[test]
    fn a_header_without_a_place_is_refused() {
        let error = read_with(&FORMAT, b"time,op\n1,R\n", &ReadOptions::default()).unwrap_err();
        assert!(error.to_string().contains("--map id=COLUMN"), "{error}");
        assert_eq!(sniff(b"time,op\n1,R\n"), Confidence::No);
        assert_eq!(sniff(b"time,lba,op\n1,2,R\n"), Confidence::Likely);
    }
}
