//! Result tables between Python and Parquet, as JSON text.

use std::path::PathBuf;

use pyo3::prelude::*;
use trace::table::{self, Table};

use crate::errors::{raise, usage};

/// Writes a table to `path`; `text` is the JSON form of `trace::table::Table`.
#[pyfunction]
pub fn write_table(py: Python<'_>, path: PathBuf, text: &str) -> PyResult<()> {
    let table: Table =
        serde_json::from_str(text).map_err(|error| usage(py, &format!("table: {error}")))?;
    py.detach(|| table::write(&path, &table)).map_err(|error| raise(py, &error))
}

/// Reads a table that `write_table` wrote, as JSON text.
#[pyfunction]
pub fn read_table(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    let table = py.detach(|| table::read(&path)).map_err(|error| raise(py, &error))?;
    Ok(serde_json::to_string(&table).expect("a table is JSON: text keys, finite nesting"))
}
