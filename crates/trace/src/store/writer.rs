//! Rows to a trace file, a row group at a time.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::writer::SerializedFileWriter;
use tempfile::NamedTempFile;

use super::chunk;
use super::column::{self, Column};
use super::{HEADER_KEY, ROW_GROUP_ROWS};
use crate::{Error, ErrorKind, Header, Rows};

/// Writes a trace file aside, and under its name once it is complete.
///
/// Dropped before `finish`, it leaves nothing behind.
pub struct Writer {
    target: PathBuf,
    replaces: bool,
    /// None until the first rows tell which columns there are.
    file: Option<SerializedFileWriter<NamedTempFile>>,
    columns: Vec<Column>,
    pending: Pending,
}

/// The rows of the next row group, in the types that Parquet stores. Signed and unsigned numbers
/// share their bits there.
#[derive(Default)]
struct Pending {
    rows: usize,
    /// By `Column`; of the two kinds of buffer a column uses one.
    narrow: [Vec<i32>; Column::ALL.len()],
    wide: [Vec<i64>; Column::ALL.len()],
}

impl Writer {
    /// A writer of `path`, which must not exist unless `replaces`.
    ///
    /// # Errors
    /// A file that is there already, anything there that is no regular file (renaming over a
    /// device would replace it), or a folder that cannot be written to.
    pub fn create(path: &Path, replaces: bool) -> Result<Writer, Error> {
        if path.exists() && !path.is_file() {
            return Err(Error::new(ErrorKind::Usage, path, "is not a regular file"));
        }
        if !replaces && path.exists() {
            return Err(exists(path));
        }
        // Fails early where the folder is missing or read-only, not after an hour of import.
        drop(aside(path)?);
        Ok(Writer {
            target: path.to_owned(),
            replaces,
            file: None,
            columns: Vec::new(),
            pending: Pending::default(),
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
        if self.file.is_none() {
            self.start(rows)?;
        }
        self.pending.append(&self.columns, rows);
        if self.pending.rows >= ROW_GROUP_ROWS { self.flush() } else { Ok(()) }
    }

    /// Completes the file with its header and gives it its name.
    ///
    /// # Errors
    /// What the operating system refuses, or a file that appeared under the name meanwhile.
    pub fn finish(mut self, header: &Header) -> Result<(), Error> {
        if self.file.is_none() {
            self.start(&Rows::default())?;
        }
        self.flush()?;
        let json = serde_json::to_string(header).expect("a header is plain data");
        let mut file = self.file.take().expect("it was started above");
        file.append_key_value_metadata(KeyValue::new(HEADER_KEY.to_owned(), json));
        let target = &self.target;
        let temporary = file.into_inner().map_err(|error| refused(target, &error))?;
        let persisted = if self.replaces {
            temporary.persist(target)
        } else {
            temporary.persist_noclobber(target)
        };
        persisted.map(drop).map_err(|failed| match failed.error.kind() {
            std::io::ErrorKind::AlreadyExists => exists(target),
            _ => Error::new(ErrorKind::Io, target, failed.error.to_string()),
        })
    }

    fn start(&mut self, rows: &Rows) -> Result<(), Error> {
        self.columns = Column::ALL.into_iter().filter(|&column| is_present(column, rows)).collect();
        let schema = column::schema(&self.columns);
        let properties = Arc::new(column::properties());
        let file = SerializedFileWriter::new(aside(&self.target)?, schema, properties)
            .map_err(|error| refused(&self.target, &error))?;
        self.file = Some(file);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        if self.pending.rows == 0 {
            return Ok(());
        }
        let file = self.file.as_mut().expect("rows are pending only after the start");
        let written = self.pending.write(&self.columns, file);
        written.map_err(|error| refused(&self.target, &error))
    }
}

impl Pending {
    fn append(&mut self, columns: &[Column], rows: &Rows) {
        let length = rows.len();
        self.rows += length;
        let events = &rows.events;
        for &column in columns {
            let narrow = &mut self.narrow[column as usize];
            let wide = &mut self.wide[column as usize];
            match column {
                Column::Time => wide.extend_from_slice(&events.time_ns),
                Column::Event => narrow.extend(events.kind.iter().map(|&kind| kind as i32)),
                Column::Flags => narrow.extend(events.flags.iter().map(|flags| i32::from(flags.0))),
                // Pages without a number: the column is there, and the header says it is void.
                Column::Page if events.page.is_empty() => narrow.resize(self.rows, 0),
                Column::Page => narrow.extend(events.page.iter().map(|page| page.0 as i32)),
                Column::Process => narrow.extend(events.process.iter().map(|one| one.0 as i32)),
                Column::Space => narrow.extend(rows.space.iter().map(|&space| space as i32)),
                Column::Address => wide.extend(rows.address.iter().map(|&one| one as i64)),
                Column::Bytes => narrow.extend(rows.bytes.iter().map(|&bytes| bytes as i32)),
                Column::Duration => wide.extend(rows.duration_ns.iter().map(|&one| one as i64)),
            }
            assert_eq!(
                self.narrow[column as usize].len() + self.wide[column as usize].len(),
                self.rows,
                "column {} has one value per row in every batch",
                column.name()
            );
        }
        let strays = Column::ALL.iter().filter(|column| !columns.contains(column));
        for &column in strays {
            assert!(!is_present(column, rows), "column {} came too late", column.name());
        }
    }

    fn write(
        &mut self,
        columns: &[Column],
        file: &mut SerializedFileWriter<NamedTempFile>,
    ) -> Result<(), ParquetError> {
        let mut descriptors = file.schema_descr().columns().to_vec().into_iter();
        let mut group = file.next_row_group()?;
        for &column in columns {
            let narrow = &mut self.narrow[column as usize];
            let wide = &mut self.wide[column as usize];
            let descriptor = descriptors.next().expect("the schema has every column");
            let (bytes, close) = if wide.is_empty() {
                chunk::encode(column, descriptor, narrow)?
            } else {
                chunk::encode(column, descriptor, wide)?
            };
            group.append_column(&Bytes::from(bytes), close)?;
            narrow.clear();
            wide.clear();
        }
        self.rows = 0;
        group.close()?;
        Ok(())
    }
}

/// Whether the recording that `rows` come from has this column.
fn is_present(column: Column, rows: &Rows) -> bool {
    match column {
        Column::Time => !rows.events.time_ns.is_empty(),
        Column::Bytes => !rows.bytes.is_empty(),
        Column::Duration => !rows.duration_ns.is_empty(),
        _ => true,
    }
}

/// A file beside `path` that vanishes unless it is persisted, with the permissions of a new file.
fn aside(path: &Path) -> Result<NamedTempFile, Error> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    tempfile::Builder::new()
        .prefix(".pagewise-")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder.unwrap_or(Path::new(".")))
        .map_err(|error| Error::new(ErrorKind::Io, path, error.to_string()))
}

/// Refuses to write `output` over one of the files it is made from.
///
/// # Errors
/// `Usage`, if both names lead to the same file.
pub(crate) fn refuse_inputs<'a>(
    inputs: impl IntoIterator<Item = &'a Path>,
    output: &Path,
) -> Result<(), Error> {
    let canonical = |path: &Path| path.canonicalize().ok();
    let Some(target) = canonical(output) else { return Ok(()) };
    if inputs.into_iter().any(|input| canonical(input).as_ref() == Some(&target)) {
        return Err(Error::new(ErrorKind::Usage, output, "is an input as well"));
    }
    Ok(())
}

fn exists(path: &Path) -> Error {
    Error::new(ErrorKind::Usage, path, "exists already; --force replaces it")
}

fn refused(path: &Path, error: &ParquetError) -> Error {
    Error::new(ErrorKind::Io, path, format!("cannot write: {error}"))
}
