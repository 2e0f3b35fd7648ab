//! The file as the Parquet library reads it: in pieces at given offsets, into reused buffers.
//!
//! The library's own reader allocates each piece. The pieces are so large that the allocator maps and
//! unmaps memory for each, which took a fifth of the time to read a trace.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};

use crate::seal::Pieces;

/// Largest number of buffers kept for later pieces: one or two for each column that is read.
const BUFFERS_MAX: usize = 16;

/// Largest buffer that is kept: no column chunk needs more, but a header may.
const BUFFER_BYTES_MAX: usize = 8 << 20;

/// Larger than any page header in our files, and far smaller than a page.
const HEADER_BYTES: usize = 256;

/// A file that is read piece by piece. Pieces with a checksum are compared with it.
pub(super) struct PooledFile {
    file: Arc<File>,
    length: u64,
    pool: Arc<Pool>,
    pieces: Option<Pieces>,
}

#[derive(Default)]
struct Pool {
    buffers: Mutex<Vec<Vec<u8>>>,
}

/// A piece of the file. Dropping it returns its buffer to the pool.
struct Piece {
    buffer: Vec<u8>,
    length: usize,
    pool: Arc<Pool>,
}

/// A reader with its own position.
pub(super) struct Cursor {
    file: Arc<File>,
    position: u64,
}

impl PooledFile {
    pub(super) fn new(file: File) -> Result<PooledFile, ParquetError> {
        let length = file.metadata()?.len();
        let (file, pool) = (Arc::new(file), Arc::default());
        let mut file = PooledFile { file, length, pool, pieces: None };
        file.pieces = Pieces::of(&file)?;
        Ok(file)
    }
}

impl Length for PooledFile {
    fn len(&self) -> u64 {
        self.length
    }
}

impl ChunkReader for PooledFile {
    type T = BufReader<Cursor>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        // The library reads page headers and the footer this way.
        let header = self.pieces.as_ref().map(|pieces| pieces.length_at(start)).transpose()?;
        if let Some(length) = header.flatten() {
            self.get_bytes(start, length)?;
        }
        let cursor = Cursor { file: self.file.clone(), position: start };
        Ok(BufReader::with_capacity(HEADER_BYTES, cursor))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        // Do not allocate memory for bytes beyond the end of a damaged file.
        let end = start.checked_add(length as u64);
        if end.is_none_or(|end| end > self.length) {
            let why = format!("{length} bytes at {start} of a file of {}", self.length);
            return Err(ParquetError::EOF(why));
        }
        let mut piece = Piece { buffer: self.pool.take(), length, pool: self.pool.clone() };
        if piece.buffer.len() < length {
            piece.buffer.resize(length, 0);
        }
        self.file.read_exact_at(&mut piece.buffer[..length], start)?;
        if let Some(pieces) = &self.pieces {
            pieces.check(start, piece.as_ref())?;
        }
        Ok(Bytes::from_owner(piece))
    }
}

impl Read for Cursor {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.position)?;
        self.position += count as u64;
        Ok(count)
    }
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.buffer[..self.length]
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.pool.give(std::mem::take(&mut self.buffer));
    }
}

impl Pool {
    fn take(&self) -> Vec<u8> {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    fn give(&self, buffer: Vec<u8>) {
        let mut buffers = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        if buffers.len() < BUFFERS_MAX && buffer.len() <= BUFFER_BYTES_MAX {
            buffers.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn pieces_keep_their_bytes_while_buffers_are_reused() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&(0..200).collect::<Vec<u8>>()).unwrap();
        let file = PooledFile::new(file).unwrap();
        let first = file.get_bytes(10, 50).unwrap();
        let second = file.get_bytes(100, 3).unwrap();
        drop(first.clone());
        assert_eq!((first[0], first[49], second.to_vec()), (10, 59, vec![100, 101, 102]));
        drop(first);
        let third = file.get_bytes(7, 2).unwrap();
        assert_eq!((third.to_vec(), second.to_vec()), (vec![7, 8], vec![100, 101, 102]));
        let mut rest = Vec::new();
        file.get_read(190).unwrap().read_to_end(&mut rest).unwrap();
        assert_eq!(rest, (190..200).collect::<Vec<u8>>());
    }

    #[test]
    fn a_read_beyond_the_end_allocates_no_memory() {
        let file = PooledFile::new(tempfile::tempfile().unwrap()).unwrap();
        for (start, length) in [(0, 1), (u64::MAX, 2), (0, usize::MAX >> 1)] {
            assert!(matches!(file.get_bytes(start, length), Err(ParquetError::EOF(_))));
        }
    }
}
