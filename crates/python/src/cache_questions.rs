//! Analyses of recordings, and miss counts of policies.

use std::collections::BTreeMap;
use std::path::PathBuf;

use policy::eviction::{Build, Choice};
use pyo3::prelude::*;
use serde_json::json;

use crate::errors::{detached, usage};
use crate::opening::{Recording, with_losses};
use crate::texts::{answered, with_options};

/// Skew, single accesses and reuse of a recording, with pages of `page_bytes` or as recorded, as JSON
/// text. With `top_processes`, the result also has this number of processes.
#[pyfunction]
#[pyo3(signature = (path, format, mapping, columns, *, top_processes=None, page_bytes=None, progress=None))]
#[allow(clippy::too_many_arguments, reason = "the options of one Python call")]
pub fn analyze(
    py: Python<'_>,
    path: PathBuf,
    format: Option<String>,
    mapping: Option<&str>,
    columns: Vec<(String, String)>,
    top_processes: Option<usize>,
    page_bytes: Option<u64>,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let recording = Recording::new(py, path, format, mapping, columns)?;
    let answer = detached(py, progress, |progress| {
        let source = recording.open()?;
        let page_bytes = page_bytes.unwrap_or(source.header().page_bytes);
        let mut source = recording.grouped(source, page_bytes)?;
        let analysis = sim::analysis::analyze(&mut *source, top_processes, progress)?;
        Ok::<_, sim::Error>(with_losses(json!(analysis), &*source))
    })?;
    Ok(answered(answer))
}

/// Exact misses of each policy with each number of frames, as JSON text.
#[pyfunction]
#[pyo3(signature = (path, format, mapping, columns, *, policies, frames, progress=None))]
#[allow(clippy::too_many_arguments, reason = "the options of one Python call")]
pub fn misses(
    py: Python<'_>,
    path: PathBuf,
    format: Option<String>,
    mapping: Option<&str>,
    columns: Vec<(String, String)>,
    policies: Vec<String>,
    frames: Vec<u64>,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let recording = Recording::new(py, path, format, mapping, columns)?;
    let policies: Vec<&str> = policies.iter().map(String::as_str).collect();
    let frames: Vec<u32> = frames
        .into_iter()
        .map(|size| {
            let why = || usage(py, &format!("{size} frames are more than 4,294,967,295"));
            u32::try_from(size).map_err(|_| why())
        })
        .collect::<PyResult<_>>()?;
    let answer = detached(py, progress, |progress| {
        let mut source = recording.open()?;
        let counts = sim::misses::run(&mut *source, &policies, &frames, progress)?;
        Ok::<_, sim::Error>(with_losses(json!(counts), &*source))
    })?;
    Ok(answered(answer))
}

/// A policy, given as `NAME` or `NAME:OPTION=VALUE,...`, with all its options, as JSON text.
#[pyfunction]
pub fn describe_policy(py: Python<'_>, text: &str) -> PyResult<String> {
    let choice = Choice::parse(text).map_err(|message| usage(py, &message))?;
    Ok(answered(json!({
        "policy": choice.row.name,
        "label": choice.label,
        "options": choice.options.into_iter().collect::<BTreeMap<_, _>>(),
        "knows_the_future": matches!(choice.build, Build::Offline(_)),
    })))
}

/// The eviction policies of the catalog and their options, as JSON text.
#[pyfunction]
pub fn policies() -> String {
    let rows = policy::eviction::CATALOG.iter();
    with_options(rows.map(|row| (row.name, row.summary, row.options)))
}
