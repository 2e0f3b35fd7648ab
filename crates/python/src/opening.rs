//! Opens the recording of a Python call: a pagewise trace file, or a foreign recording, read directly.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use pyo3::prelude::*;
use trace::disk_numbering::PageNumbers;
use trace::import::ImportOptions;
use trace::sampled::{SampleSize, SampleThreshold, Sampled};
use trace::{Error, ErrorKind, Header, Mapping, Role, Source};
use types::Progress;

use crate::errors::usage;

/// Memory that the process takes without any page: the interpreter, libraries, and buffers of readers.
const BASE_BYTES: u64 = 128 << 20;

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

    /// Opens it for work that takes `bytes_per_page` of memory for each page. With a limit of memory, pages are
    /// numbered on disk if necessary, for which the recording is read twice. Also returns the memory that the
    /// limit leaves for other work; without a limit `u64::MAX`.
    ///
    /// # Errors
    /// Errors of [`Self::open`]; `Usage` if the work would take more than `memory_limit` bytes.
    pub fn within(
        &self,
        memory_limit: Option<u64>,
        bytes_per_page: impl FnOnce(&Header) -> u64,
        progress: &dyn Progress,
    ) -> Result<(Box<dyn Source>, u64), Error> {
        let Some(limit) = memory_limit else { return Ok((self.open()?, u64::MAX)) };
        let mut limited = self.limited(limit, progress)?;
        let source = limited.open()?;
        let spare_bytes = limited.spare_bytes(bytes_per_page(source.header()))?;
        Ok((source, spare_bytes))
    }

    /// Prepares to open it once or several times within a limit of memory. Its pages are numbered on disk if
    /// necessary, for which it is read once more.
    ///
    /// # Errors
    /// Errors of [`Self::open`].
    pub fn limited<'a>(
        &'a self,
        limit: u64,
        progress: &'a dyn Progress,
    ) -> Result<Limited<'a>, Error> {
        let version = self.version();
        let mut limited = Limited {
            recording: self,
            limit,
            progress,
            version,
            first: None,
            pages: 0,
            numbers: None,
        };
        let source = limited.open()?;
        limited.pages = u64::from(source.header().pages.unwrap_or(0));
        limited.first = Some(source);
        Ok(limited)
    }

    /// Length and time of change of its file.
    fn version(&self) -> Option<(u64, SystemTime)> {
        let file = std::fs::metadata(&self.path).ok()?;
        Some((file.len(), file.modified().ok()?))
    }

    /// Opens a sample of its pages. For at most a number of pages it is read twice, unless it is a trace file
    /// with page numbers.
    ///
    /// # Errors
    /// Errors of [`Self::open`].
    pub fn sampled(&self, size: SampleSize, progress: &dyn Progress) -> Result<Sampled, Error> {
        let threshold = match size {
            SampleSize::Rate(rate) => SampleThreshold::of_rate(rate),
            SampleSize::Pages(pages) => {
                SampleThreshold::of_pages(&mut *self.open()?, pages, progress)?
            }
        };
        Ok(Sampled::new(self.open()?, threshold))
    }

    /// Opens a recording of any kind.
    ///
    /// # Errors
    /// Errors of [`trace::open_any`].
    pub fn open_any(&self) -> Result<trace::Opened, Error> {
        trace::open_any(&self.path, &self.options)
    }
}

/// A recording that is read within a limit of memory.
pub struct Limited<'a> {
    recording: &'a RecordingArguments,
    limit: u64,
    progress: &'a dyn Progress,
    /// Of the file when it was first opened: counts of two versions must not be mixed.
    version: Option<(u64, SystemTime)>,
    /// A source that is open and was not read yet.
    first: Option<Box<dyn Source>>,
    pages: u64,
    /// The numbers of its pages, if it has none itself.
    numbers: Option<PageNumbers>,
}

impl Limited<'_> {
    /// Opens the recording from its beginning. Its header has the number of pages.
    ///
    /// # Errors
    /// Errors of [`RecordingArguments::open`]; `Io` if a list of the numbering cannot be written, or if the file
    /// has changed since it was first opened.
    pub fn open(&mut self) -> Result<Box<dyn Source>, Error> {
        if let Some(source) = self.first.take() {
            return Ok(source);
        }
        let recording = self.recording;
        if recording.version() != self.version {
            let why = "changed while it was read";
            return Err(Error::new(ErrorKind::Io, &recording.path, why));
        }
        let mut source = recording.open()?;
        if matches!(source.header().pages, Some(1..)) {
            return Ok(source);
        }
        let numbers = match self.numbers.take() {
            Some(numbers) => numbers,
            None => {
                let table_bytes = usize::try_from(self.limit / 4).unwrap_or(usize::MAX);
                let path = recording.path();
                let numbers = PageNumbers::of(&mut *source, path, table_bytes, self.progress)?;
                source = recording.open()?;
                numbers
            }
        };
        Ok(Box::new(self.numbers.insert(numbers).apply_to(source)?))
    }

    /// What a source with these numbers keeps of each page.
    fn bytes_numbered(&self) -> u64 {
        if self.numbers.is_some() { 4 } else { 0 }
    }

    /// The memory that the limit leaves for each page.
    pub fn bytes_per_page(&self) -> u64 {
        let room = self.limit.saturating_sub(BASE_BYTES).checked_div(self.pages);
        room.unwrap_or(u64::MAX).saturating_sub(self.bytes_numbered())
    }

    /// The memory that the limit leaves beside this many bytes for each page.
    ///
    /// # Errors
    /// `Usage` if the limit leaves less for each page.
    pub fn spare_bytes(&self, bytes_per_page: u64) -> Result<u64, Error> {
        let bytes = self.bytes_numbered() + bytes_per_page;
        let needed = BASE_BYTES.saturating_add(self.pages.saturating_mul(bytes));
        if needed > self.limit {
            let why = format!(
                "{} pages take up to {} MiB of memory, and the limit is {} MiB; give a larger --memory-limit, or use \
                 --sample instead",
                self.pages,
                needed.div_ceil(1 << 20),
                self.limit >> 20
            );
            return Err(Error::new(ErrorKind::Usage, &self.recording.path, why));
        }
        Ok(self.limit - needed)
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

/// The size of a sample from the two numbers that Python uses, of which at most one is given.
///
/// # Errors
/// `UsageError` for a rate that is not above 0 and at most 1, for no pages, and for both numbers.
pub fn sample_size(
    py: Python<'_>,
    rate: Option<f64>,
    pages: Option<u64>,
) -> PyResult<Option<SampleSize>> {
    match (rate, pages) {
        (None, None) => Ok(None),
        (Some(rate), None) if rate > 0.0 && rate <= 1.0 => Ok(Some(SampleSize::Rate(rate))),
        (None, Some(pages @ 1..)) => Ok(Some(SampleSize::Pages(pages))),
        _ => Err(usage(py, "a sample has either a rate from 0 to 1 or at least 1 page")),
    }
}

/// The value of `name` among `all`; `what` names their kind in the error.
fn named<T: Copy>(py: Python<'_>, what: &str, all: &[(&str, T)], name: &str) -> PyResult<T> {
    let found = all.iter().find(|(known, _)| *known == name);
    found.map(|&(_, value)| value).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
        usage(py, &format!("no {what} {name:?}; expected one of {}", names.join(", ")))
    })
}
