//! Foreign formats: a file and a catalog row for each. The command line, the docs table, the conformance
//! test and the fuzz targets use only the row.

mod arc;
mod blkparse;
mod blktrace;
mod blockcsv;
mod csv_columns;
mod csv_hint;
mod damo;
mod events;
mod ftrace;
mod ids;
mod logcat;
mod msr;
mod oracle;
mod perfetto;
mod pgw;
mod procfs;
mod recording;
mod requests;
mod swap_events;
mod system_records;
mod tracedat;
mod vscsi;

pub use blockcsv::CsvColumns;
pub(crate) use blockcsv::columns;
pub(crate) use requests::operation_of_rwbs;

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::input::Input;
use crate::record::{Mapping, RecordReader};
use crate::references::MAGIC;
use crate::references::formats::is_recognised;
use crate::sniff::{Sniff, head, surest};
use crate::{Error, ErrorKind, Position};

/// The role of a column of a CSV file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// When, in seconds unless the column's name ends in another unit: `_ms`, `(us)`, `[ns]`.
    Time,
    /// Operation: a read, a write or another word.
    Op,
    /// Name of the object.
    Id,
    /// First 512-byte sector.
    Sector,
    /// First byte, counted from the start of the device.
    Offset,
    /// Length in 512-byte sectors.
    Sectors,
    /// Length in bytes.
    Size,
    /// Process that issued the request.
    Process,
    /// Device of the request.
    Device,
}

impl Role {
    /// Every role with its name on the command line.
    pub const ALL: [(&'static str, Role); 9] = [
        ("time", Role::Time),
        ("op", Role::Op),
        ("id", Role::Id),
        ("sector", Role::Sector),
        ("offset", Role::Offset),
        ("sectors", Role::Sectors),
        ("size", Role::Size),
        ("process", Role::Process),
        ("device", Role::Device),
    ];
}

/// The caller's options for reading a recording.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// How records become events; `None` for the format's default.
    pub mapping: Option<Mapping>,
    /// Chosen roles and their columns, for formats with named columns.
    pub columns: Vec<(Role, String)>,
}

/// The records of one file.
type Reader = Box<dyn RecordReader>;

/// A foreign format.
pub struct Format {
    /// Name of the format on the command line, in files and in docs.
    pub name: &'static str,
    /// Description of the format in one line.
    pub summary: &'static str,
    /// Whether the caller may choose the roles of columns.
    pub has_columns: bool,
    /// Whether a recording consists of several files that differ in the number at the end of their names.
    pub has_parts: bool,
    /// Whether a recording has accesses to import; a log has none, and `info` reads it for what it tells.
    pub has_accesses: bool,
    /// Judges by the first bytes how surely a recording has this format.
    pub sniff: Sniff,
    /// Opens a reader on an input at its beginning.
    pub open: fn(Input, &ReadOptions) -> Result<Reader, Error>,
}

impl Format {
    /// The common name of the files of a recording: `path` without the number of the part.
    pub fn recording_of(&self, path: &Path) -> PathBuf {
        let number = path.extension().map(OsStr::as_encoded_bytes);
        let is_part = number.is_some_and(|number| number.iter().all(u8::is_ascii_digit));
        if self.has_parts && is_part { path.with_extension("") } else { path.to_owned() }
    }
}

impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Format").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Every format, the more specific first: if two formats are equally sure, the first is chosen.
pub const CATALOG: &[Format] = &[
    recording::FORMAT,
    pgw::FORMAT,
    blktrace::FORMAT,
    events::FORMAT,
    ftrace::FORMAT,
    perfetto::FORMAT,
    tracedat::FORMAT,
    logcat::FORMAT,
    procfs::FORMAT,
    damo::FORMAT,
    blkparse::FORMAT,
    msr::FORMAT,
    vscsi::FORMAT,
    oracle::FORMAT,
    blockcsv::FORMAT,
    arc::FORMAT,
    ids::FORMAT,
];

/// The format with this name.
pub fn by_name(name: &str) -> Option<&'static Format> {
    CATALOG.iter().find(|format| format.name == name)
}

/// The format of a recording, by its content.
///
/// # Errors
/// `UnknownFormat` if no format recognises it.
pub fn recognise(input: &mut Input) -> Result<&'static Format, Error> {
    surest(input, CATALOG, |format| format.sniff)?.ok_or_else(|| {
        let head = head(input);
        let hint = FOREIGN_MARKS.iter().find(|(mark, _)| head.starts_with(mark));
        let hint = hint.map(|&(_, hint)| hint).or_else(|| {
            let refs = "memory references of a program: import them with --as refs";
            is_recognised(head).then_some(refs)
        });
        if let (None, Some(hint)) = (hint, csv_hint::hint(input.path(), head)) {
            return Error::new(ErrorKind::UnknownFormat, input.path(), hint);
        }
        let hint = hint.unwrap_or("no known format");
        let names: Vec<&str> = CATALOG.iter().map(|format| format.name).collect();
        let message = format!("{hint}; formats are {}", names.join(", "));
        Error::new(ErrorKind::UnknownFormat, input.path(), message).at(Position::Byte(0))
    })
}

/// Marks of common files that are no recordings, each with what to do.
const FOREIGN_MARKS: [(&[u8], &str); 6] = [
    (MAGIC, "a trace of memory references, not of pages"),
    (
        b"pgwrec\x00\x01",
        "a recording of an earlier pagewise: import it with that, or record it again",
    ),
    // The two versions that this one reads were recognised before.
    (b"pgwrec\x00", "a recording of a newer pagewise: read it with that"),
    (b"\xfd7zXZ", "an xz file: unpack it first"),
    (b"BZh", "a bzip2 file: unpack it first"),
    (b"PAR1", "a Parquet file: if pagewise wrote it, it needs no import"),
];

#[cfg(test)]
mod tests;
