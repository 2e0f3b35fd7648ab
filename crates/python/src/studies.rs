//! Traces for studies: generated phone scenarios, and recordings without single-access pages.

use std::path::PathBuf;

use pyo3::prelude::*;
use sim::EventList;
use sim::scenario::Scenario;
use trace::store;
use types::NoProgress;

use crate::answers::parsed;
use crate::errors::Raise;

/// Writes the trace of a scenario, given as a JSON object of its parameters, to `path`.
#[pyfunction]
pub fn write_scenario(py: Python<'_>, parameters: &str, path: PathBuf) -> PyResult<()> {
    let scenario: Scenario = parsed(py, "scenario", parameters)?;
    py.detach(|| {
        let mut trace = scenario.generate()?;
        Ok::<_, sim::Error>(store::save(&mut trace, &path, &NoProgress)?)
    })
    .map(drop)
    .map_err(|error| error.raise(py))
}

/// Copies the trace file `source` to `path` without the pages that are accessed exactly once.
#[pyfunction]
pub fn write_without_singles(py: Python<'_>, source: PathBuf, path: PathBuf) -> PyResult<()> {
    py.detach(|| {
        let mut reader = store::Reader::open(&source)?;
        let mut kept = EventList::without_single_accesses(&mut reader)?;
        store::save(&mut kept, &path, &NoProgress)
    })
    .map(drop)
    .map_err(|error| error.raise(py))
}
