//! Import: foreign recordings into a trace file, in one pass and bounded memory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Serialize;
use types::Progress;

use crate::formats::{ReadOptions, Role};
use crate::open::is_parquet;
use crate::pipeline::{Pipeline, PipelineOptions};
use crate::record::Mapping;
use crate::runs::Run;
use crate::store::{Writer, join, refuse_inputs};
use crate::{Error, ErrorKind, Loss, Reject, TraceKind};

/// Most bytes of the table that numbers pages; beyond it pages are stored by (space, address).
const NUMBERING_BYTES_MAX: usize = 200 << 20;

/// What the caller decides about an import.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// Catalog name of the format; none = recognised by content.
    pub format: Option<String>,
    /// How records become events; none = as the format usually does.
    pub mapping: Option<Mapping>,
    /// Which column holds what, for formats with named columns.
    pub columns: Vec<(Role, String)>,
    /// A line that cannot be read is an error.
    pub strict: bool,
    /// An output that exists is replaced.
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

    /// The options that say how to read a recording, as they are given on the command line.
    fn reading_options(&self) -> Vec<&'static str> {
        let given = [
            (self.format.is_some(), "--format"),
            (self.mapping.is_some(), "--as"),
            (!self.columns.is_empty(), "--map"),
        ];
        given.into_iter().filter(|&(is_given, _)| is_given).map(|(_, name)| name).collect()
    }

    /// Checks that nothing says how to read the trace file at `path`: it knows that itself.
    ///
    /// # Errors
    /// `Usage`, with the options that are given.
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

    /// Whether anything says how to read a recording.
    pub(crate) fn describe_recording(&self) -> bool {
        !self.reading_options().is_empty()
    }
}

/// What an import did.
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
    /// Accesses that carry data towards storage.
    pub writes: u64,
    /// Distinct pages; none where they were too many to number.
    pub pages: Option<u32>,
    /// Whether pages are numbered; if not, an analysis numbers them when it reads the trace.
    pub renumbered: bool,
    /// Nanoseconds from the first event to the latest; none without a clock.
    pub duration_ns: Option<i64>,
    /// Records that are understood but are no access, by reason.
    pub skipped: BTreeMap<String, u64>,
    /// Lines that could not be read.
    pub rejected: u64,
    /// The first ten of them.
    pub rejects: Vec<Reject>,
    /// What the recording holds, by the names of its own events.
    pub seen: BTreeMap<String, u64>,
    /// What was lost.
    pub losses: Vec<Loss>,
    /// Records whose time lies before that of the record ahead of them; kept as they came.
    pub disordered: u64,
    /// sha256 and name of each file.
    pub sources: Vec<(String, String)>,
}

/// Version of `ImportReport`'s layout.
const REPORT_SCHEMA: u32 = 1;

/// Imports `inputs` (`-` is standard input), merged by time, into the trace file `output`, which
/// appears only once it is complete. Several trace files of ours are slices of one trace.
///
/// # Errors
/// What cannot be read, recognised, mapped or written, with file and position; `Cancelled` if
/// `progress` asks to stop. No output is left behind then.
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
        counts.add(batch.runs);
        writer.write_runs(batch.shape, batch.runs, batch.pages)?;
        let (done, total) = pipeline.progress();
        progress.advance(done, total).map_err(|_| Error::cancelled(output))?;
    }
    let header = pipeline.header();
    writer.finish(header)?;
    let (rejected, rejects) = pipeline.ledger().rejects();
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
        losses: header.losses.clone(),
        disordered: header.disordered,
        sources: header.sources.clone(),
    })
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

/// What is skipped where slices overlap.
const REPEATED: &str = "events that an earlier slice has";

/// What is counted while rows pass.
#[derive(Default)]
struct Counts {
    accesses: u64,
    writes: u64,
    last_ns: i64,
}

impl Counts {
    fn add(&mut self, runs: &[Run]) {
        for run in runs {
            let accesses = u64::from(run.kind.is_access()) * u64::from(run.count);
            self.accesses += accesses;
            self.writes += accesses * u64::from(run.kind.is_write(run.flags));
            self.last_ns = self.last_ns.max(run.time_ns);
        }
    }
}
