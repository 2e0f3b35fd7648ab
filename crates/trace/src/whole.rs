//! A decompressed recording that is read by position: for formats that name places in the file.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::{Error, ErrorKind, Position};

/// A recording of known length, on disk or in memory.
#[derive(Clone)]
pub struct Whole {
    path: PathBuf,
    bytes: Bytes,
    length: u64,
}

#[derive(Clone)]
enum Bytes {
    File(Arc<File>),
    Memory(Arc<[u8]>),
}

impl Whole {
    /// The bytes of a file; `path` is for messages.
    ///
    /// # Errors
    /// `Io` if the file has no length.
    pub fn of_file(path: &Path, file: Arc<File>) -> Result<Whole, Error> {
        let metadata = file.metadata();
        let length = metadata
            .map_err(|error| Error::new(ErrorKind::Io, path, format!("cannot read: {error}")))?
            .len();
        Ok(Whole { path: path.to_owned(), bytes: Bytes::File(file), length })
    }

    /// Bytes in memory; `path` is for messages.
    pub fn of_memory(path: &Path, bytes: Arc<[u8]>) -> Whole {
        let length = bytes.len() as u64;
        Whole { path: path.to_owned(), bytes: Bytes::Memory(bytes), length }
    }

    /// Length of the recording in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The path as it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Fills `target` with the bytes from `offset` on.
    ///
    /// # Errors
    /// `Corrupt` if the recording ends before, `Io` if the system refuses the read.
    pub fn read_at(&self, offset: u64, target: &mut [u8]) -> Result<(), Error> {
        let wanted = target.len() as u64;
        let end = offset.checked_add(wanted).filter(|&end| end <= self.length);
        let Some(end) = end else {
            let length = self.length;
            let message = format!("needs {wanted} bytes here, but the file has {length} bytes");
            return Err(self.corrupt(offset, message));
        };
        match &self.bytes {
            Bytes::File(file) => file.read_exact_at(target, offset).map_err(|error| {
                Error::new(ErrorKind::Io, &self.path, format!("cannot read: {error}"))
                    .at(Position::Byte(offset))
            }),
            Bytes::Memory(bytes) => {
                // Both fit: they are within the length of a slice.
                target.copy_from_slice(&bytes[offset as usize..end as usize]);
                Ok(())
            }
        }
    }

    /// Reads up to `target.len()` bytes from `offset` on; 0 at the end.
    ///
    /// # Errors
    /// If the system refuses the read.
    pub fn read_some_at(&self, offset: u64, target: &mut [u8]) -> std::io::Result<usize> {
        match &self.bytes {
            Bytes::File(file) => file.read_at(target, offset),
            Bytes::Memory(bytes) => {
                let rest = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..));
                let rest = rest.unwrap_or_default();
                let count = rest.len().min(target.len());
                target[..count].copy_from_slice(&rest[..count]);
                Ok(count)
            }
        }
    }

    /// The error for damage at `offset`.
    pub fn corrupt(&self, offset: u64, message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Corrupt, &self.path, message).at(Position::Byte(offset))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use crate::input::Input;

    #[test]
    fn plain_and_compressed_recordings_are_read_by_position() {
        let text: Vec<u8> = (0..=255).collect();
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(&text).unwrap();
        for bytes in [text.clone(), encoder.finish().unwrap()] {
            let whole = Input::from_bytes("a", bytes).unwrap().whole().unwrap();
            assert_eq!(whole.length(), 256);
            let mut part = [0; 3];
            whole.read_at(253, &mut part).unwrap();
            assert_eq!(part, [253, 254, 255]);
            let error = whole.read_at(254, &mut part).unwrap_err().to_string();
            assert_eq!(error, "a at byte 254: needs 3 bytes here, but the file has 256 bytes");
            assert!(whole.read_at(u64::MAX, &mut part).is_err());
        }
    }
}
