//! Traces of memory references: import and info.

use std::path::PathBuf;

use pyo3::prelude::*;
use serde_json::{Value, json};
use trace::references::{self, Reader, ReferenceImportOptions, formats};

use crate::errors::detached;

/// Imports a foreign file of references; returns the report as JSON text.
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
) -> PyResult<String> {
    let options = ReferenceImportOptions { format, strict, force };
    let report =
        detached(py, progress, |progress| references::import(&path, &output, &options, progress))?;
    Ok(json!(report).to_string())
}

/// What a trace of references holds, as JSON text.
#[pyfunction]
#[pyo3(signature = (path, *, progress=None))]
pub fn references_info(
    py: Python<'_>,
    path: PathBuf,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let info =
        detached(py, progress, |progress| references::info(&mut Reader::open(&path)?, progress))?;
    Ok(json!(info).to_string())
}

/// The foreign formats of references, as JSON text.
#[pyfunction]
pub fn reference_formats() -> String {
    let rows = formats::CATALOG.iter();
    let rows = rows.map(|row| json!({ "name": row.name, "summary": row.summary }));
    Value::from(rows.collect::<Vec<_>>()).to_string()
}
