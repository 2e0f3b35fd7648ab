//! Result tables between Python and Parquet.

use std::path::PathBuf;

use pyo3::prelude::*;
use trace::table::{self, Table};

use crate::answers::{Answer, parsed};
use crate::errors::raise;

/// Writes a table to `path`; `text` is the JSON form of `trace::table::Table`.
#[pyfunction]
pub fn write_table(py: Python<'_>, path: PathBuf, text: &str) -> PyResult<()> {
    let table: Table = parsed(py, "table", text)?;
    py.detach(|| table::write(&path, &table)).map_err(|error| raise(py, &error))
}

/// Reads a table that `write_table` wrote.
#[pyfunction]
pub fn read_table(py: Python<'_>, path: PathBuf) -> PyResult<Answer<Table>> {
    py.detach(|| table::read(&path)).map(Answer).map_err(|error| raise(py, &error))
}
