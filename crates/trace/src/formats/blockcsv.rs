//! `blockcsv`: delimited text with a header line that names the columns. The name of a column, or the
//! caller, decides its role. The header of the Pixel 6a traces (MobileBlockIOTraces) is a special case:
//! its column `size` counts sectors.

use types::ProcessId;

use super::csv_columns::{COLUMNS_MAX, Columns, delimiter_of, names};
use super::ids::object_id;
use super::requests::{
    EXPECTED_LENGTH, REQUEST_BYTES_MAX, SECTOR_BYTES, operation_of_word, sectors_to_bytes,
};
use super::{Format, ReadOptions, Role};
use crate::input::Input;
use crate::ledger::Ledger;
use crate::lines::{Expected, LineParser, Lines, TextReader, after_line, is_passed_over};
use crate::record::{AddressUnit, Mapping, Operation, Record, RecordReader, Traits};
use crate::sniff::{Confidence, head_lines};
use crate::text::{decimal, take_decimal, take_field, take_time, time};
use crate::{Error, ErrorKind, Position};

/// The row of this format.
pub const FORMAT: Format = Format {
    name: "blockcsv",
    summary: "CSV with a header line: block requests or object accesses",
    has_columns: true,
    has_parts: false,
    has_accesses: true,
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
    let places = [Role::Sector, Role::Offset, Role::Id];
    let has_place = places.into_iter().any(|role| columns.has(role));
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
    let names = names(&header, columns.delimiter);
    let mut parser = BlockCsv::new(columns, mapping);
    parser.unused = parser.layout.unused(names);
    Ok(Box::new(TextReader::new(lines, parser)))
}

/// The columns of a file of this format.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CsvColumns {
    /// All names of the header line, in order.
    pub names: Vec<String>,
    /// Names of the columns that are not read unless the caller chooses them; empty if the file cannot be read
    /// without a choice.
    pub unread: Vec<String>,
}

/// The columns that the header line of `input` names.
///
/// # Errors
/// If the input cannot be read.
pub(crate) fn columns(input: Input, mapping: Option<Mapping>) -> Result<CsvColumns, Error> {
    let header = String::from_utf8_lossy(&Lines::new(input).header()?).into_owned();
    let names = names(&header, delimiter_of(&header));
    let unread = Columns::choose(&header, &[]).and_then(|columns| {
        let mapping = columns.check(mapping)?;
        Ok(Layout::new(columns, mapping).unused(names.clone()))
    });
    Ok(CsvColumns { names, unread: unread.unwrap_or_default() })
}

/// How lines are split into columns.
struct Layout {
    delimiter: u8,
    roles: Vec<Option<Role>>,
    time_unit_ns: u64,
    /// How each column is read.
    steps: Vec<FieldStep>,
    /// Whether the id is the address, not the sector.
    is_by_id: bool,
    /// Whether an offset in bytes is the address, and not the sector.
    is_by_offset: bool,
    /// Which roles have a column.
    has: [bool; Role::ALL.len()],
}

/// How a column is read.
#[derive(Clone, Copy)]
enum FieldStep {
    Time,
    Operation,
    Id,
    Sector,
    /// Bytes from the start of the device.
    Offset,
    /// Sectors or bytes.
    Length,
    Process,
    Device,
    Other,
}

impl Layout {
    fn new(columns: Columns, mapping: Mapping) -> Layout {
        let is_by_id = mapping == Mapping::Objects && columns.has(Role::Id);
        let is_by_offset = !is_by_id && !columns.has(Role::Sector);
        let step = |role: &Option<Role>| match role {
            Some(Role::Time) => FieldStep::Time,
            Some(Role::Op) => FieldStep::Operation,
            Some(Role::Id) if is_by_id => FieldStep::Id,
            Some(Role::Sector) if !is_by_id => FieldStep::Sector,
            Some(Role::Offset) if is_by_offset => FieldStep::Offset,
            Some(Role::Sectors) => FieldStep::Length,
            Some(Role::Size) if !columns.has(Role::Sectors) => FieldStep::Length,
            Some(Role::Process) => FieldStep::Process,
            Some(Role::Device) => FieldStep::Device,
            _ => FieldStep::Other,
        };
        Layout {
            delimiter: columns.delimiter,
            time_unit_ns: columns.time_unit_ns,
            steps: columns.roles.iter().map(step).collect(),
            is_by_id,
            is_by_offset,
            has: Role::ALL.map(|(_, role)| columns.has(role)),
            roles: columns.roles,
        }
    }

    #[inline]
    fn has(&self, role: Role) -> bool {
        self.has[role as usize]
    }

    /// The named columns that no step reads, among all `names`.
    fn unused(&self, names: Vec<String>) -> Vec<String> {
        let is_read = |place: usize| {
            self.steps.get(place).is_some_and(|step| !matches!(step, FieldStep::Other))
        };
        let named = names.into_iter().enumerate();
        named
            .filter(|(place, name)| !name.is_empty() && !is_read(*place))
            .map(|(_, name)| name)
            .collect()
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
        // A name that contains the delimiter, or a column without a name, would shift the other fields.
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
    /// Requests not yet counted in the ledger, by operation.
    seen: [u64; SEEN.len()],
    /// Columns that are not read, not yet noted in the ledger.
    unused: Vec<String>,
}

/// The values of a line.
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

/// The fields of a line by role, empty if the file has no such column, and a slot for fields without a
/// role.
#[derive(Default)]
struct Fields<'line>([&'line [u8]; Role::ALL.len() + 1]);

/// The slot for fields without a role.
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
            // Quoted text may contain the delimiter, so an unquoted field may be only its beginning.
            self.device_last.forget();
            self.process_last.forget();
        }
        Ok(())
    }

    fn end_block(&mut self, ledger: &mut Ledger) {
        ledger.leave_out_columns(std::mem::take(&mut self.unused));
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

/// The operations that a word can name.
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
            unused: Vec::new(),
        }
    }

    /// The fast path for nearly every line: reads the fields in one pass, and returns the values and the
    /// text after the line. `None` if the line has quotes, blanks, more fields than columns or anything
    /// else that only `values` handles.
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
                FieldStep::Time => {
                    (values.time_ns, rest) = take_time(rest, self.layout.time_unit_ns)?;
                }
                FieldStep::Sector | FieldStep::Offset => {
                    (values.address, rest) = take_decimal(rest)?
                }
                FieldStep::Length => (values.length, rest) = take_decimal(rest)?,
                FieldStep::Operation => {
                    let (word, after) = take_plain(rest, delimiter)?;
                    (values.operation, rest) = (operation_of_word(word)?, after);
                }
                FieldStep::Id => {
                    let (id, after) = take_plain(rest, delimiter)?;
                    (values.address, rest) = (id_of(id)?, after);
                }
                FieldStep::Process => {
                    (values.process, rest) = self.process_last.take(rest, delimiter)?
                }
                FieldStep::Device => {
                    (values.device, rest) = self.device_last.take(rest, delimiter)?
                }
                FieldStep::Other => rest = take_plain(rest, delimiter)?.1,
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
        let (address, bytes) = if self.layout.is_by_offset {
            // A request that begins inside a sector reaches into the sector behind its last byte's.
            let aside = values.address % SECTOR_BYTES;
            (values.address / SECTOR_BYTES, bytes.saturating_add(aside))
        } else {
            (values.address, bytes)
        };
        self.seen[values.operation as usize] += 1;
        let device = self.device(values.device, ledger);
        let process = self.process(values.process, ledger);
        let record = Record::new(values.operation, address);
        records.push(Record { time_ns: values.time_ns, bytes, device, process, ..record });
        Ok(())
    }

    /// The values of a line from its fields.
    fn values<'line>(&self, fields: &Fields<'line>) -> Result<Values<'line>, Expected> {
        let layout = &self.layout;
        let mut values = Values {
            process: Text::Other(fields.get(Role::Process)),
            device: Text::Other(fields.get(Role::Device)),
            ..Values::default()
        };
        if layout.has(Role::Op) {
            let operation = operation_of_word(fields.get(Role::Op).trim_ascii());
            values.operation = operation.ok_or(Expected("a read or write as operation (--map names columns; without op every record is a read)"))?;
        }
        values.address = if layout.is_by_id {
            id_of(fields.get(Role::Id)).ok_or(Expected("an object id"))?
        } else if layout.is_by_offset {
            let offset = decimal(fields.get(Role::Offset).trim_ascii());
            offset.ok_or(Expected("a number of bytes as offset"))?
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

    /// The bytes of a request, from its length column.
    #[inline]
    fn bytes(&self, length: u64, operation: Operation) -> Result<u64, Expected> {
        if self.layout.has(Role::Sectors) {
            return sectors_to_bytes(length, operation).ok_or(Expected(EXPECTED_LENGTH));
        }
        if !self.layout.has(Role::Size) {
            // A request without a recorded length touches at least the page of its sector.
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

/// A field of text: the same as in the line before, or a different text.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Text<'line> {
    Same,
    Other(&'line [u8]),
}

/// A cache of this field's text and meaning in the line before, because values repeat in successive
/// lines.
struct Last<T> {
    text: Vec<u8>,
    meaning: Option<T>,
}

impl<T: Copy> Last<T> {
    const fn none() -> Last<T> {
        Last { text: Vec::new(), meaning: None }
    }

    /// Forgets the text, so that the next field is not compared with it.
    fn forget(&mut self) {
        self.meaning = None;
    }

    /// The field that `rest` begins with, and the text after it; `None` if the field is quoted.
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

    /// The meaning of `text`; `find` computes it for a new text.
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

/// The field that `rest` begins with, and the text after it; `None` if the field is quoted.
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

/// The object that a field names; `None` if the field is empty.
fn id_of(field: &[u8]) -> Option<u64> {
    let id = field.trim_ascii();
    (!id.is_empty()).then(|| object_id(id))
}

/// The parts of `NAME-PID`, `PID` or `NAME`; the name may contain dashes.
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
mod tests;
