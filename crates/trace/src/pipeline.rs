//! From files to numbered rows: recognise, read, merge, choose the stage, map, number. Import and
//! direct reading both use it, a batch at a time.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use types::PageId;

use crate::formats::{self, Format, ReadOptions};
use crate::input::{Input, Meter};
use crate::ledger::Ledger;
use crate::mapping::{Mapped, Mapper};
use crate::merge::Merge;
use crate::record::{Record, RecordReader};
use crate::references;
use crate::renumber::Renumber;
use crate::row_extents::{OptionalColumns, RowExtent};
use crate::rows::page_numbers;
use crate::stage::{HELD_MAX, Staged};
use crate::{Error, ErrorKind, Header, Processes, Rows, TraceKind};

/// Rows per batch, unless a single request has more. A batch stays in the second-level cache until it is
/// written.
const BATCH_ROWS: usize = 8 * 1024;

/// Bytes that processes and their names may take without reducing the limit of the numbering table.
const PROCESS_BYTES_FREE: usize = 16 << 20;

/// Capacity, in records, that is kept from batch to batch.
const RECORDS_KEPT: usize = 1 << 16;

/// The caller's options for a recording.
#[derive(Clone, Debug, Default)]
pub struct PipelineOptions {
    /// Name of the format; `None` to recognise it by content.
    pub format: Option<String>,
    /// Mapping and columns.
    pub read: ReadOptions,
    /// Whether a bad line is an error.
    pub is_strict: bool,
    /// Whether to compute the sha256 of each file.
    pub is_hashed: bool,
    /// Largest size of the numbering table; `None` for no limit.
    pub numbering_bytes_max: Option<usize>,
}

/// Reads the numbered rows of a recording from its files.
pub struct Pipeline {
    merge: Merge,
    mapper: Mapper,
    ledger: Ledger,
    header: Header,
    meters: Vec<(PathBuf, Arc<Meter>)>,
    bytes_total: u64,
    /// `None` after the table was full, and at the end.
    renumber: Option<Renumber>,
    numbering_bytes_max: Option<usize>,
    is_complete: bool,
    /// Records read; the first `mapped_records` of them are already mapped to rows.
    records: Vec<Record>,
    mapped_records: usize,
    is_read: bool,
    batch: Mapped,
    /// Page number of each row, 0 for an exit; empty after the table was full.
    numbers: Vec<u32>,
    rows: Rows,
}

/// The rows of a batch as extents, with the page number of each row if pages are numbered.
#[derive(Clone, Copy, Debug)]
pub struct Numbered<'batch> {
    /// The columns that the rows have.
    pub columns: OptionalColumns,
    /// All columns except the pages.
    pub extents: &'batch [RowExtent],
    /// Page number of each row, 0 and void for an exit; empty if pages are not numbered.
    pub pages: &'batch [u32],
}

impl Pipeline {
    /// Opens the files and recognises their format.
    ///
    /// # Errors
    /// If a file cannot be read, recognised or mapped, with file and position.
    pub fn open(paths: &[PathBuf], options: &PipelineOptions) -> Result<Pipeline, Error> {
        let Some(first) = paths.first() else {
            return Err(Error::new(ErrorKind::Usage, "", "expected at least one file"));
        };
        let mut recordings: Vec<RecordingFiles> = Vec::new();
        let mut meters = Vec::with_capacity(paths.len());
        let mut chosen: Option<&'static Format> = None;
        let mut bytes_total = Some(0u64);
        for path in paths {
            let mut input = Input::open(path, options.is_hashed)?;
            let format = format_of(&mut input, options)?;
            if let Some(other) = chosen.filter(|other| other.name != format.name) {
                let message = format!(
                    "is {}, but {} is {}: files of an import need one format",
                    format.name,
                    first.display(),
                    other.name
                );
                return Err(Error::new(ErrorKind::Usage, path, message));
            }
            chosen = Some(format);
            meters.push((path.clone(), input.meter()));
            // The length of a pipe is unknown, and so is the total with a pipe.
            let file_bytes = Some(input.file_bytes()).filter(|&bytes| bytes > 0);
            bytes_total = bytes_total.zip(file_bytes).map(|(total, file)| total + file);
            let reader = (format.open)(input, &options.read)?;
            let name = format.recording_of(path);
            match recordings.iter_mut().find(|recording| recording.name == name) {
                Some(recording) if format.has_parts => recording.readers.push(reader),
                _ => recordings.push(RecordingFiles { name, readers: vec![reader] }),
            }
        }
        let name = chosen.map_or("", |format| format.name);
        Pipeline::start(first, name, recordings, meters, bytes_total.unwrap_or(0), options)
    }

    /// Reads a recording from an open input.
    ///
    /// # Errors
    /// Errors of [`Self::open`].
    pub fn of_input(mut input: Input, options: &PipelineOptions) -> Result<Pipeline, Error> {
        let format = format_of(&mut input, options)?;
        let path = input.path().to_owned();
        let meters = vec![(path.clone(), input.meter())];
        let bytes_total = input.file_bytes();
        let readers = vec![(format.open)(input, &options.read)?];
        let recordings = vec![RecordingFiles { name: format.recording_of(&path), readers }];
        Pipeline::start(&path, format.name, recordings, meters, bytes_total, options)
    }

    fn start(
        first: &Path,
        format: &str,
        recordings: Vec<RecordingFiles>,
        meters: Vec<(PathBuf, Arc<Meter>)>,
        bytes_total: u64,
        options: &PipelineOptions,
    ) -> Result<Pipeline, Error> {
        let held_max = HELD_MAX / recordings.len();
        let read = |recording: RecordingFiles| recording.read(held_max);
        let merge = Merge::new(recordings.into_iter().map(read).collect());
        let traits = merge.traits();
        let mapping = options.read.mapping.unwrap_or(traits.mapping);
        let mapper =
            Mapper::new(mapping, traits).map_err(|why| Error::new(ErrorKind::Usage, first, why))?;
        let header = Header {
            has_clock: traits.has_clock,
            has_operations: traits.has_operations,
            has_sizes: traits.has_sizes,
            has_durations: traits.has_durations,
            ..Header::new(mapping.kind(), format)
        };
        let renumber = match options.numbering_bytes_max {
            Some(bytes) => Renumber::with_limit(bytes),
            None => Renumber::unlimited(),
        };
        Ok(Pipeline {
            merge,
            mapper,
            ledger: Ledger::new(options.is_strict),
            header,
            meters,
            bytes_total,
            renumber: Some(renumber),
            numbering_bytes_max: options.numbering_bytes_max,
            is_complete: false,
            records: Vec::new(),
            mapped_records: 0,
            is_read: false,
            batch: Mapped::default(),
            numbers: Vec::new(),
            rows: Rows::default(),
        })
    }

    /// Leaves pages without numbers, which take memory for each page. To be called before reading.
    pub fn omit_numbering(&mut self) {
        self.renumber = None;
    }

    /// The next rows; `None` at the end, when the header is complete.
    ///
    /// # Errors
    /// If a file cannot be read, with file and position.
    pub fn next_rows(&mut self) -> Result<Option<&mut Rows>, Error> {
        if !self.next_batch()? {
            return Ok(None);
        }
        self.mapper.columns().expand(&self.batch.extents, &self.numbers, &mut self.rows);
        Ok(Some(&mut self.rows))
    }

    /// The next rows as extents, the form in which an import writes them; `None` at the end.
    ///
    /// # Errors
    /// Errors of [`Self::next_rows`].
    pub fn next_runs(&mut self) -> Result<Option<Numbered<'_>>, Error> {
        let is_more = self.next_batch()?;
        Ok(is_more.then(|| Numbered {
            columns: self.mapper.columns(),
            extents: &self.batch.extents,
            pages: &self.numbers,
        }))
    }

    /// Replaces the batch by the next; false at the end, when the header is complete.
    fn next_batch(&mut self) -> Result<bool, Error> {
        self.batch.clear();
        while self.batch.rows < BATCH_ROWS {
            if self.mapped_records == self.records.len() && !self.read_records()? {
                break;
            }
            let records = &self.records[self.mapped_records..];
            self.mapped_records +=
                self.mapper.map(records, BATCH_ROWS, &mut self.batch, &mut self.ledger);
        }
        if self.batch.extents.is_empty() {
            self.complete_header();
            return Ok(false);
        }
        self.number();
        self.header.events += self.batch.rows as u64;
        self.header.start_ns = self.mapper.start_ns();
        Ok(true)
    }

    /// Replaces `pages` by the pages of the next accesses; false at the end. If the format has an
    /// `IdReader`, nothing else is decoded. Do not mix it with `next_rows`, and do not use it with a
    /// bounded table.
    ///
    /// # Errors
    /// Errors of [`Self::next_rows`].
    pub fn next_accesses(&mut self, pages: &mut Vec<PageId>) -> Result<bool, Error> {
        pages.clear();
        if self.header.kind == TraceKind::Objects
            && let Some(reader) = self.merge.ids()
            && let Some(renumber) = &mut self.renumber
        {
            self.batch.ids.clear();
            if !reader.read_ids(&mut self.batch.ids, &mut self.ledger)? {
                self.complete_header();
                return Ok(false);
            }
            self.numbers.clear();
            let numbered = renumber.number_batch(&self.batch.ids, &mut self.numbers);
            numbered.map_err(|full| {
                Error::new(ErrorKind::Usage, &self.meters[0].0, full.to_string())
            })?;
            self.header.events += self.numbers.len() as u64;
            self.header.pages = Some(renumber.len() as u32);
            pages.extend(self.numbers.iter().map(|&number| PageId(number)));
            return Ok(true);
        }
        if !self.next_batch()? {
            return Ok(false);
        }
        let mut numbers = self.numbers.iter().map(|&number| PageId(number));
        for extent in &self.batch.extents {
            let of_extent = numbers.by_ref().take(extent.count as usize);
            if extent.kind.is_access() {
                pages.extend(of_extent);
            } else {
                of_extent.for_each(drop);
            }
        }
        Ok(true)
    }

    /// Fills `records` with at least one record; false at the end of all files.
    fn read_records(&mut self) -> Result<bool, Error> {
        self.records.clear();
        // A call may return all records that were held back, so release their memory again.
        self.records.shrink_to(RECORDS_KEPT);
        self.mapped_records = 0;
        while self.records.is_empty() && !self.is_read {
            self.is_read = !self.merge.read(&mut self.records, &mut self.ledger)?;
        }
        Ok(!self.records.is_empty())
    }

    /// Numbers the pages of the batch. A full table is dropped for good; from then on only (space,
    /// address) identifies a page.
    fn number(&mut self) {
        self.numbers.clear();
        let Some(renumber) = &mut self.renumber else { return };
        let names_beyond = self.ledger.process_bytes().saturating_sub(PROCESS_BYTES_FREE);
        let fits = match self.numbering_bytes_max {
            Some(bytes) if names_beyond > 0 => {
                renumber.set_limit(bytes.saturating_sub(names_beyond))
            }
            _ => Ok(()),
        };
        let numbered = if fits.is_err() {
            fits
        } else if self.header.kind == TraceKind::Objects {
            renumber.number_batch(&self.batch.ids, &mut self.numbers)
        } else {
            renumber.number_extents(self.batch.key_extents(), &mut self.numbers)
        };
        if numbered.is_err() {
            self.numbers.clear();
            self.renumber = None;
            self.header.pages = None;
            return;
        }
        self.header.pages = Some(renumber.len() as u32);
        if self.numbers.len() < self.batch.rows {
            // The batch has exits. In a trace with exits every extent has a single row.
            let numbers = std::mem::take(&mut self.numbers).into_iter();
            self.numbers
                .extend(page_numbers(self.batch.extents.iter().map(|extent| extent.kind), numbers));
        }
    }

    fn complete_header(&mut self) {
        if std::mem::replace(&mut self.is_complete, true) {
            return;
        }
        // The header can be as large as the table, so drop the table first.
        self.renumber = None;
        self.header.processes = self.ledger.take_processes();
        if self.header.processes.is_empty() {
            // Every event names a process; here all name an unknown process.
            self.header.processes = Processes::from_iter([(0, "")]);
        }
        self.header.devices = self.ledger.devices().to_vec();
        self.header.files = self.ledger.files.list().to_vec();
        let mut recorders = std::mem::take(&mut self.ledger.recorders).into_iter();
        self.header.recorder = recorders.next();
        self.header.further_recorders = recorders.collect();
        self.header.recorded_ns = self.ledger.recorded_ns();
        self.header.zeros = self.ledger.zeros();
        self.header.shortage = self.ledger.shortage.known();
        self.header.system = self.ledger.system.take();
        self.header.disordered = self.mapper.disordered();
        self.header.losses = self.ledger.losses();
        self.header.rejects = self.ledger.rejects().1.to_vec();
        self.header.seen = self.ledger.seen();
        let name = |path: &Path| {
            let name = path.file_name().unwrap_or(path.as_os_str());
            name.to_string_lossy().into_owned()
        };
        self.header.sources = self
            .meters
            .iter()
            .filter_map(|(path, meter)| Some((meter.sha256()?, name(path))))
            .collect();
    }

    /// The header so far.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The ledger so far.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Bytes read, and bytes of all files (0 if unknown).
    pub fn progress(&self) -> (u64, u64) {
        (self.meters.iter().map(|(_, meter)| meter.bytes()).sum(), self.bytes_total)
    }
}

/// The files of a recording; nearly always a single file.
struct RecordingFiles {
    name: PathBuf,
    readers: Vec<Box<dyn RecordReader>>,
}

impl RecordingFiles {
    /// A reader of its records; if requests appear at several stages, only those of one stage.
    fn read(mut self, held_max: usize) -> Box<dyn RecordReader> {
        let has_stages = self.readers.iter().any(|reader| reader.traits().has_stages);
        match self.readers.pop() {
            Some(only) if self.readers.is_empty() && !has_stages => only,
            last => {
                self.readers.extend(last);
                Box::new(Staged::new(Merge::new(self.readers), held_max))
            }
        }
    }
}

/// The format that the caller names, or the format recognised by content.
fn format_of(input: &mut Input, options: &PipelineOptions) -> Result<&'static Format, Error> {
    let has_columns = !options.read.columns.is_empty();
    let format = match &options.format {
        Some(name) => formats::by_name(name).ok_or_else(|| {
            let names: Vec<&str> = formats::CATALOG.iter().map(|format| format.name).collect();
            let message = match references::formats::by_name(name) {
                Some(_) => format!("{name} has memory references of a program: --as refs"),
                None => format!("no format is called {name:?}; formats are {}", names.join(", ")),
            };
            Error::new(ErrorKind::Usage, input.path(), message)
        })?,
        // If the caller names columns, the file has columns.
        None if has_columns => {
            let format = formats::CATALOG.iter().find(|format| format.has_columns);
            format.expect("a format of the catalog has named columns")
        }
        None => formats::recognise(input)?,
    };
    if has_columns && !format.has_columns {
        let message = format!("is {}, which has no named columns to map", format.name);
        return Err(Error::new(ErrorKind::Usage, input.path(), message));
    }
    Ok(format)
}
