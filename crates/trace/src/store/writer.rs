//! Writes rows to a trace file, a row group at a time.

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
use crate::row_extents::{OptionalColumns, RowExtent};
use crate::seal::{Pieces, seal};
use crate::{Error, ErrorKind, Header, Rows};

/// Bytes per system call: the library itself writes 8 KiB at a time.
const BUFFER_BYTES: usize = 256 * 1024;

/// Writes a trace file that gets its name when it is complete.
///
/// If the writer is dropped before `finish`, no file remains.
pub struct Writer {
    target: PathBuf,
    replaces: bool,
    /// `None` until the first rows, which decide the columns.
    started: Option<Started>,
    /// Buffer, kept from batch to batch to save allocations.
    extents: Vec<RowExtent>,
    pages: Vec<u32>,
}

/// A file with known columns.
struct Started {
    columns: OptionalColumns,
    file: SerializedFileWriter<BufWriter<Aside>>,
    /// The pieces of `file` so far.
    pieces: Pieces,
    pending: Pending,
}

impl Writer {
    /// A writer of `path`, which must not exist unless `replaces`.
    ///
    /// # Errors
    /// If `path` exists and `replaces` is false, `path` is no regular file (renaming over a device would
    /// replace it), or the folder is not writable.
    pub fn create(path: &Path, replaces: bool) -> Result<Writer, Error> {
        refuse_existing(path, replaces)?;
        // Fail early if the folder is missing or read-only, not after an hour of import.
        drop(aside(path)?);
        Ok(Writer {
            target: path.to_owned(),
            replaces,
            started: None,
            extents: Vec::new(),
            pages: Vec::new(),
        })
    }

    /// Appends rows. The first batch with rows decides the columns of the file.
    ///
    /// # Errors
    /// If the operating system refuses the write.
    ///
    /// # Panics
    /// If a column is empty in one batch but not in another, or its length differs from `event`.
    pub fn write(&mut self, rows: &Rows) -> Result<(), Error> {
        if rows.is_empty() {
            return Ok(());
        }
        let (mut extents, mut pages) =
            (std::mem::take(&mut self.extents), std::mem::take(&mut self.pages));
        let columns = OptionalColumns::of(rows);
        columns.extents_of(rows, &mut extents);
        pages.clear();
        pages.extend(rows.events.page.iter().map(|page| page.0));
        let written = self.write_extents(columns, &extents, &pages);
        (self.extents, self.pages) = (extents, pages);
        written
    }

    /// Appends the rows of `extents`, which have these `columns`; `pages` has a number for each
    /// row, or is empty.
    ///
    /// # Errors
    /// Errors of [`Self::write`].
    ///
    /// # Panics
    /// If `columns` differs from that of the first extents, or `pages` has another length.
    pub(crate) fn write_extents(
        &mut self,
        columns: OptionalColumns,
        extents: &[RowExtent],
        pages: &[u32],
    ) -> Result<(), Error> {
        if extents.is_empty() {
            return Ok(());
        }
        let started = match &mut self.started {
            Some(started) => started,
            none => none.insert(Started::new(&self.target, columns)?),
        };
        assert_eq!(columns, started.columns, "all rows of a trace have the same columns");
        started.pending.append(extents, pages);
        if started.pending.rows() < ROW_GROUP_ROWS {
            return Ok(());
        }
        started.flush().map_err(|error| refused(&self.target, &error))
    }

    /// Completes the file with its header and gives it its name.
    ///
    /// # Errors
    /// If the operating system refuses the write, or a file with this name appeared in the meantime.
    pub fn finish(self, header: &Header) -> Result<(), Error> {
        let target = &self.target;
        let started = match self.started {
            Some(started) => started,
            None => Started::new(target, OptionalColumns::default())?,
        };
        let json = serde_json::to_string(header).expect("a header is plain data");
        let aside = started.complete(json).map_err(|error| refused(target, &error))?;
        named(aside, target, self.replaces)
    }
}

impl Started {
    fn new(target: &Path, columns: OptionalColumns) -> Result<Started, Error> {
        let present: Vec<Column> =
            Column::ALL.into_iter().filter(|column| column.is_in(columns)).collect();
        let schema = column::schema(&present);
        let properties = Arc::new(column::properties());
        let sink = BufWriter::with_capacity(BUFFER_BYTES, aside(target)?);
        let file = SerializedFileWriter::new(sink, schema, properties)
            .map_err(|error| refused(target, &error))?;
        let mut pieces = Pieces::default();
        pieces.push(PARQUET_MAGIC);
        Ok(Started { columns, file, pieces, pending: Pending::new(present) })
    }

    fn flush(&mut self) -> Result<(), ParquetError> {
        match self.pending.rows() {
            0 => Ok(()),
            _ => self.pending.write(&mut self.file, &mut self.pieces),
        }
    }

    /// Writes the remaining rows, the header and the checksums.
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

/// An empty file that can become `target`.
///
/// # Errors
/// `Io` if the operating system refuses to create the file.
pub(super) fn aside(target: &Path) -> Result<Aside, Error> {
    Aside::create(target).map_err(|error| Error::new(ErrorKind::Io, target, error.to_string()))
}

/// Gives a complete file the name `target`.
///
/// # Errors
/// `Usage` if `target` exists and `replaces` is false; `Io` if the operating system refuses.
pub(super) fn named(file: Aside, target: &Path, replaces: bool) -> Result<(), Error> {
    file.persist(target, replaces).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => exists(target),
        _ => Error::new(ErrorKind::Io, target, error.to_string()),
    })
}

/// Refuses to write `output` over an input.
///
/// # Errors
/// `Usage` if both names refer to the same file.
pub(crate) fn refuse_inputs<'a>(
    inputs: impl IntoIterator<Item = &'a Path>,
    output: &Path,
) -> Result<(), Error> {
    // Compare the files themselves, because links give them other names.
    let file = |path: &Path| path.metadata().ok().map(|found| (found.dev(), found.ino()));
    let Some(target) = file(output) else { return Ok(()) };
    if inputs.into_iter().any(|input| file(input) == Some(target)) {
        return Err(Error::new(
            ErrorKind::Usage,
            output,
            "is an input as well: name another output",
        ));
    }
    Ok(())
}

/// Refuses to write over an existing file, unless it is a regular file and `replaces` is true.
///
/// # Errors
/// `Usage`, naming the option that helps.
pub(crate) fn refuse_existing(path: &Path, replaces: bool) -> Result<(), Error> {
    let name = path.as_os_str();
    if name.is_empty() || name == "-" {
        let message = "name a file: an output on standard output could be incomplete";
        return Err(Error::new(ErrorKind::Usage, format!("{path:?}"), message));
    }
    if path.exists() && !path.is_file() {
        return Err(Error::new(
            ErrorKind::Usage,
            path,
            "is not a regular file: name another output",
        ));
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
