//! Imports foreign recordings into a trace file, in a single pass and bounded memory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Serialize;
use types::Progress;

use crate::formats::{ReadOptions, Role};
use crate::pipeline::{Pipeline, PipelineOptions};
use crate::record::Mapping;
use crate::row_extents::RowExtent;
use crate::store::{Writer, is_parquet, join, refuse_inputs};
use crate::{Error, ErrorKind, Loss, Position, Reject, TraceKind};

/// Largest size of the table that numbers pages; beyond it pages are stored by (space, address).
const NUMBERING_BYTES_MAX: usize = 200 << 20;

/// Options of an import.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// Catalog name of the format; `None` to recognise it by content.
    pub format: Option<String>,
    /// How records become events; `None` for the format's default.
    pub mapping: Option<Mapping>,
    /// Chosen roles and their columns, for formats with named columns.
    pub columns: Vec<(Role, String)>,
    /// Whether an unreadable line is an error.
    pub strict: bool,
    /// Whether to replace an existing output.
    pub force: bool,
}

impl ImportOptions {
    pub(crate) fn pipeline(&self) -> PipelineOptions {
        PipelineOptions {
            format: self.format.clone(),
            read: ReadOptions { mapping: self.mapping, columns: self.columns.clone() },
            is_strict: self.strict,
            is_hashed: true,
            numbering_bytes_max: Some(NUMBERING_BYTES_MAX),
        }
    }

    /// The given options for reading a recording, as spelled on the command line.
    fn reading_options(&self) -> Vec<&'static str> {
        let given = [
            (self.format.is_some(), "--format"),
            (self.mapping.is_some(), "--as"),
            (!self.columns.is_empty(), "--map"),
        ];
        given.into_iter().filter(|&(is_given, _)| is_given).map(|(_, name)| name).collect()
    }

    /// Refuses options for reading a recording, which the trace file at `path` does not need.
    ///
    /// # Errors
    /// `Usage`, naming the given options.
    pub(crate) fn refuse_trace_file(&self, path: &Path) -> Result<(), Error> {
        let options = self.reading_options();
        if options.is_empty() {
            return Ok(());
        }
        let names = options.join(" and ");
        let why = format!(
            "is a trace file, and what a record is was decided when it was imported; leave out \
             {names}, or import the recording again with {names}"
        );
        Err(Error::new(ErrorKind::Usage, path, why))
    }

    /// Whether any option for reading a recording is given.
    pub(crate) fn describe_recording(&self) -> bool {
        !self.reading_options().is_empty()
    }
}

/// The result of an import.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct ImportReport {
    /// Version of this report's layout.
    pub schema: u32,
    /// Catalog name of the format.
    pub format: String,
    /// What the pages of the trace are.
    pub kind: Option<TraceKind>,
    /// Events written.
    pub events: u64,
    /// Events that are accesses.
    pub accesses: u64,
    /// Accesses that write data to storage.
    pub writes: u64,
    /// Distinct pages; `None` if they were too many to number.
    pub pages: Option<u32>,
    /// Whether pages are numbered; otherwise an analysis numbers them when it reads the trace.
    pub renumbered: bool,
    /// Nanoseconds from the first event to the latest; `None` without a clock.
    pub duration_ns: Option<i64>,
    /// Valid records that are no access, by reason.
    pub skipped: BTreeMap<String, u64>,
    /// Lines that could not be read.
    pub rejected: u64,
    /// The first ten of the unreadable lines.
    pub rejects: Vec<Reject>,
    /// Counts of the recording's events, by its own names.
    pub seen: BTreeMap<String, u64>,
    /// Columns of a table that were not read, by name.
    pub unused_columns: Vec<String>,
    /// What was lost.
    pub losses: Vec<Loss>,
    /// Records that are earlier than the record before them; kept in the order of the recording.
    pub disordered: u64,
    /// sha256 and name of each source file.
    pub sources: Vec<(String, String)>,
}

/// Version of `ImportReport`'s layout.
const REPORT_SCHEMA: u32 = 1;

/// Imports `inputs` (`-` is standard input), merged by time, into the trace file `output`, which
/// appears only when it is complete. If the inputs are pagewise trace files, they must be slices of the
/// same trace.
///
/// # Errors
/// If an input cannot be read, recognised or mapped, or the output cannot be written, with file and
/// position; `Cancelled` if `progress` asks to stop. In all cases there is no output.
pub fn import(
    inputs: &[PathBuf],
    output: &Path,
    options: &ImportOptions,
    progress: &dyn Progress,
) -> Result<ImportReport, Error> {
    if inputs.len() > 1 && inputs.iter().any(|input| is_parquet(input)) {
        return joined(inputs, output, options, progress);
    }
    refuse_inputs(inputs.iter().map(PathBuf::as_path), output)?;
    let mut pipeline = Pipeline::open(inputs, &options.pipeline())?;
    let mut writer = Writer::create(output, options.force)?;
    let mut counts = Counts::default();
    while let Some(batch) = pipeline.next_runs()? {
        counts.add(batch.extents);
        writer.write_extents(batch.columns, batch.extents, batch.pages)?;
        let (done, total) = pipeline.progress();
        progress.advance(done, total).map_err(|_| Error::cancelled(output))?;
    }
    let header = pipeline.header();
    let (rejected, rejects) = pipeline.ledger().rejects();
    if let [first, ..] = rejects
        && header.events == 0
        && pipeline.ledger().skipped().next().is_none()
    {
        return Err(nothing_read(first, &header.format));
    }
    writer.finish(header)?;
    Ok(ImportReport {
        schema: REPORT_SCHEMA,
        format: header.format.clone(),
        kind: Some(header.kind),
        events: header.events,
        accesses: counts.accesses,
        writes: counts.writes,
        pages: header.pages,
        renumbered: header.pages.is_some(),
        duration_ns: header.has_clock.then_some(counts.last_ns),
        skipped: pipeline.ledger().skipped().map(|(why, count)| (why.to_owned(), count)).collect(),
        rejected,
        rejects: rejects.to_vec(),
        seen: header.seen.iter().cloned().collect(),
        unused_columns: pipeline.ledger().unused_columns().map(str::to_owned).collect(),
        losses: header.losses.clone(),
        disordered: header.disordered,
        sources: header.sources.clone(),
    })
}

/// Why recordings of which no line could be read are refused, at the first of these lines.
fn nothing_read(first: &Reject, format: &str) -> Error {
    let Reject { file, line, expected, found } = first;
    let message = format!("no line can be read as {format}; expected {expected}, found {found:?}");
    Error::new(ErrorKind::Corrupt, file, message).at(Position::Line(*line))
}

/// Makes one trace of slices.
fn joined(
    inputs: &[PathBuf],
    output: &Path,
    options: &ImportOptions,
    progress: &dyn Progress,
) -> Result<ImportReport, Error> {
    if let Some(other) = inputs.iter().find(|input| !is_parquet(input)) {
        let why = "is not a trace file: only slices of one trace can be joined";
        return Err(Error::new(ErrorKind::Usage, other, why));
    }
    options.refuse_trace_file(&inputs[0])?;
    let joined = join(inputs, output, options.force, progress)?;
    let repeated = (joined.repeated > 0).then(|| (REPEATED.to_owned(), joined.repeated));
    let header = joined.header;
    Ok(ImportReport {
        schema: REPORT_SCHEMA,
        format: header.format,
        kind: Some(header.kind),
        events: header.events,
        accesses: joined.accesses,
        writes: joined.writes,
        pages: header.pages,
        renumbered: true,
        duration_ns: Some(joined.duration_ns),
        skipped: repeated.into_iter().collect(),
        losses: header.losses,
        disordered: header.disordered,
        sources: header.sources,
        ..ImportReport::default()
    })
}

/// Reason for skipping events where slices overlap.
const REPEATED: &str = "events that an earlier slice has";

/// Counts over all rows written.
#[derive(Default)]
struct Counts {
    accesses: u64,
    writes: u64,
    last_ns: i64,
}

impl Counts {
    fn add(&mut self, extents: &[RowExtent]) {
        for extent in extents {
            let accesses = u64::from(extent.kind.is_access()) * u64::from(extent.count);
            self.accesses += accesses;
            self.writes += accesses * u64::from(extent.kind.is_write(extent.flags));
            self.last_ns = self.last_ns.max(extent.time_ns);
        }
    }
}
