//! A recording as a stream of bytes with its offset, from a file, standard input or memory. The first
//! bytes tell whether it is plain, gzip, zlib, zstd or a zip archive. The sha256 is that of the file on disk.

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind as IoKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::meter::Metered;
use crate::unpacked::{CopyReader, Copying, UnpackedCopy};
use crate::whole::Whole;
use crate::zip::{self, Members};
use crate::{Error, ErrorKind, Position};

pub use crate::meter::Meter;

/// Size of the buffer of an input. A longer line or group of records does not fit.
pub const BUFFER_BYTES: usize = 256 * 1024;

/// Bytes per read of a file.
const READ_BYTES: usize = 128 * 1024;

/// The first bytes of zlib's streams with a window of 32 KiB (RFC 1950), by level: fastest, default, best. Those of the
/// second level are text, `x^`.
const ZLIB_HEADS: [[u8; 2]; 3] = [[0x78, 0x01], [0x78, 0x9c], [0x78, 0xda]];

/// Bytes after them that must decompress. A binary trace may begin with the same two bytes, as a number.
const ZLIB_BYTES: u64 = 512;

/// Origin of the bytes, so that they can be read again.
#[derive(Clone)]
enum Origin {
    File(Arc<File>),
    Stream,
    Memory(Arc<[u8]>),
}

/// A recording as a stream of bytes.
pub struct Input {
    path: PathBuf,
    origin: Origin,
    meter: Arc<Meter>,
    reader: Box<dyn Read + Send>,
    is_packed: bool,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    offset: u64,
    is_at_end: bool,
}

impl Input {
    /// Opens `path`, or standard input if it is `-`.
    ///
    /// # Errors
    /// `Io` if it cannot be read, `Corrupt` if it is empty.
    pub fn open(path: &Path, is_hashed: bool) -> Result<Input, Error> {
        let refused = |error| Error::new(ErrorKind::Io, path, format!("cannot open: {error}"));
        let (origin, raw): (Origin, Box<dyn Read + Send>) = if path.as_os_str() == "-" {
            (Origin::Stream, Box::new(std::io::stdin()))
        } else {
            let file = File::open(path).map_err(refused)?;
            let metadata = file.metadata().map_err(refused)?;
            if metadata.is_dir() {
                return Err(Error::new(ErrorKind::Io, path, "is a folder, not a recording"));
            }
            let again = file.try_clone().map_err(refused)?;
            let origin =
                if metadata.is_file() { Origin::File(Arc::new(again)) } else { Origin::Stream };
            (origin, Box::new(file))
        };
        Input::start(path, origin, raw, Arc::new(Meter::new(is_hashed)))
    }

    /// A recording in memory; `name` replaces its path.
    ///
    /// # Errors
    /// `Corrupt` if it is empty.
    pub fn from_bytes(name: &str, bytes: impl Into<Arc<[u8]>>) -> Result<Input, Error> {
        let bytes = bytes.into();
        let raw = std::io::Cursor::new(Arc::clone(&bytes));
        Input::start(Path::new(name), Origin::Memory(bytes), Box::new(raw), Arc::default())
    }

    fn start(
        path: &Path,
        mut origin: Origin,
        raw: Box<dyn Read + Send>,
        meter: Arc<Meter>,
    ) -> Result<Input, Error> {
        let failed = |error| Error::new(ErrorKind::Io, path, format!("cannot read: {error}"));
        let mut raw = Metered::new(raw, Arc::clone(&meter));
        let mut head = Vec::with_capacity(4);
        raw.by_ref().take(4).read_to_end(&mut head).map_err(failed)?;
        if head.is_empty() {
            return Err(Error::new(ErrorKind::Corrupt, path, "is empty").at(Position::Byte(0)));
        }
        let is_gzip = head.starts_with(&[0x1f, 0x8b]);
        let has_zlib_head = ZLIB_HEADS.iter().any(|known| head.starts_with(known));
        if has_zlib_head {
            raw.by_ref().take(ZLIB_BYTES).read_to_end(&mut head).map_err(failed)?;
        }
        let is_zlib = has_zlib_head && begins_zlib(&head);
        let is_zstd = head.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]);
        let is_zip = head.starts_with(zip::MAGIC);
        let whole = std::io::Cursor::new(head).chain(raw);
        let reader: Box<dyn Read + Send> = if is_gzip {
            let buffered = BufReader::with_capacity(READ_BYTES, whole);
            Box::new(flate2::bufread::MultiGzDecoder::new(buffered))
        } else if is_zlib {
            let buffered = BufReader::with_capacity(READ_BYTES, whole);
            Box::new(Zlib(flate2::bufread::ZlibDecoder::new(buffered)))
        } else if is_zstd {
            let buffered = BufReader::with_capacity(READ_BYTES, whole);
            Box::new(zstd::Decoder::with_buffer(buffered).map_err(failed)?)
        } else if is_zip {
            Box::new(unzip(path, &mut origin, whole, &meter)?)
        } else {
            Box::new(whole)
        };
        let mut input = Input {
            path: path.to_owned(),
            origin,
            meter,
            reader,
            is_packed: is_gzip || is_zlib || is_zstd || is_zip,
            buffer: vec![0; BUFFER_BYTES],
            start: 0,
            end: 0,
            offset: 0,
            is_at_end: false,
        };
        if input.fill()?.is_empty() {
            return Err(Error::new(ErrorKind::Corrupt, path, "is empty").at(Position::Byte(0)));
        }
        Ok(input)
    }

    /// The path as it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Length of the file on disk; 0 if the input is no file.
    pub fn file_bytes(&self) -> u64 {
        match &self.origin {
            Origin::File(file) => file.metadata().map_or(0, |metadata| metadata.len()),
            Origin::Stream | Origin::Memory(_) => 0,
        }
    }

    /// The meter of this input, to watch its progress.
    pub fn meter(&self) -> Arc<Meter> {
        Arc::clone(&self.meter)
    }

    /// Offset of the first unconsumed byte in the decompressed recording.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The unconsumed bytes in the buffer.
    pub fn held(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Reads until the buffer is full or the recording ends, and returns the held bytes.
    ///
    /// # Errors
    /// `Io` if the system refuses the read, `Corrupt` if compressed data is damaged or ends too early.
    pub fn fill(&mut self) -> Result<&[u8], Error> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        while !self.is_at_end && self.end < BUFFER_BYTES {
            let wanted = (self.end + READ_BYTES).min(BUFFER_BYTES);
            match self.reader.read(&mut self.buffer[self.end..wanted]) {
                Ok(0) => self.is_at_end = true,
                Ok(count) => self.end += count,
                Err(error) if error.kind() == IoKind::Interrupted => {}
                Err(error) => return Err(self.unreadable(&error)),
            }
        }
        Ok(self.held())
    }

    fn unreadable(&self, error: &std::io::Error) -> Error {
        let position = Position::Byte(self.offset + (self.end - self.start) as u64);
        // An error of the kernel has an errno; an error of the decompressor has none.
        let (kind, what) = match (error.raw_os_error(), error.kind()) {
            (Some(_), _) => (ErrorKind::Io, format!("cannot read: {error}")),
            (None, IoKind::UnexpectedEof) => {
                (ErrorKind::Corrupt, "compressed data ends too early".to_owned())
            }
            (None, _) => (ErrorKind::Corrupt, format!("compressed data is damaged: {error}")),
        };
        Error::new(kind, &self.path, what).at(position)
    }

    /// Whether the recording is read to its end; held bytes may remain.
    pub fn is_at_end(&self) -> bool {
        self.is_at_end
    }

    /// Drops the first `count` held bytes.
    pub fn consume(&mut self, count: usize) {
        let count = count.min(self.end - self.start);
        self.start += count;
        self.offset += count as u64;
    }

    /// Consumes `count` bytes, held or not.
    ///
    /// # Errors
    /// Errors of [`Self::fill`]; `Corrupt` if the recording ends too early.
    pub fn skip(&mut self, count: u64) -> Result<(), Error> {
        let goal = self.offset.saturating_add(count);
        while self.offset < goal {
            if self.held().is_empty() && self.fill()?.is_empty() {
                return Err(self.corrupt(&format!("ends {} bytes too early", goal - self.offset)));
            }
            let missing = usize::try_from(goal - self.offset).unwrap_or(usize::MAX);
            self.consume(missing.min(self.end - self.start));
        }
        Ok(())
    }

    /// Returns at least `count` held bytes; `None` at the end of the recording. `count` is at most
    /// `BUFFER_BYTES`.
    ///
    /// # Errors
    /// Errors of [`Self::fill`]; `Corrupt` if the recording ends within these bytes.
    pub fn need(&mut self, count: usize) -> Result<Option<&[u8]>, Error> {
        if self.end - self.start < count {
            let held = self.fill()?.len();
            if held == 0 {
                return Ok(None);
            }
            if held < count {
                return Err(self
                    .corrupt(&format!("ends within a record: {held} bytes of at least {count}")));
            }
        }
        Ok(Some(self.held()))
    }

    /// Fills `target`, consumes these bytes and returns their number, which is smaller only at the end of
    /// the recording.
    ///
    /// # Errors
    /// Errors of [`Self::fill`].
    pub fn read_into(&mut self, target: &mut [u8]) -> Result<usize, Error> {
        let mut filled = 0;
        while filled < target.len() {
            if self.held().is_empty() && self.fill()?.is_empty() {
                break;
            }
            let held = self.held();
            let count = held.len().min(target.len() - filled);
            target[filled..filled + count].copy_from_slice(&held[..count]);
            self.consume(count);
            filled += count;
        }
        Ok(filled)
    }

    /// An error at the first unconsumed byte.
    pub fn corrupt(&self, message: &str) -> Error {
        Error::new(ErrorKind::Corrupt, &self.path, message).at(Position::Byte(self.offset))
    }

    /// The decompressed recording for access by position. A compressed recording or a pipe is first copied
    /// to a temporary file; call this before consuming anything. The input itself stays where it is
    /// if nothing is copied, and is at its end otherwise.
    ///
    /// # Errors
    /// `Io` if it cannot be copied; errors of [`Self::fill`].
    pub fn whole(&mut self) -> Result<Whole, Error> {
        match &self.origin {
            Origin::File(file) if !self.is_packed => Whole::of_file(&self.path, Arc::clone(file)),
            Origin::Memory(bytes) if !self.is_packed => {
                Ok(Whole::of_memory(&self.path, Arc::clone(bytes)))
            }
            _ => {
                let path = self.path.clone();
                let failed = |error| {
                    let message = format!("cannot copy to a temporary file: {error}");
                    Error::new(ErrorKind::Io, &path, message)
                };
                let mut copy = tempfile::tempfile().map_err(failed)?;
                while !self.fill()?.is_empty() {
                    copy.write_all(self.held()).map_err(failed)?;
                    self.consume(usize::MAX);
                }
                Whole::of_file(&self.path, Arc::new(copy))
            }
        }
    }

    /// Opens the recording a second time at its beginning, independent of this input. A pipe is first
    /// copied to a temporary file; call this before consuming anything.
    ///
    /// # Errors
    /// `Io` if it cannot be read again or copied.
    pub fn again(&mut self) -> Result<Input, Error> {
        let path = self.path.clone();
        let failed =
            |error| Error::new(ErrorKind::Io, &path, format!("cannot read twice: {error}"));
        if matches!(self.origin, Origin::Stream) {
            let mut copy = tempfile::tempfile().map_err(failed)?;
            while !self.fill()?.is_empty() {
                copy.write_all(self.held()).map_err(failed)?;
                self.consume(usize::MAX);
            }
            copy.seek(SeekFrom::Start(0)).map_err(failed)?;
            let copy = Arc::new(copy);
            self.origin = Origin::File(Arc::clone(&copy));
            let reread = FileAt { file: copy, offset: 0 };
            let meter = Arc::clone(&self.meter);
            *self = Input::start(&path, self.origin.clone(), Box::new(reread), Arc::default())?;
            self.meter = meter;
        }
        let reader: Box<dyn Read + Send> = match &self.origin {
            Origin::File(file) => Box::new(FileAt { file: Arc::clone(file), offset: 0 }),
            Origin::Memory(bytes) => Box::new(std::io::Cursor::new(Arc::clone(bytes))),
            Origin::Stream => unreachable!("a stream was copied to a file above"),
        };
        Input::start(&path, self.origin.clone(), reader, Arc::default())
    }

    /// Opens the recording a second time, as [`Self::again`] does. What the second input decompresses is also copied
    /// to a temporary file: see [`Self::read_copy`]. There is no copy of a plain recording.
    ///
    /// # Errors
    /// Errors of [`Self::again`].
    pub(crate) fn again_copied(&mut self) -> Result<(Input, Option<UnpackedCopy>), Error> {
        let mut again = self.again()?;
        let copy = if again.is_packed { UnpackedCopy::begin(again.held()) } else { None };
        if let Some(copy) = &copy {
            let reader = std::mem::replace(&mut again.reader, Box::new(std::io::empty()));
            again.reader = Box::new(Copying::new(reader, copy.clone()));
        }
        Ok((again, copy))
    }

    /// Reads the rest from `copy` instead of decompressing it, if the input that made the copy has reached its end.
    ///
    /// # Errors
    /// `Io` if the compressed file cannot be read for its hash.
    pub(crate) fn read_copy(&mut self, copy: &UnpackedCopy) -> Result<(), Error> {
        let raw: Box<dyn Read> = match &self.origin {
            Origin::File(file) => Box::new(FileAt { file: Arc::clone(file), offset: 0 }),
            Origin::Memory(bytes) => Box::new(std::io::Cursor::new(Arc::clone(bytes))),
            Origin::Stream => return Ok(()),
        };
        let position = self.offset + (self.end - self.start) as u64;
        let Some((file, plain)) = copy.read_from(position) else { return Ok(()) };
        self.meter.hash_only(raw).map_err(|error| self.unreadable(&error))?;
        let packed = self.file_bytes().saturating_sub(self.meter.bytes());
        self.reader = Box::new(CopyReader::new(file, plain, packed, self.meter()));
        Ok(())
    }
}

/// Whether a zlib stream can begin with these bytes.
fn begins_zlib(head: &[u8]) -> bool {
    let mut text = [0; 4096];
    let mut stream = flate2::Decompress::new(true);
    stream.decompress(head, &mut text, flate2::FlushDecompress::None).is_ok()
}

/// Decompresses a zlib stream. Bytes after its end are an error, as after the last member of gzip.
struct Zlib<R>(flate2::bufread::ZlibDecoder<R>);

impl<R: BufRead> Read for Zlib<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.0.read(buffer)?;
        if count == 0 && !buffer.is_empty() && !self.0.get_mut().fill_buf()?.is_empty() {
            return Err(std::io::Error::new(IoKind::InvalidData, "bytes follow its end"));
        }
        Ok(count)
    }
}

/// The members of a zip archive, which is read by position, since the list of members is at its end. `whole` is the
/// archive as a stream; without a file it is first copied to a temporary one, which becomes the origin.
fn unzip(
    path: &Path,
    origin: &mut Origin,
    mut whole: impl Read,
    meter: &Arc<Meter>,
) -> Result<Members, Error> {
    let failed = |error| {
        let message = format!("cannot copy to a temporary file: {error}");
        Error::new(ErrorKind::Io, path, message)
    };
    match origin {
        Origin::Stream => {
            let mut copy = tempfile::tempfile().map_err(failed)?;
            std::io::copy(&mut whole, &mut copy).map_err(failed)?;
            let copy = Arc::new(copy);
            *origin = Origin::File(Arc::clone(&copy));
            // The copy was metered already.
            Members::open(Whole::of_file(path, copy)?, Arc::default())
        }
        Origin::File(file) => {
            let archive = Whole::of_file(path, Arc::clone(file))?;
            meter.hash_only(FileAt { file: Arc::clone(file), offset: 0 }).map_err(failed)?;
            Members::open(archive, Arc::clone(meter))
        }
        Origin::Memory(bytes) => {
            Members::open(Whole::of_memory(path, Arc::clone(bytes)), Arc::clone(meter))
        }
    }
}

/// A file read by position, so that several readers share it without affecting each other.
struct FileAt {
    file: Arc<File>,
    offset: u64,
}

impl Read for FileAt {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = std::os::unix::fs::FileExt::read_at(&*self.file, buffer, self.offset)?;
        self.offset += count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    fn read_all(mut input: Input) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        while !input.fill()?.is_empty() {
            bytes.extend_from_slice(input.held());
            input.consume(usize::MAX);
        }
        Ok(bytes)
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn streams_of_zlib_are_read() {
        let text = vec![b'x'; 3 * BUFFER_BYTES + 7];
        for level in [1, 6, 9] {
            let level = flate2::Compression::new(level);
            let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), level);
            encoder.write_all(&text).unwrap();
            let packed = encoder.finish().unwrap();
            let cut = packed[..packed.len() / 2].to_vec();
            let followed = [&packed[..], &[0; 9][..]].concat();
            assert_eq!(read_all(Input::from_bytes("a", packed).unwrap()).unwrap(), text);
            for damaged in [cut, followed] {
                let error = Input::from_bytes("a", damaged).and_then(read_all).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Corrupt);
            }
        }
        assert_eq!(read_all(Input::from_bytes("a", *b"x^2\n").unwrap()).unwrap(), b"x^2\n");
    }

    #[test]
    fn a_binary_trace_that_begins_like_zlib_is_read_as_it_is() {
        // The time of the first request in the format oracle, in seconds.
        for seconds in [376_u32, 40_056, 55_928] {
            let mut bytes = vec![0; 24 * 50];
            bytes[..4].copy_from_slice(&seconds.to_le_bytes());
            assert_eq!(read_all(Input::from_bytes("a", bytes.clone()).unwrap()).unwrap(), bytes);
        }
    }

    #[test]
    fn concatenated_members_and_frames_are_read_as_one_stream() {
        let text = vec![b'x'; 3 * BUFFER_BYTES + 7];
        let (left, right) = text.split_at(BUFFER_BYTES + 1);
        let gzipped = [gzip(left), gzip(right)].concat();
        assert_eq!(read_all(Input::from_bytes("a", gzipped).unwrap()).unwrap(), text);
        let frames =
            [zstd::encode_all(left, 1).unwrap(), zstd::encode_all(right, 1).unwrap()].concat();
        assert_eq!(read_all(Input::from_bytes("a", frames).unwrap()).unwrap(), text);
        assert_eq!(read_all(Input::from_bytes("a", text.clone()).unwrap()).unwrap(), text);
    }

    #[test]
    fn errors_of_compressed_data_have_an_offset() {
        let text: Vec<u8> =
            (0..900_000u32).flat_map(|n| n.wrapping_mul(97).to_le_bytes()).collect();
        for packed in [gzip(&text), zstd::encode_all(&text[..], 1).unwrap()] {
            let cut = packed[..packed.len() / 2].to_vec();
            let error = Input::from_bytes("cut", cut).and_then(read_all).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt);
            assert!(error.to_string().starts_with("cut at byte "), "{error}");
        }
        let empty = Input::from_bytes("none", Vec::new()).err().unwrap();
        assert_eq!(empty.to_string(), "none at byte 0: is empty");
        let empty = Input::from_bytes("none", gzip(b"")).err().unwrap();
        assert_eq!(empty.kind(), ErrorKind::Corrupt);
    }

    #[test]
    fn the_hash_is_that_of_the_compressed_file() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&gzip(b"abc")).unwrap();
        let input = Input::open(file.path(), true).unwrap();
        let meter = input.meter();
        assert_eq!(read_all(input).unwrap(), b"abc");
        let whole = Sha256::digest(std::fs::read(file.path()).unwrap());
        let hex: String = whole.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(meter.sha256(), Some(hex));
    }

    #[test]
    fn an_incomplete_record_is_refused() {
        let mut input = Input::from_bytes("short", vec![1; 10]).unwrap();
        assert_eq!(input.need(8).unwrap().unwrap().len(), 10);
        input.consume(8);
        let error = input.need(8).unwrap_err();
        let wanted = "short at byte 8: ends within a record: 2 bytes of at least 8";
        assert_eq!(error.to_string(), wanted);
        let mut input = Input::from_bytes("short", vec![1; 10]).unwrap();
        assert_eq!(
            input.skip(12).unwrap_err().to_string(),
            "short at byte 10: ends 2 bytes too early"
        );
    }

    #[test]
    fn an_input_can_be_read_again() {
        let mut input = Input::from_bytes("a", b"hello".to_vec()).unwrap();
        let again = input.again().unwrap();
        assert_eq!(read_all(again).unwrap(), b"hello");
        assert_eq!(read_all(input).unwrap(), b"hello");
    }
}
