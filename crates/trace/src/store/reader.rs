//! Reads the events of a trace file, or only the pages of its accesses.

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use serde::Deserialize;
use types::{EventFlags, EventKind, Events, PageId, ProcessId};

use super::column::Column;
use super::file::PooledFile;
use super::group::{self, Group, Positions};
use super::guard::{damaged, decoding};
use super::layout::{HEADER_KEY, SCHEMA};
use crate::renumber::Renumber;
use crate::rows::page_numbers;
use crate::{Error, ErrorKind, Header, Rows, Source, TraceKind, page_key};

/// Rows per batch: their columns stay in the second-level cache until they are used.
const BATCH_ROWS: usize = 1 << 15;

/// Reads a trace file from its beginning, once, in one of three ways: `next_batch` (events),
/// `next_rows` (everything) or `next_accesses` (pages only, fastest).
///
/// If the file has no page numbers, pages are numbered during reading.
pub struct Reader {
    path: PathBuf,
    file: SerializedFileReader<PooledFile>,
    header: Header,
    positions: Positions,
    times: Range<i64>,
    next_group: usize,
    group: Option<Group>,
    /// The columns of `group`, so that the ways of reading cannot be mixed.
    wanted: &'static [Column],
    numbering: Numbering,
    buffers: Buffers,
}

/// Where page numbers come from.
enum Numbering {
    /// The file has them.
    Stored,
    /// The reader numbers the pages.
    Made(Renumber),
    /// The file has none, and none are needed.
    Omitted,
}

/// Buffers, kept from batch to batch to save allocations.
#[derive(Default)]
struct Buffers {
    narrow: Vec<i32>,
    wide: Vec<i64>,
    keys: Vec<u64>,
    numbers: Vec<u32>,
    kinds: Vec<EventKind>,
    rows: Rows,
}

/// Columns for events, if the file has page numbers and if not.
const OF_EVENTS: &[Column] =
    &[Column::Time, Column::Event, Column::Flags, Column::Page, Column::Process];
const OF_RAW_EVENTS: &[Column] =
    &[Column::Time, Column::Event, Column::Flags, Column::Process, Column::Space, Column::Address];

/// Columns for pages: if a row group has only accesses, if it has other events too, and if the file has
/// no page numbers.
const OF_ACCESSES: &[Column] = &[Column::Page];
const OF_MIXED: &[Column] = &[Column::Event, Column::Page];
const OF_RAW: &[Column] = &[Column::Event, Column::Space, Column::Address];

impl Reader {
    /// Opens a trace file.
    ///
    /// # Errors
    /// If the file cannot be read, is damaged, is Parquet of another program, or has a newer layout.
    pub fn open(path: &Path) -> Result<Reader, Error> {
        let file =
            File::open(path).map_err(|error| Error::new(ErrorKind::Io, path, error.to_string()))?;
        let file = decoding(path, || SerializedFileReader::new(PooledFile::new(file)?))?;
        let header = header_of(path, &file)?;
        let positions = positions_of(path, &file)?;
        let numbering = match header.pages {
            Some(_) => Numbering::Stored,
            None => Numbering::Made(Renumber::unlimited()),
        };
        Ok(Reader {
            path: path.to_owned(),
            file,
            header,
            positions,
            times: i64::MIN..i64::MAX,
            next_group: 0,
            group: None,
            wanted: &[],
            numbering,
            buffers: Buffers::default(),
        })
    }

    /// Skips row groups without an event in `times`; other row groups may still have events outside it.
    pub(super) fn skip_outside(&mut self, times: Range<i64>) {
        self.times = times;
    }

    /// Replaces `rows` by the next batch of the columns `wanted`; false at the end.
    fn next_of(&mut self, wanted: &'static [Column], rows: &mut Rows) -> Result<bool, Error> {
        rows.clear();
        let Some(count) = self.next_row_count(|_| wanted)? else {
            return Ok(false);
        };
        let group = self.group.as_mut().expect("rows were taken from it");
        let Buffers { narrow, wide, .. } = &mut self.buffers;
        decoding(&self.path, || read_columns(group, count, rows, narrow, wide))?;
        kinds_of(&self.path, narrow, &mut rows.events.kind)?;
        check_processes(&self.path, &rows.events.process, &self.header)?;
        self.number_pages(rows)?;
        Ok(true)
    }

    /// Numbers the pages of rows, or checks their numbers if the file has numbers.
    fn number_pages(&mut self, rows: &mut Rows) -> Result<(), Error> {
        let renumber = match &mut self.numbering {
            Numbering::Stored => {
                return check_pages(&self.path, &rows.events.page, &self.header);
            }
            Numbering::Omitted => {
                rows.events.page.clear();
                return Ok(());
            }
            Numbering::Made(renumber) => renumber,
        };
        let Buffers { keys, numbers, .. } = &mut self.buffers;
        keys.clear();
        let places = rows.space.iter().zip(&rows.address).zip(&rows.events.kind);
        keys.extend(
            places
                .filter(|&(_, &kind)| kind != EventKind::Exit)
                .map(|((&space, &address), _)| key(self.header.kind, space, address)),
        );
        number(&self.path, renumber, keys, numbers)?;
        let events = &mut rows.events;
        let numbers = page_numbers(events.kind.iter().copied(), numbers.iter().copied());
        events.page.clear();
        events.page.extend(numbers.map(PageId));
        Ok(())
    }

    /// Opens the next row group if necessary, with the columns that `choose` returns for it, and takes a
    /// batch of rows off it; `None` at the end.
    fn next_row_count(
        &mut self,
        choose: impl Fn(bool) -> &'static [Column],
    ) -> Result<Option<usize>, Error> {
        loop {
            if let Some(group) = &mut self.group {
                let wanted = choose(self.wanted == OF_ACCESSES);
                assert_eq!(self.wanted, wanted, "a reader is read in one way");
                let count = group.take_rows(BATCH_ROWS);
                if count > 0 {
                    return Ok(Some(count));
                }
                self.group = None;
            }
            let metadata = self.file.metadata();
            if self.next_group == metadata.num_row_groups() {
                return Ok(None);
            }
            let index = self.next_group;
            self.next_group += 1;
            let facts = metadata.row_group(index);
            if !group::may_overlap(facts, &self.positions, &self.times) {
                continue;
            }
            self.wanted = choose(group::is_all_accesses(facts, &self.positions));
            let group = decoding(&self.path, || {
                let group = self.file.get_row_group(index)?;
                Group::open(group.as_ref(), &self.positions, self.wanted)
            })?;
            self.group = Some(group);
        }
    }
}

impl Source for Reader {
    fn header(&self) -> &Header {
        &self.header
    }

    fn omit_numbering(&mut self) {
        if matches!(self.numbering, Numbering::Made(_)) {
            self.numbering = Numbering::Omitted;
        }
    }

    fn next_batch(&mut self, events: &mut Events) -> Result<bool, Error> {
        let is_stored = matches!(self.numbering, Numbering::Stored);
        let wanted = if is_stored { OF_EVENTS } else { OF_RAW_EVENTS };
        // Use the caller's buffers for this batch; the other columns of the rows stay here.
        let mut rows = std::mem::take(&mut self.buffers.rows);
        std::mem::swap(&mut rows.events, events);
        let result = self.next_of(wanted, &mut rows);
        std::mem::swap(&mut rows.events, events);
        self.buffers.rows = rows;
        result
    }

    fn next_rows(&mut self, rows: &mut Rows) -> Result<bool, Error> {
        self.next_of(&Column::ALL, rows)
    }

    fn next_accesses(&mut self, pages: &mut Vec<PageId>) -> Result<bool, Error> {
        pages.clear();
        let is_raw = !matches!(self.numbering, Numbering::Stored);
        let choose = |is_all_accesses| match (is_raw, is_all_accesses) {
            (true, _) => OF_RAW,
            (false, true) => OF_ACCESSES,
            (false, false) => OF_MIXED,
        };
        let Some(count) = self.next_row_count(choose)? else {
            return Ok(false);
        };
        let group = self.group.as_mut().expect("rows were taken from it");
        let Buffers { narrow, wide, keys, numbers, kinds, .. } = &mut self.buffers;
        kinds.clear();
        if group.has(Column::Event) {
            decoding(&self.path, || group.read_narrow(Column::Event, count, narrow))?;
            kinds_of(&self.path, narrow, kinds)?;
        }
        if let Numbering::Made(renumber) = &mut self.numbering {
            decoding(&self.path, || {
                group.read_narrow(Column::Space, count, narrow)?;
                group.read_wide(Column::Address, count, wide)
            })?;
            keys.clear();
            let places = narrow.iter().zip(wide.iter());
            keys.extend(
                places
                    .map(|(&space, &address)| key(self.header.kind, space as u32, address as u64)),
            );
            // Remove exits before numbering, but device traffic after it, because it has pages too.
            let mut kind = kinds.iter();
            keys.retain(|_| kind.next() != Some(&EventKind::Exit));
            kinds.retain(|&kind| kind != EventKind::Exit);
            number(&self.path, renumber, keys, numbers)?;
            pages.extend(numbers.iter().map(|&number| PageId(number)));
        } else {
            decoding(&self.path, || group.read_pages(count, pages))?;
            check_pages(&self.path, pages, &self.header)?;
        }
        if !kinds.is_empty() {
            let mut kind = kinds.iter();
            pages.retain(|_| kind.next().is_some_and(|kind| kind.is_access()));
        }
        Ok(true)
    }
}

/// Appends the next `count` values of every open column to `rows`; the kinds stay in `narrow`.
fn read_columns(
    group: &mut Group,
    count: usize,
    rows: &mut Rows,
    narrow: &mut Vec<i32>,
    wide: &mut Vec<i64>,
) -> Result<(), ParquetError> {
    let events = &mut rows.events;
    if group.has(Column::Time) {
        group.read_wide(Column::Time, count, &mut events.time_ns)?;
    }
    group.read_narrow(Column::Flags, count, narrow)?;
    events.flags.extend(narrow.iter().map(|&flags| EventFlags(flags as u8)));
    group.read_narrow(Column::Process, count, narrow)?;
    events.process.extend(narrow.iter().map(|&process| ProcessId(process as u32)));
    if group.has(Column::Space) {
        group.read_narrow(Column::Space, count, narrow)?;
        rows.space.extend(narrow.iter().map(|&space| space as u32));
        group.read_wide(Column::Address, count, wide)?;
        rows.address.extend(wide.iter().map(|&address| address as u64));
    }
    if group.has(Column::Bytes) {
        group.read_narrow(Column::Bytes, count, narrow)?;
        rows.bytes.extend(narrow.iter().map(|&bytes| bytes as u32));
    }
    if group.has(Column::Duration) {
        group.read_wide(Column::Duration, count, wide)?;
        rows.duration_ns.extend(wide.iter().map(|&duration| duration as u64));
    }
    if group.has(Column::Page) {
        group.read_pages(count, &mut events.page)?;
    }
    group.read_narrow(Column::Event, count, narrow)
}

/// The common part of headers of every layout.
#[derive(Deserialize)]
struct Version {
    schema: u64,
}

/// Tables beside the recording of `pagewise-agent launch`, which have no header.
const TABLES_OF_LAUNCH_RUNS: [&str; 3] = ["visits.parquet", "processes.parquet", "kills.parquet"];

fn header_of(path: &Path, file: &SerializedFileReader<PooledFile>) -> Result<Header, Error> {
    let metadata = file.metadata().file_metadata().key_value_metadata();
    let value = |key: &str| {
        let entry = metadata.into_iter().flatten().find(|entry| entry.key == key);
        entry.and_then(|entry| entry.value.as_ref())
    };
    if let Some(kind) = value("schema").and_then(|schema| schema.strip_prefix("pagewise.")) {
        let kind = kind.split('/').next().unwrap_or_default();
        let why = format!(
            "holds results of pagewise {kind}, not a trace; to see them: pagewise report FILE -o page.html"
        );
        return Err(Error::new(ErrorKind::UnknownFormat, path, why));
    }
    let Some(json) = value(HEADER_KEY) else {
        let why = match path.file_name().and_then(|name| name.to_str()) {
            Some(name) if TABLES_OF_LAUNCH_RUNS.contains(&name) => {
                "is a table of a launch run, not a trace; to read the run: pagewise study launch FOLDER"
            }
            _ => {
                "is Parquet, but not a trace that pagewise wrote; import the recording that it was made from"
            }
        };
        return Err(Error::new(ErrorKind::UnknownFormat, path, why));
    };
    // Read the version first: the header of a newer layout is unknown here.
    let Ok(Version { schema }) = serde_json::from_str(json) else {
        return Err(damaged(path, "its header has no schema version"));
    };
    if schema != u64::from(SCHEMA) {
        let why = format!("has layout version {schema}, this pagewise reads version {SCHEMA}");
        return Err(Error::new(ErrorKind::UnknownFormat, path, why));
    }
    serde_json::from_str(json).map_err(|error| damaged(path, &format!("its header: {error}")))
}

fn positions_of(path: &Path, file: &SerializedFileReader<PooledFile>) -> Result<Positions, Error> {
    let schema = file.metadata().file_metadata().schema_descr();
    let mut positions = Positions::default();
    for column in Column::ALL {
        let found = schema.columns().iter().position(|field| field.name() == column.name());
        if let Some(position) = found {
            let found = schema.column(position);
            if found.max_def_level() != 0 || found.max_rep_level() != 0 {
                let why = format!("column {} is not a plain required column", column.name());
                return Err(damaged(path, &why));
            }
        } else if column.is_required() {
            return Err(damaged(path, &format!("column {} is missing", column.name())));
        }
        positions[column as usize] = found;
    }
    Ok(positions)
}

/// The key of a page of the trace; see [`page_key`].
pub(crate) fn key(kind: TraceKind, space: u32, address: u64) -> u64 {
    if kind == TraceKind::Objects { address } else { page_key(space, address) }
}

pub(super) fn number(
    path: &Path,
    renumber: &mut Renumber,
    keys: &[u64],
    numbers: &mut Vec<u32>,
) -> Result<(), Error> {
    numbers.clear();
    renumber
        .number_batch(keys, numbers)
        .map_err(|full| Error::new(ErrorKind::Usage, path, full.to_string()))
}

fn kinds_of(path: &Path, numbers: &[i32], kinds: &mut Vec<EventKind>) -> Result<(), Error> {
    kinds.clear();
    let greatest = EventKind::ALL.len() - 1;
    if numbers.iter().any(|&number| number as u32 as usize > greatest) {
        return Err(damaged(path, "an event has an unknown kind"));
    }
    kinds.extend(numbers.iter().map(|&number| EventKind::ALL[(number as usize).min(greatest)]));
    Ok(())
}

/// Refuses page numbers beyond the header's count, because callers index arrays by page.
fn check_pages(path: &Path, pages: &[PageId], header: &Header) -> Result<(), Error> {
    // A trace of only exits has no page, and its column holds zeros.
    let bound = header.pages.unwrap_or(0).max(1);
    // Searching for the maximum takes four times as long as checking for any number out of bounds.
    let is_outside = pages.iter().fold(false, |outside, page| outside | (page.0 >= bound));
    if is_outside {
        let greatest = pages.iter().map(|page| page.0).max().unwrap_or(0);
        let why = format!("page {greatest} of {bound} in its header");
        return Err(damaged(path, &why));
    }
    Ok(())
}

fn check_processes(path: &Path, processes: &[ProcessId], header: &Header) -> Result<(), Error> {
    let bound = header.processes.len().max(1);
    let greatest = processes.iter().map(|process| process.index()).max().unwrap_or(0);
    if greatest >= bound {
        let why = format!("process {greatest} of {bound} in its header");
        return Err(damaged(path, &why));
    }
    Ok(())
}
