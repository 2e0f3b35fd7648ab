//! Analyses of recordings, and miss counts of policies.

use std::path::PathBuf;

use policy::eviction::{Build, Choice};
use pyo3::prelude::*;
use trace::{Header, Source};
use types::PAGE_BYTES;

use crate::answers::{Answer, with_options};
use crate::errors::{detached, usage};
use crate::opening::{RecordingArguments, sample_size};
use crate::results::{self, Analysis, DescribedPolicy, Misses, PolicyRow};

/// Skew, single accesses and reuse of a recording, with pages of `page_bytes` or as recorded. With
/// `top_processes`, the result also has this number of processes. For larger pages the recording is read
/// twice. `sample_rate` or `sample_pages` ask for estimates from a sample, of pages as recorded; `memory_limit`
/// in bytes bounds the memory.
#[pyfunction]
#[pyo3(signature = (path, format, mapping, columns, *, top_processes=None, page_bytes=None, sample_rate=None, sample_pages=None, memory_limit=None, progress=None))]
#[allow(clippy::too_many_arguments, reason = "the options of one Python call")]
pub fn analyze(
    py: Python<'_>,
    path: PathBuf,
    format: Option<String>,
    mapping: Option<&str>,
    columns: Vec<(String, String)>,
    top_processes: Option<usize>,
    page_bytes: Option<u64>,
    sample_rate: Option<f64>,
    sample_pages: Option<u64>,
    memory_limit: Option<u64>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Answer<Analysis>> {
    let recording = RecordingArguments::new(py, path, format, mapping, columns)?;
    let sample = sample_size(py, sample_rate, sample_pages)?;
    let answer = detached(py, progress, |progress| {
        if let Some(size) = sample {
            let mut source = recording.sampled(size, progress)?;
            let analysis = sim::analysis::analyze_sampled(&mut source, top_processes, progress)?;
            let losses = source.header().losses.clone();
            let trace = results::named(recording.path());
            return Ok(Analysis { analysis, losses, trace, at_4_kib: None });
        }
        let analyzed = |page_bytes: Option<u64>, top_processes: Option<usize>| {
            let by_process = top_processes.is_some();
            let bytes = |header: &Header| sim::analysis::bytes_per_page(header, by_process);
            let (source, spare_bytes) = recording.within(memory_limit, bytes, progress)?;
            let page_bytes = page_bytes.unwrap_or(source.header().page_bytes);
            let mut source = recording.grouped(source, page_bytes)?;
            let analysis =
                sim::analysis::analyze_within(&mut *source, top_processes, spare_bytes, progress)?;
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

/// Misses of each policy with each number of frames: exact, or with `sample_rate` or `sample_pages` estimated.
/// `memory_limit` in bytes bounds the memory of exact counts.
#[pyfunction]
#[pyo3(signature = (path, format, mapping, columns, *, policies, frames, sample_rate=None, sample_pages=None, memory_limit=None, progress=None))]
#[allow(clippy::too_many_arguments, reason = "the options of one Python call")]
pub fn misses(
    py: Python<'_>,
    path: PathBuf,
    format: Option<String>,
    mapping: Option<&str>,
    columns: Vec<(String, String)>,
    policies: Vec<String>,
    frames: Vec<u64>,
    sample_rate: Option<f64>,
    sample_pages: Option<u64>,
    memory_limit: Option<u64>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Answer<Misses>> {
    let recording = RecordingArguments::new(py, path, format, mapping, columns)?;
    let sample = sample_size(py, sample_rate, sample_pages)?;
    let policies: Vec<&str> = policies.iter().map(String::as_str).collect();
    let frames: Vec<u32> = frames
        .into_iter()
        .map(|size| {
            let why = || usage(py, &format!("{size} frames are more than 4,294,967,295"));
            u32::try_from(size).map_err(|_| why())
        })
        .collect::<PyResult<_>>()?;
    let answer = detached(py, progress, |progress| {
        let counted = |header: &Header, counts| (header.kind, header.losses.clone(), counts);
        let (kind, losses, counts) = match sample {
            Some(size) => {
                let mut source = recording.sampled(size, progress)?;
                let counts = sim::misses::run_sampled(&mut source, &policies, &frames, progress)?;
                counted(source.header(), counts)
            }
            None => match memory_limit {
                Some(limit) => {
                    let bytes = sim::misses::bytes_per_page(&policies)?;
                    let mut limited = recording.limited(limit, progress)?;
                    limited.spare_bytes(bytes)?;
                    let room = limited.bytes_per_page();
                    let mut open = || Ok(limited.open()?);
                    let (counts, source) =
                        sim::misses::run_within(&mut open, &policies, &frames, room, progress)?;
                    counted(source.header(), counts)
                }
                None => {
                    let mut source = recording.open()?;
                    let counts = sim::misses::run(&mut *source, &policies, &frames, progress)?;
                    counted(source.header(), counts)
                }
            },
        };
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
