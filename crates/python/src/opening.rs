//! The recording that a Python call names: a trace file of ours, or one that is read directly.

use std::path::{Path, PathBuf};

use pyo3::prelude::*;
use trace::import::ImportOptions;
use trace::{Error, Mapping, Role, Source};

use crate::errors::usage;

/// What a `pagewise.recording.Trace` holds.
pub struct Recording {
    path: PathBuf,
    options: ImportOptions,
}

impl Recording {
    /// Checks names; opens nothing.
    ///
    /// # Errors
    /// `UsageError` for a mapping or role that does not exist.
    pub fn new(
        py: Python<'_>,
        path: PathBuf,
        format: Option<String>,
        mapping: Option<&str>,
        columns: Vec<(String, String)>,
    ) -> PyResult<Recording> {
        Ok(Recording { path, options: options(py, format, mapping, columns)? })
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens it from its beginning.
    ///
    /// # Errors
    /// What cannot be read or recognised, with its position.
    pub fn open(&self) -> Result<Box<dyn Source>, Error> {
        trace::open(&self.path, &self.options)
    }

    /// What `open` gave, with pages of this size.
    ///
    /// # Errors
    /// `Usage` where its pages cannot be grouped into such.
    pub fn grouped(
        &self,
        source: Box<dyn Source>,
        page_bytes: u64,
    ) -> Result<Box<dyn Source>, Error> {
        trace::grouped::with_pages_of(source, page_bytes, &self.path)
    }

    /// Opens it as what it is.
    ///
    /// # Errors
    /// As `open`.
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

/// What is called `name` among `all`, each of them a `what`.
fn named<T: Copy>(py: Python<'_>, what: &str, all: &[(&str, T)], name: &str) -> PyResult<T> {
    let found = all.iter().find(|(known, _)| *known == name);
    found.map(|&(_, value)| value).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
        usage(py, &format!("no {what} {name:?}; there are {}", names.join(", ")))
    })
}
