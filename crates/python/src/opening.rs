//! Opens the recording of a Python call: a pagewise trace file, or a foreign recording, read directly.

use std::path::{Path, PathBuf};

use pyo3::prelude::*;
use trace::import::ImportOptions;
use trace::{Error, Mapping, Role, Source};

use crate::errors::usage;

/// The arguments of a `pagewise.recording.Trace`.
pub struct RecordingArguments {
    path: PathBuf,
    options: ImportOptions,
}

impl RecordingArguments {
    /// Checks the names and opens nothing.
    ///
    /// # Errors
    /// `UsageError` for a mapping or role that does not exist.
    pub fn new(
        py: Python<'_>,
        path: PathBuf,
        format: Option<String>,
        mapping: Option<&str>,
        columns: Vec<(String, String)>,
    ) -> PyResult<RecordingArguments> {
        Ok(RecordingArguments { path, options: options(py, format, mapping, columns)? })
    }

    /// The path of the recording.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens it from its beginning.
    ///
    /// # Errors
    /// If it cannot be read or recognised, with the position.
    pub fn open(&self) -> Result<Box<dyn Source>, Error> {
        trace::open(&self.path, &self.options)
    }

    /// `source`, which `open` returned, with pages of this size.
    ///
    /// # Errors
    /// `Usage` if its pages cannot be grouped into pages of this size.
    pub fn grouped(
        &self,
        source: Box<dyn Source>,
        page_bytes: u64,
    ) -> Result<Box<dyn Source>, Error> {
        trace::grouped::with_pages_of(source, page_bytes, &self.path)
    }

    /// Opens a recording of any kind.
    ///
    /// # Errors
    /// Errors of [`trace::open_any`].
    pub fn open_any(&self) -> Result<trace::Opened, Error> {
        trace::open_any(&self.path, &self.options)
    }
}

/// Import options from the names that Python uses.
///
/// # Errors
/// `UsageError` for a mapping or role that does not exist.
pub fn options(
    py: Python<'_>,
    format: Option<String>,
    mapping: Option<&str>,
    columns: Vec<(String, String)>,
) -> PyResult<ImportOptions> {
    let mapping = mapping.map(|name| named(py, "mapping", &Mapping::ALL, name)).transpose()?;
    let columns = columns
        .into_iter()
        .map(|(name, column)| Ok((named(py, "role", &Role::ALL, &name)?, column)))
        .collect::<PyResult<_>>()?;
    Ok(ImportOptions { format, mapping, columns, ..ImportOptions::default() })
}

/// The value of `name` among `all`; `what` names their kind in the error.
fn named<T: Copy>(py: Python<'_>, what: &str, all: &[(&str, T)], name: &str) -> PyResult<T> {
    let found = all.iter().find(|(known, _)| *known == name);
    found.map(|&(_, value)| value).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
        usage(py, &format!("no {what} {name:?}; expected one of {}", names.join(", ")))
    })
}
