//! A copy of a compressed recording in a temporary file, made while the recording is decompressed, so that a second
//! reading need not decompress it again.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::meter::Meter;

/// Bytes of a copy at most. A longer recording is decompressed again.
const COPY_BYTES_MAX: u64 = 1 << 30;

/// The decompressed bytes so far.
#[derive(Clone)]
pub(crate) struct UnpackedCopy(Arc<Mutex<Copied>>);

struct Copied {
    /// None after a failure, or if the copy would be too long.
    file: Option<File>,
    bytes: u64,
    is_whole: bool,
}

impl UnpackedCopy {
    /// A copy that begins with these bytes; None if there can be no temporary file.
    pub(crate) fn begin(bytes: &[u8]) -> Option<UnpackedCopy> {
        let file = Some(tempfile::tempfile().ok()?);
        let copied = Copied { file, bytes: 0, is_whole: false };
        let copy = UnpackedCopy(Arc::new(Mutex::new(copied)));
        copy.add(bytes);
        Some(copy)
    }

    fn lock(&self) -> MutexGuard<'_, Copied> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, bytes: &[u8]) {
        let mut copied = self.lock();
        copied.bytes += bytes.len() as u64;
        let is_short = copied.bytes <= COPY_BYTES_MAX;
        copied.file =
            copied.file.take().filter(|mut file| is_short && file.write_all(bytes).is_ok());
    }

    /// The copy from `offset` on, and the number of bytes that follow; None if it is not whole.
    pub(crate) fn read_from(&self, offset: u64) -> Option<(File, u64)> {
        let mut copied = self.lock();
        let left = copied.bytes.checked_sub(offset).filter(|_| copied.is_whole)?;
        let mut file = copied.file.take()?;
        file.seek(SeekFrom::Start(offset)).ok()?;
        Some((file, left))
    }
}

/// Passes bytes on and copies them.
pub(crate) struct Copying<R> {
    reader: R,
    copy: UnpackedCopy,
}

impl<R> Copying<R> {
    /// Copies what is read from `reader`, which follows what `copy` has.
    pub(crate) fn new(reader: R, copy: UnpackedCopy) -> Copying<R> {
        Copying { reader, copy }
    }
}

impl<R: Read> Read for Copying<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.reader.read(buffer)?;
        if count > 0 {
            self.copy.add(&buffer[..count]);
        } else if !buffer.is_empty() {
            self.copy.lock().is_whole = true;
        }
        Ok(count)
    }
}

/// Reads a copy, and meters the bytes of the compressed recording that stand for what was read.
pub(crate) struct CopyReader {
    file: File,
    meter: Arc<Meter>,
    /// Bytes of the copy, and of the compressed recording, that are left at the beginning.
    plain: u64,
    packed: u64,
    read: u64,
    metered: u64,
}

impl CopyReader {
    /// Reads `plain` bytes of `file` that stand for `packed` bytes of the recording.
    pub(crate) fn new(file: File, plain: u64, packed: u64, meter: Arc<Meter>) -> CopyReader {
        CopyReader { file, meter, plain, packed, read: 0, metered: 0 }
    }
}

impl Read for CopyReader {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.read += count as u64;
        let share = u128::from(self.packed) * u128::from(self.read) / u128::from(self.plain.max(1));
        let metered = u64::try_from(share).unwrap_or(self.packed).min(self.packed);
        self.meter.count(metered.saturating_sub(self.metered));
        self.metered = metered;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use crate::input::Input;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn text() -> Vec<u8> {
        (0..400_000u32).flat_map(|number| number.wrapping_mul(97).to_le_bytes()).collect()
    }

    fn read_all(input: &mut Input) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        while !input.fill()?.is_empty() {
            bytes.extend_from_slice(input.held());
            input.consume(usize::MAX);
        }
        Ok(bytes)
    }

    #[test]
    fn a_copy_gives_the_bytes_the_hash_and_the_progress_of_the_recording() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&gzip(&text())).unwrap();
        let mut input = Input::open(file.path(), true).unwrap();
        let (mut ahead, copy) = input.again_copied().unwrap();
        assert_eq!(read_all(&mut ahead).unwrap(), text());
        let begun = input.meter().bytes();
        input.read_copy(&copy.unwrap()).unwrap();
        assert_eq!(read_all(&mut input).unwrap(), text());
        let mut again = Input::open(file.path(), true).unwrap();
        read_all(&mut again).unwrap();
        assert_eq!(input.meter().sha256(), again.meter().sha256());
        assert_eq!(input.meter().bytes(), input.file_bytes());
        assert!(begun < input.file_bytes());
    }

    #[test]
    fn a_copy_that_is_not_whole_is_not_used() {
        let packed = gzip(&text());
        let cut = packed[..packed.len() / 2].to_vec();
        let mut input = Input::from_bytes("cut", cut).unwrap();
        let (mut ahead, copy) = input.again_copied().unwrap();
        let error = read_all(&mut ahead).unwrap_err().to_string();
        input.read_copy(&copy.unwrap()).unwrap();
        assert_eq!(read_all(&mut input).unwrap_err().to_string(), error);

        let mut input = Input::from_bytes("whole", packed).unwrap();
        let (mut ahead, copy) = input.again_copied().unwrap();
        ahead.fill().unwrap();
        input.read_copy(&copy.unwrap()).unwrap();
        assert_eq!(read_all(&mut input).unwrap(), text());
    }

    #[test]
    fn a_plain_recording_is_not_copied() {
        let mut input = Input::from_bytes("plain", text()).unwrap();
        assert!(input.again_copied().unwrap().1.is_none());
    }
}
