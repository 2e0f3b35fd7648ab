//! Zip archives: a recording that is the only file of an archive, or the chunks of a drmemtrace trace, which follow
//! each other as one recording.
//!
//! The list of members is at the end of an archive, so that it is read by position. Of a member only its
//! place, sizes and checksum are held, not its name.

use std::io::{BufReader, Error as IoError, Read};
use std::path::Path;
use std::sync::Arc;

use rawzip::{
    CompressionMethod, ErrorKind as ZipKind, RECOMMENDED_BUFFER_SIZE, RangeReader, ReaderAt,
    ZipArchive, ZipArchiveEntryWayfinder, ZipFileHeaderRecord, ZipLocator,
};

use crate::meter::Meter;
use crate::whole::Whole;
use crate::{Error, ErrorKind, Position};

/// The first bytes of an archive that has a member.
pub(crate) const MAGIC: &[u8] = b"PK\x03\x04";

/// Largest number of members: 64 MiB of memory. A trace of drmemtrace has one for 10 million instructions.
const MEMBERS_MAX: usize = 1 << 20;

/// Number of names that a message lists.
const NAMES_LISTED: usize = 5;

/// Bytes of a name that a message shows.
const NAME_BYTES_SHOWN: usize = 80;

/// Bytes per read of a member.
const READ_BYTES: usize = 128 * 1024;

/// How the names of the members of a drmemtrace trace begin.
const CHUNK: &[u8] = b"chunk.";

/// Ends of names of system traces, of which an archive with several files may have one.
const TRACE_ENDS: [&str; 8] = [
    ".html",
    ".perfetto-trace",
    ".pftrace",
    ".systrace",
    ".trace",
    ".atrace",
    ".dat",
    ".trace.txt",
];

/// The archive, read by position.
#[derive(Clone)]
struct Archive {
    whole: Whole,
    meter: Option<Arc<Meter>>,
}

impl ReaderAt for Archive {
    fn read_at(&self, target: &mut [u8], offset: u64) -> std::io::Result<usize> {
        let count = self.whole.read_some_at(offset, target)?;
        if let Some(meter) = &self.meter {
            meter.count(count as u64);
        }
        Ok(count)
    }
}

/// A member of the archive.
#[derive(Clone, Copy)]
struct Member {
    place: ZipArchiveEntryWayfinder,
    method: CompressionMethod,
    is_encrypted: bool,
}

/// Reads the chosen members of an archive, one after the other, and checks their checksums.
pub(crate) struct Members {
    archive: ZipArchive<Archive>,
    members: std::vec::IntoIter<Member>,
    current: Option<Box<dyn Read + Send>>,
    meter: Arc<Meter>,
}

impl Members {
    /// Opens the recording in an archive; `meter` counts what is read of it.
    ///
    /// # Errors
    /// `Corrupt` if the archive is damaged or has no file; `UnknownFormat` if it has several files of which no rule
    /// chooses one, or one that is encrypted or compressed otherwise than by deflate or zstd.
    pub(crate) fn open(whole: Whole, meter: Arc<Meter>) -> Result<Members, Error> {
        let path = whole.path().to_owned();
        let length = whole.length();
        let mut buffer = vec![0; RECOMMENDED_BUFFER_SIZE];
        let archive = ZipLocator::new()
            .locate_in_reader(Archive { whole, meter: None }, &mut buffer, length)
            .map_err(|(_, error)| damaged(&path, error))?;
        let members = choose(&path, &archive, &mut buffer)?;
        Ok(Members { archive, members: members.into_iter(), current: None, meter })
    }

    /// A reader of the uncompressed bytes of a member.
    fn start(&self, member: Member) -> std::io::Result<Box<dyn Read + Send>> {
        let entry = self.archive.get_entry(member.place).map_err(IoError::other)?;
        let (start, end) = entry.compressed_data_range();
        let metered =
            Archive { meter: Some(Arc::clone(&self.meter)), ..self.archive.get_ref().clone() };
        let packed = BufReader::with_capacity(READ_BYTES, RangeReader::new(metered, start..end));
        Ok(match member.method {
            CompressionMethod::STORE => Box::new(entry.verifying_reader(packed)),
            CompressionMethod::ZSTD => {
                Box::new(entry.verifying_reader(zstd::Decoder::with_buffer(packed)?))
            }
            _ => Box::new(entry.verifying_reader(flate2::bufread::DeflateDecoder::new(packed))),
        })
    }
}

impl Read for Members {
    fn read(&mut self, target: &mut [u8]) -> std::io::Result<usize> {
        if target.is_empty() {
            return Ok(0);
        }
        loop {
            if let Some(current) = &mut self.current {
                let count = current.read(target)?;
                if count > 0 {
                    return Ok(count);
                }
                self.current = None;
            }
            let Some(member) = self.members.next() else { return Ok(0) };
            self.current = Some(self.start(member)?);
        }
    }
}

/// The error for an archive whose list of members cannot be read.
fn damaged(path: &Path, error: rawzip::Error) -> Error {
    match error.into_kind() {
        ZipKind::IO(error) if error.raw_os_error().is_some() => {
            Error::new(ErrorKind::Io, path, format!("cannot read: {error}"))
        }
        ZipKind::MissingEndOfCentralDirectory => {
            let message = "a zip archive without the list at its end: it is cut";
            Error::new(ErrorKind::Corrupt, path, message).at(Position::Byte(0))
        }
        kind => Error::new(ErrorKind::Corrupt, path, format!("a damaged zip archive: {kind}"))
            .at(Position::Byte(0)),
    }
}

/// What is known of the files of an archive before one is chosen.
#[derive(Default)]
struct Files {
    /// All files.
    count: usize,
    first: Option<Member>,
    chunks: Vec<Member>,
    traces: usize,
    first_trace: Option<Member>,
    names: Vec<String>,
}

impl Files {
    /// Adds a file; false if it is one chunk too many.
    fn add(&mut self, record: &ZipFileHeaderRecord<'_>) -> bool {
        let full = record.file_path();
        let full = full.as_bytes();
        let name = full.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        // The second is what macOS adds to each file.
        if record.is_dir() || full.starts_with(b"__MACOSX/") {
            return true;
        }
        let member = Member {
            place: record.wayfinder(),
            method: record.compression_method(),
            is_encrypted: record.flags().is_encrypted(),
        };
        let is_trace = TRACE_ENDS.iter().any(|end| name.ends_with(end.as_bytes()));
        let is_chunk = name.starts_with(CHUNK);
        self.count += 1;
        if self.names.len() < NAMES_LISTED {
            let shown = &full[..full.len().min(NAME_BYTES_SHOWN)];
            self.names.push(String::from_utf8_lossy(shown).into_owned());
        }
        self.first = self.first.or(Some(member));
        if is_trace {
            self.traces += 1;
            self.first_trace = self.first_trace.or(Some(member));
        }
        if is_chunk && self.chunks.len() < MEMBERS_MAX {
            self.chunks.push(member);
            return true;
        }
        !is_chunk
    }

    /// The members to read; `None` if it is unclear which.
    fn chosen(self) -> Result<Vec<Member>, Vec<String>> {
        match (self.first, self.first_trace) {
            (Some(first), _) if self.count == 1 => Ok(vec![first]),
            (Some(_), _) if self.chunks.len() == self.count => Ok(self.chunks),
            (_, Some(trace)) if self.traces == 1 => Ok(vec![trace]),
            _ => Err(self.names),
        }
    }
}

/// Refuses a member that cannot be decompressed.
fn check(path: &Path, member: Member) -> Result<(), Error> {
    let refused = |message: String| {
        Err(Error::new(ErrorKind::UnknownFormat, path, message).at(Position::Byte(0)))
    };
    if member.is_encrypted {
        return refused("an encrypted zip archive: unpack it first".to_owned());
    }
    match member.method {
        CompressionMethod::STORE | CompressionMethod::DEFLATE | CompressionMethod::ZSTD => Ok(()),
        other => refused(format!("a zip archive compressed by {other}: unpack it first")),
    }
}

fn choose(
    path: &Path,
    archive: &ZipArchive<Archive>,
    buffer: &mut [u8],
) -> Result<Vec<Member>, Error> {
    let mut files = Files::default();
    let mut entries = archive.entries(buffer);
    while let Some(record) = entries.next_entry().map_err(|error| damaged(path, error))? {
        if !files.add(&record) {
            let message = format!("a zip archive with more than {MEMBERS_MAX} chunks");
            return Err(Error::new(ErrorKind::Corrupt, path, message).at(Position::Byte(0)));
        }
    }
    let count = files.count;
    let chosen = files.chosen().map_err(|names| {
        let (kind, message) = if count == 0 {
            (ErrorKind::Corrupt, "a zip archive without files".to_owned())
        } else {
            let more = if count > names.len() { ", ..." } else { "" };
            let list = names.join(", ");
            let message = format!(
                "a zip archive of {count} files, and it is unclear which is the recording: unpack the one that \
                 you mean ({list}{more})"
            );
            (ErrorKind::UnknownFormat, message)
        };
        Error::new(kind, path, message).at(Position::Byte(0))
    })?;
    chosen.iter().try_for_each(|&member| check(path, member))?;
    Ok(chosen)
}

#[cfg(test)]
mod tests;
