//! Recordings: import, info, slice, and events as columns.

use std::ops::Range;
use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use trace::import::ImportReport;
use trace::{Header, Opened, Role, Rows};
use types::{EventKind, PAGE_BYTES, PageClass, Progress};

use crate::answers::{Answer, catalog};
use crate::arrow_stream::ArrowStream;
use crate::errors::{Raise, detached, usage};
use crate::events::EventReader;
use crate::opening::{RecordingArguments, options};
use crate::results::{self, Row};

/// Imports recordings into a trace file; returns the report.
#[pyfunction]
#[pyo3(signature = (inputs, output, format, mapping, columns, *, strict=false, force=false, progress=None))]
#[allow(clippy::too_many_arguments, reason = "the options of one Python call")]
pub fn import_trace(
    py: Python<'_>,
    inputs: Vec<PathBuf>,
    output: PathBuf,
    format: Option<String>,
    mapping: Option<&str>,
    columns: Vec<(String, String)>,
    strict: bool,
    force: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<Answer<ImportReport>> {
    let mut options = options(py, format, mapping, columns)?;
    options.strict = strict;
    options.force = force;
    let report = detached(py, progress, |progress| {
        trace::import::import(&inputs, &output, &options, progress)
    })?;
    Ok(Answer(report))
}

/// Summarizes a recording of any kind: returns `events`, `allocations` or `references`, and the info of
/// this kind. It opens the recording once, so the recording may be a pipe.
#[pyfunction]
#[pyo3(signature = (path, format, mapping, columns, *, progress=None))]
pub fn info(
    py: Python<'_>,
    path: PathBuf,
    format: Option<String>,
    mapping: Option<&str>,
    columns: Vec<(String, String)>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(&'static str, Answer<results::Info>)> {
    let recording = RecordingArguments::new(py, path, format, mapping, columns)?;
    detached(py, progress, |progress| {
        Ok::<_, trace::Error>(match recording.open_any()? {
            Opened::Events(mut source) => {
                let info = trace::store::info(&mut *source, progress)?;
                ("events", Answer(results::Info::Events(Box::new(info))))
            }
            Opened::Allocations(input) => {
                let history = trace::allocations::read_input(input, progress)?;
                let info = trace::allocations::info(&history).into();
                ("allocations", Answer(results::Info::Allocations(Box::new(info))))
            }
            Opened::References(mut reader) => {
                let info = trace::references::info(&mut reader, progress)?.into();
                ("references", Answer(results::Info::References(Box::new(info))))
            }
        })
    })
}

/// The names of the columns of a CSV file, and of those that are not read unless the caller chooses
/// columns; `None` for other formats.
#[pyfunction]
pub fn csv_columns(
    py: Python<'_>,
    path: PathBuf,
    format: Option<String>,
    mapping: Option<&str>,
) -> PyResult<Option<(Vec<String>, Vec<String>)>> {
    let options = options(py, format, mapping, Vec::new())?;
    let columns = detached(py, None, |_| trace::csv_columns(&path, &options))?;
    Ok(columns.map(|columns| (columns.names, columns.unread)))
}

/// Ensures that the pages of a recording are numbered and of `page_bytes`: writes a copy to `output`,
/// unless the recording is a trace file with such pages. Returns whether it wrote a copy, and the numbers
/// of pages and events.
#[pyfunction]
#[pyo3(signature = (path, format, mapping, columns, *, output, page_bytes=PAGE_BYTES, progress=None))]
#[allow(clippy::too_many_arguments, reason = "the options of one Python call")]
pub fn number_trace(
    py: Python<'_>,
    path: PathBuf,
    format: Option<String>,
    mapping: Option<&str>,
    columns: Vec<(String, String)>,
    output: PathBuf,
    page_bytes: u64,
    progress: Option<Py<PyAny>>,
) -> PyResult<(bool, u32, u64)> {
    let recording = RecordingArguments::new(py, path, format, mapping, columns)?;
    detached(py, progress, |progress| {
        let source = recording.open()?;
        // A recording that is read directly knows neither number before its end.
        if let (Some(pages), events @ 1..) = (source.header().pages, source.header().events)
            && source.header().page_bytes == page_bytes
        {
            return Ok((false, pages, events));
        }
        let mut source = recording.grouped(source, page_bytes)?;
        let header = trace::store::save(&mut *source, &output, progress)?;
        Ok::<_, trace::Error>((true, header.pages.unwrap_or(0), header.events))
    })
}

/// Copies the events of a trace file from `from_ns` to `to_ns`, exclusive; returns the new header.
#[pyfunction]
#[pyo3(signature = (path, output, *, from_ns=None, to_ns=None, force=false, progress=None))]
pub fn slice_trace(
    py: Python<'_>,
    path: PathBuf,
    output: PathBuf,
    from_ns: Option<i64>,
    to_ns: Option<i64>,
    force: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<Answer<Header>> {
    let times = Range { start: from_ns.unwrap_or(0), end: to_ns.unwrap_or(i64::MAX) };
    let header = detached(py, progress, |progress| {
        trace::store::slice(&path, times, &output, force, progress)
    })?;
    Ok(Answer(header))
}

/// The events of a recording as an Arrow stream.
#[pyfunction]
pub fn events(
    py: Python<'_>,
    path: PathBuf,
    format: Option<String>,
    mapping: Option<&str>,
    columns: Vec<(String, String)>,
) -> PyResult<ArrowStream> {
    let recording = RecordingArguments::new(py, path, format, mapping, columns)?;
    let source = py.detach(|| recording.open()).map_err(|error| error.raise(py))?;
    Ok(ArrowStream::new(Box::new(EventReader::new(source))))
}

/// A column: its name, the name of its numpy type, and the function that appends its values.
type ColumnRow = (&'static str, &'static str, fn(&Rows, &mut Vec<u8>));

/// The columns that `column` returns.
const COLUMNS: [ColumnRow; 7] = [
    ("time_ns", "<i8", |rows, bytes| {
        bytes.extend(rows.events.time_ns.iter().flat_map(|time| time.to_le_bytes()));
    }),
    ("kind", "<u1", |rows, bytes| bytes.extend(rows.events.kind.iter().map(|kind| *kind as u8))),
    ("page", "<u4", |rows, bytes| {
        bytes.extend(rows.events.page.iter().flat_map(|page| page.0.to_le_bytes()));
    }),
    ("process", "<u4", |rows, bytes| {
        bytes.extend(rows.events.process.iter().flat_map(|process| process.0.to_le_bytes()));
    }),
    ("flags", "<u1", |rows, bytes| bytes.extend(rows.events.flags.iter().map(|flags| flags.0))),
    ("space", "<u4", |rows, bytes| {
        bytes.extend(rows.space.iter().flat_map(|space| space.to_le_bytes()));
    }),
    ("address", "<u8", |rows, bytes| {
        bytes.extend(rows.address.iter().flat_map(|address| address.to_le_bytes()));
    }),
];

/// A column of a recording as little-endian bytes, with the name of its numpy type.
#[pyfunction]
#[pyo3(signature = (path, format, mapping, columns, name, *, progress=None))]
#[allow(clippy::too_many_arguments, reason = "the options of one Python call")]
pub fn column<'py>(
    py: Python<'py>,
    path: PathBuf,
    format: Option<String>,
    mapping: Option<&str>,
    columns: Vec<(String, String)>,
    name: &str,
    progress: Option<Py<PyAny>>,
) -> PyResult<(Bound<'py, PyBytes>, &'static str)> {
    let recording = RecordingArguments::new(py, path, format, mapping, columns)?;
    let (_, element, append) =
        COLUMNS.iter().find(|(known, ..)| *known == name).ok_or_else(|| {
            let names = COLUMNS.map(|(name, ..)| name).join(", ");
            usage(py, &format!("no column {name:?}; columns are {names}"))
        })?;
    let bytes = detached(py, progress, |progress| {
        let mut source = recording.open()?;
        let (mut rows, mut bytes, mut done) = (Rows::default(), Vec::new(), 0);
        while source.next_rows(&mut rows)? {
            append(&rows, &mut bytes);
            done += rows.len() as u64;
            progress.advance(done, source.header().events).map_err(sim::Error::from)?;
        }
        Ok::<_, sim::Error>(bytes)
    })?;
    Ok((PyBytes::new(py, &bytes), element))
}

/// Names of the event kinds, ordered by number.
#[pyfunction]
pub fn kinds() -> Vec<&'static str> {
    EventKind::ALL.iter().map(|kind| kind.name()).collect()
}

/// Names of the page classes, ordered by number.
#[pyfunction]
pub fn classes() -> Vec<&'static str> {
    PageClass::ALL.iter().map(|class| class.name()).collect()
}

/// Names of what a column of a CSV file may be.
#[pyfunction]
pub fn roles() -> Vec<&'static str> {
    Role::ALL.iter().map(|(name, _)| *name).collect()
}

/// The formats of the catalog.
#[pyfunction]
pub fn formats() -> Answer<Vec<Row>> {
    catalog(trace::formats::CATALOG.iter().map(|row| (row.name, row.summary)))
}
