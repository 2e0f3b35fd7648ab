//! Traces of memory references: import and info.

use std::path::{Path, PathBuf};

use pyo3::prelude::*;
use trace::references::{
    self, CaptureReport, Origin, Places, Reader, ReferenceImportOptions, formats,
};

use crate::answers::{Answer, catalog};
use crate::errors::detached;
use crate::results::{ImportReferences, References, Row};

/// Imports a foreign file of references; returns the report.
#[pyfunction]
#[pyo3(signature = (path, output, format, *, strict=false, force=false, progress=None))]
pub fn import_references(
    py: Python<'_>,
    path: PathBuf,
    output: PathBuf,
    format: Option<String>,
    strict: bool,
    force: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<Answer<ImportReferences>> {
    let options = ReferenceImportOptions { format, strict, force };
    let report =
        detached(py, progress, |progress| references::import(&path, &output, &options, progress))?;
    Ok(Answer(ImportReferences { schema: "pagewise.import-references/1", report }))
}

/// Summarizes a trace of references.
#[pyfunction]
#[pyo3(signature = (path, *, progress=None))]
pub fn references_info(
    py: Python<'_>,
    path: PathBuf,
    progress: Option<Py<PyAny>>,
) -> PyResult<Answer<References>> {
    let info =
        detached(py, progress, |progress| references::info(&mut Reader::open(&path)?, progress))?;
    Ok(Answer(info.into()))
}

/// Writes the references of the capture plugin until the program ends; returns the report. `stream` is the pipe and `shared` the shared memory with the current chunk, both as
/// descriptors of this process. `status` waits for the program and returns its status as `subprocess`
/// does, or None if the capture was interrupted.
#[pyfunction]
#[pyo3(signature = (stream, shared, output, command, architecture, status, *, follows_threads=false, filter_blocks=64, force=false, progress=None))]
#[allow(clippy::too_many_arguments, reason = "the options of one Python call")]
pub fn capture_references(
    py: Python<'_>,
    stream: u32,
    shared: u32,
    output: PathBuf,
    command: Vec<String>,
    architecture: String,
    status: Py<PyAny>,
    follows_threads: bool,
    filter_blocks: usize,
    force: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<Answer<CaptureReport>> {
    let origin = Origin {
        architecture: Some(architecture),
        follows_threads: Some(follows_threads),
        filter_blocks,
        ..Origin::new("capture", command)
    };
    let opened = |number: u32| Path::new("/proc/self/fd").join(number.to_string());
    let (stream, shared) = (opened(stream), opened(shared));
    let places = Places { stream: &stream, shared: &shared, output: &output };
    // Waiting fails only if it is interrupted.
    let waited =
        || Python::attach(|py| status.call0(py).and_then(|value| value.extract(py)).ok().flatten());
    let report = detached(py, progress, |progress| {
        references::capture(places, &origin, force, progress, waited)
    })?;
    Ok(Answer(report))
}

/// Size of the memory that a capture shares with its plugin.
#[pyfunction]
pub fn capture_shared_bytes() -> usize {
    references::CHUNK_BYTES
}

/// The foreign formats of references.
#[pyfunction]
pub fn reference_formats() -> Answer<Vec<Row>> {
    catalog(formats::CATALOG.iter().map(|row| (row.name, row.summary)))
}
