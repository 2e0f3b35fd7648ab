//! Foreign formats: one file and one row each. A row is all that the command line, the docs table,
//! the conformance test and the fuzz targets need to know.

mod arc;
mod blkparse;
mod blktrace;
mod blockcsv;
mod csv_columns;
mod csv_hint;
mod events;
mod ftrace;
mod ids;
mod msr;
mod oracle;
mod pgw;
mod recording;
mod requests;
mod swap_events;
mod vscsi;

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

/// What a column of a CSV file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// When, in seconds unless the column's name ends in `_ms`, `_us` or `_ns`.
    Time,
    /// What was done.
    Op,
    /// Name of the object.
    Id,
    /// First 512-byte sector.
    Sector,
    /// Length in 512-byte sectors.
    Sectors,
    /// Length in bytes.
    Size,
    /// Who asked.
    Process,
    /// Which device was asked.
    Device,
}

impl Role {
    /// Every role with its name on the command line.
    pub const ALL: [(&'static str, Role); 8] = [
        ("time", Role::Time),
        ("op", Role::Op),
        ("id", Role::Id),
        ("sector", Role::Sector),
        ("sectors", Role::Sectors),
        ("size", Role::Size),
        ("process", Role::Process),
        ("device", Role::Device),
    ];
}

/// What the caller says about a recording, beyond what it says itself.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// How records become events; none = as the format usually does.
    pub mapping: Option<Mapping>,
    /// Which column holds what, for formats with named columns.
    pub columns: Vec<(Role, String)>,
}

/// The records of one file.
type Reader = Box<dyn RecordReader>;

/// One foreign format.
pub struct Format {
    /// Its name everywhere.
    pub name: &'static str,
    /// What it is, in one line.
    pub summary: &'static str,
    /// Whether the caller may say which column holds what.
    pub has_columns: bool,
    /// Whether one recording is several files that differ in the number at the end of their names.
    pub has_parts: bool,
    /// How surely a recording is of this format, by its first bytes.
    pub sniff: Sniff,
    /// Starts reading; nothing of the input is consumed yet.
    pub open: fn(Input, &ReadOptions) -> Result<Reader, Error>,
}

impl Format {
    /// What files of one recording have in common: their name, without the number of the part.
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

/// Every format. The order matters where two are equally sure: the more specific comes first.
pub const CATALOG: &[Format] = &[
    recording::FORMAT,
    pgw::FORMAT,
    blktrace::FORMAT,
    events::FORMAT,
    ftrace::FORMAT,
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
/// `UnknownFormat` where no format recognises it.
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

/// Files that are no recordings of ours but that people try, and what to do with them.
const FOREIGN_MARKS: [(&[u8], &str); 7] = [
    (MAGIC, "a trace of memory references, not of pages"),
    (
        b"pgwrec\x00\x01",
        "a recording of an earlier pagewise: import it with that, or record it again",
    ),
    (b"PK\x03\x04", "a zip archive: unpack it first"),
    (b"\xfd7zXZ", "an xz file: unpack it first"),
    (b"BZh", "a bzip2 file: unpack it first"),
    (b"\x17\x08\x44tracing", "a trace.dat file: run `trace-cmd report` on it first"),
    (b"PAR1", "a Parquet file: if pagewise wrote it, it needs no import"),
];

#[cfg(test)]
mod tests;
