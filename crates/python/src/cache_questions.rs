//! Analyses of recordings, and miss counts of policies.

use std::path::PathBuf;

use policy::eviction::{Build, Choice};
use pyo3::prelude::*;
use types::PAGE_BYTES;

use crate::answers::{Answer, with_options};
use crate::errors::{detached, usage};
use crate::opening::RecordingArguments;
use crate::results::{self, Analysis, DescribedPolicy, Misses, PolicyRow};

/// Skew, single accesses and reuse of a recording, with pages of `page_bytes` or as recorded. With
/// `top_processes`, the result also has this number of processes. For larger pages the recording is read
/// twice.
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
) -> PyResult<Answer<Analysis>> {
    let recording = RecordingArguments::new(py, path, format, mapping, columns)?;
    let answer = detached(py, progress, |progress| {
        let analyzed = |page_bytes: Option<u64>, top_processes| {
            let source = recording.open()?;
            let page_bytes = page_bytes.unwrap_or(source.header().page_bytes);
            let mut source = recording.grouped(source, page_bytes)?;
            let analysis = sim::analysis::analyze(&mut *source, top_processes, progress)?;
            Ok::<_, sim::Error>((analysis, source.header().losses.clone()))
        };
        let (analysis, losses) = analyzed(page_bytes, top_processes)?;
        let is_larger = page_bytes.is_some_and(|bytes| bytes > PAGE_BYTES);
        let recorded = is_larger.then(|| analyzed(Some(PAGE_BYTES), None)).transpose()?;
        Ok::<_, sim::Error>(Analysis {
            analysis,
            losses,
            trace: results::named(recording.path()),
            at_4_kib: recorded.map(|(analysis, _)| analysis.into()),
        })
    })?;
    Ok(Answer(answer))
}

/// Exact misses of each policy with each number of frames.
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
) -> PyResult<Answer<Misses>> {
    let recording = RecordingArguments::new(py, path, format, mapping, columns)?;
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
        let header = source.header();
        let (kind, losses) = (header.kind, header.losses.clone());
        let trace = results::named(recording.path());
        Ok::<_, sim::Error>(Misses { counts, kind, losses, trace })
    })?;
    Ok(Answer(answer))
}

/// A policy, given as `NAME` or `NAME:OPTION=VALUE,...`, with all its options.
#[pyfunction]
pub fn describe_policy(py: Python<'_>, text: &str) -> PyResult<Answer<DescribedPolicy>> {
    let choice = Choice::parse(text).map_err(|message| usage(py, &message))?;
    Ok(Answer(DescribedPolicy {
        policy: choice.row.name,
        label: choice.label,
        options: choice.options.into_iter().collect(),
        knows_the_future: matches!(choice.build, Build::Offline(_)),
    }))
}

/// The eviction policies of the catalog and their options.
#[pyfunction]
pub fn policies() -> Answer<Vec<PolicyRow>> {
    let rows = policy::eviction::CATALOG.iter();
    with_options(rows.map(|row| (row.name, row.summary, row.options)))
}
