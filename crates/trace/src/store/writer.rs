//! Rows to a trace file, a row group at a time.

use std::io::BufWriter;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::writer::SerializedFileWriter;

use super::aside::Aside;
use super::column::{self, Column};
use super::layout::{HEADER_KEY, PARQUET_MAGIC, ROW_GROUP_ROWS};
use super::pending::Pending;
use crate::runs::{Run, Shape};
use crate::seal::{Pieces, seal};
use crate::{Error, ErrorKind, Header, Rows};

/// Bytes per call of the operating system: the library hands on 8 KiB at a time.
const BUFFER_BYTES: usize = 256 * 1024;

/// Writes a trace file aside, and under its name once it is complete.
///
/// Dropped before `finish`, it leaves nothing behind.
pub struct Writer {
    target: PathBuf,
    replaces: bool,
    /// None until the first rows tell which columns there are.
    started: Option<Started>,
    /// Kept from batch to batch to spare allocations.
    runs: Vec<Run>,
    pages: Vec<u32>,
}

/// A file whose columns are known.
struct Started {
    shape: Shape,
    file: SerializedFileWriter<BufWriter<Aside>>,
    /// Those of `file` so far.
    pieces: Pieces,
    pending: Pending,
}

impl Writer {
    /// A writer of `path`, which must not exist unless `replaces`.
    ///
    /// # Errors
    /// A file that is there already, anything there that is no regular file (renaming over a
    /// device would replace it), or a folder that cannot be written to.
    pub fn create(path: &Path, replaces: bool) -> Result<Writer, Error> {
        refuse_existing(path, replaces)?;
        // Fails early where the folder is missing or read-only, not after an hour of import.
        drop(aside(path)?);
        Ok(Writer {
            target: path.to_owned(),
            replaces,
            started: None,
            runs: Vec::new(),
            pages: Vec::new(),
        })
    }

    /// Appends rows. The first batch that has any decides which columns the file has.
    ///
    /// # Errors
    /// What the operating system refuses.
    ///
    /// # Panics
    /// When a column is empty in one batch and not in another, or of another length than `event`.
    pub fn write(&mut self, rows: &Rows) -> Result<(), Error> {
        if rows.is_empty() {
            return Ok(());
        }
        let (mut runs, mut pages) =
            (std::mem::take(&mut self.runs), std::mem::take(&mut self.pages));
        let shape = Shape::of(rows);
        shape.runs_of(rows, &mut runs);
        pages.clear();
        pages.extend(rows.events.page.iter().map(|page| page.0));
        let written = self.write_runs(shape, &runs, &pages);
        (self.runs, self.pages) = (runs, pages);
        written
    }

    /// Appends the rows of `runs`, which have the columns of `shape`; `pages` has a number for each
    /// row, or none at all.
    ///
    /// # Errors
    /// As `write`.
    ///
    /// # Panics
    /// When `shape` is not that of the first runs, or `pages` has another length.
    pub(crate) fn write_runs(
        &mut self,
        shape: Shape,
        runs: &[Run],
        pages: &[u32],
    ) -> Result<(), Error> {
        if runs.is_empty() {
            return Ok(());
        }
        let started = match &mut self.started {
            Some(started) => started,
            none => none.insert(Started::new(&self.target, shape)?),
        };
        assert_eq!(shape, started.shape, "all rows of a trace have the same columns");
        started.pending.append(runs, pages);
        if started.pending.rows() < ROW_GROUP_ROWS {
            return Ok(());
        }
        started.flush().map_err(|error| refused(&self.target, &error))
    }

    /// Completes the file with its header and gives it its name.
    ///
    /// # Errors
    /// What the operating system refuses, or a file that appeared under the name meanwhile.
    pub fn finish(self, header: &Header) -> Result<(), Error> {
        let target = &self.target;
        let started = match self.started {
            Some(started) => started,
            None => Started::new(target, Shape::default())?,
        };
        let json = serde_json::to_string(header).expect("a header is plain data");
        let aside = started.complete(json).map_err(|error| refused(target, &error))?;
        aside.persist(target, self.replaces).map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => exists(target),
            _ => Error::new(ErrorKind::Io, target, error.to_string()),
        })
    }
}

impl Started {
    fn new(target: &Path, shape: Shape) -> Result<Started, Error> {
        let columns: Vec<Column> =
            Column::ALL.into_iter().filter(|column| column.is_in(shape)).collect();
        let schema = column::schema(&columns);
        let properties = Arc::new(column::properties());
        let sink = BufWriter::with_capacity(BUFFER_BYTES, aside(target)?);
        let file = SerializedFileWriter::new(sink, schema, properties)
            .map_err(|error| refused(target, &error))?;
        let mut pieces = Pieces::default();
        pieces.push(PARQUET_MAGIC);
        Ok(Started { shape, file, pieces, pending: Pending::new(columns) })
    }

    fn flush(&mut self) -> Result<(), ParquetError> {
        match self.pending.rows() {
            0 => Ok(()),
            _ => self.pending.write(&mut self.file, &mut self.pieces),
        }
    }

    /// Writes what is left, the header and the checksums.
    fn complete(mut self, header: String) -> Result<Aside, ParquetError> {
        self.flush()?;
        self.file.append_key_value_metadata(KeyValue::new(HEADER_KEY.to_owned(), header));
        let sink = self.file.into_inner()?;
        let aside = sink
            .into_inner()
            .map_err(|failed| ParquetError::External(Box::new(failed.into_error())))?;
        seal(aside.file(), &self.pieces)?;
        Ok(aside)
    }
}

fn aside(target: &Path) -> Result<Aside, Error> {
    Aside::create(target).map_err(|error| Error::new(ErrorKind::Io, target, error.to_string()))
}

/// Refuses to write `output` over one of the files it is made from.
///
/// # Errors
/// `Usage`, if both names lead to the same file.
pub(crate) fn refuse_inputs<'a>(
    inputs: impl IntoIterator<Item = &'a Path>,
    output: &Path,
) -> Result<(), Error> {
    // The file itself, whatever links name it.
    let file = |path: &Path| path.metadata().ok().map(|found| (found.dev(), found.ino()));
    let Some(target) = file(output) else { return Ok(()) };
    if inputs.into_iter().any(|input| file(input) == Some(target)) {
        return Err(Error::new(ErrorKind::Usage, output, "is an input as well"));
    }
    Ok(())
}

/// Refuses to write over what is there, unless it is a regular file that is to be replaced.
///
/// # Errors
/// `Usage`, with what to do.
pub(crate) fn refuse_existing(path: &Path, replaces: bool) -> Result<(), Error> {
    let name = path.as_os_str();
    if name.is_empty() || name == "-" {
        let message = "name a file: it appears whole or not at all, so not on standard output";
        return Err(Error::new(ErrorKind::Usage, format!("{path:?}"), message));
    }
    if path.exists() && !path.is_file() {
        return Err(Error::new(ErrorKind::Usage, path, "is not a regular file"));
    }
    if !replaces && path.exists() {
        return Err(exists(path));
    }
    Ok(())
}

fn exists(path: &Path) -> Error {
    Error::new(ErrorKind::Usage, path, "exists already; --force replaces it")
}

fn refused(path: &Path, error: &ParquetError) -> Error {
    let why = match error {
        ParquetError::External(cause) => cause.to_string(),
        other => other.to_string(),
    };
    Error::new(ErrorKind::Io, path, format!("cannot write: {why}"))
}
