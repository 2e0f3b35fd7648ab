//! How much of an input is read, and its hash, while it is read.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest, Sha256};

/// Progress and hash of an input, for another thread to read during an import.
#[derive(Debug, Default)]
pub struct Meter {
    bytes: AtomicU64,
    hash: Mutex<Option<Sha256>>,
}

impl Meter {
    /// A meter of an input that is not read yet.
    pub fn new(is_hashed: bool) -> Meter {
        let hash = is_hashed.then(Sha256::new);
        Meter { bytes: AtomicU64::new(0), hash: Mutex::new(hash) }
    }

    /// Bytes of the file read so far, before decompression.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// sha256 of the bytes read, in hexadecimal, if it was requested.
    pub fn sha256(&self) -> Option<String> {
        let hash = self.hash.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        Some(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Counts bytes of a file that is read by position; its hash is computed separately.
    pub fn count(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Computes the hash of a whole file, if it was requested, without counting its bytes. It replaces the hash so far.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn hash_only(&self, mut file: impl Read) -> std::io::Result<()> {
        let mut hash = self.hash.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(hash) = hash.as_mut() else { return Ok(()) };
        *hash = Sha256::new();
        std::io::copy(&mut file, &mut Hashing(hash)).map(drop)
    }

    fn take(&self, bytes: &[u8]) {
        self.count(bytes.len() as u64);
        if let Some(hash) = self.hash.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            hash.update(bytes);
        }
    }
}

/// Hashes what is written.
struct Hashing<'a>(&'a mut Sha256);

impl Write for Hashing<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Passes bytes on and meters them.
pub(crate) struct Metered<R> {
    reader: R,
    meter: Arc<Meter>,
}

impl<R> Metered<R> {
    /// Meters what is read from `reader`.
    pub(crate) fn new(reader: R, meter: Arc<Meter>) -> Metered<R> {
        Metered { reader, meter }
    }
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.reader.read(buffer)?;
        self.meter.take(&buffer[..count]);
        Ok(count)
    }
}
