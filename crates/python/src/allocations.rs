//! Recordings of allocations: their summary, and replays of their history. Requests are JSON text.

use std::path::PathBuf;

use pyo3::prelude::*;
use serde::Deserialize;
use sim::alloc::{self, ALLOCATORS, AllocatorOutcome, Options};

use crate::answers::{Answer, catalog, parsed};
use crate::errors::{detached, usage};
use crate::results::{Allocations, Row};

/// A replay request from Python.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    allocator: String,
    #[serde(default)]
    budget_pages: Option<u64>,
    #[serde(default)]
    hears_pressure: bool,
}

/// Whether a file is a recording of allocations; false also if it cannot be read.
#[pyfunction]
pub fn is_allocations(py: Python<'_>, path: PathBuf) -> bool {
    py.detach(|| trace::allocations::is_allocations(&path))
}

/// Summarizes a recording of allocations.
#[pyfunction]
#[pyo3(signature = (path, *, progress=None))]
pub fn allocations_info(
    py: Python<'_>,
    path: PathBuf,
    progress: Option<Py<PyAny>>,
) -> PyResult<Answer<Allocations>> {
    let history = detached(py, progress, |progress| trace::allocations::read(&path, progress))?;
    Ok(Answer(trace::allocations::info(&history).into()))
}

/// Replays a recording once per request, on all cores; returns the outcomes in order.
#[pyfunction]
#[pyo3(signature = (path, requests, *, progress=None))]
pub fn replay_allocations(
    py: Python<'_>,
    path: PathBuf,
    requests: &str,
    progress: Option<Py<PyAny>>,
) -> PyResult<Answer<Vec<AllocatorOutcome>>> {
    let wanted: Vec<Wanted> = parsed(py, "requests", requests)?;
    let runs = wanted.into_iter().map(|wanted| {
        let row = alloc::find(&wanted.allocator).ok_or_else(|| {
            let names: Vec<&str> = ALLOCATORS.iter().map(|row| row.name).collect();
            let name = &wanted.allocator;
            usage(py, &format!("no allocator {name:?}; allocators are {}", names.join(", ")))
        })?;
        let Wanted { budget_pages, hears_pressure, .. } = wanted;
        Ok((row, Options { budget_pages, hears_pressure }))
    });
    let runs = runs.collect::<PyResult<Vec<(&alloc::Row, Options)>>>()?;
    let outcomes = detached(py, progress, |progress| {
        let history = trace::allocations::read(&path, progress)?;
        Ok::<_, trace::Error>(alloc::replay_all(&history, &runs))
    })?;
    Ok(Answer(outcomes))
}

/// The allocators for replays.
#[pyfunction]
pub fn allocators() -> Answer<Vec<Row>> {
    catalog(ALLOCATORS.iter().map(|row| (row.name, row.summary)))
}
