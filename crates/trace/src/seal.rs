//! Checksums of a Parquet file, which the library does not write. They lie between the last column and
//! the footer, where other readers do not read, because no footer refers to it.
//!
//! | bytes | what |
//! |---|---|
//! | 4 | checksum (crate::checksum) of everything below in this table |
//! | 8 each | u32 length and u32 checksum of a piece of the file; the pieces cover the file from its beginning to this table, without gaps |
//! | 4 | u32 number of pieces |
//! | 8 | `MAGIC` |
//! | the rest | the footer, its length and `PAR1` |
//!
//! A file without `MAGIC` comes from an earlier pagewise or from another program and cannot be checked.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use parquet::errors::ParquetError;
use parquet::file::reader::ChunkReader;

use crate::checksum::checksum;

const MAGIC: &[u8; 8] = b"pgwcheck";

/// Bytes of the length of a footer and of `PAR1` after it.
const TAIL_BYTES: u64 = 8;

/// Bytes of the number of pieces and of `MAGIC`.
const END_BYTES: u64 = 12;

/// Bytes of the checksum of the whole seal.
const SUM_BYTES: u64 = 4;

/// Bytes of a piece in the list.
const PIECE_BYTES: usize = 8;

/// Longest piece of a file whose pieces do not follow its pages.
const EVEN_PIECE_BYTES: u64 = 1 << 20;

/// The pieces of a file, from its first byte on.
#[derive(Debug, Default)]
pub struct Pieces {
    list: Vec<Piece>,
    end: u64,
}

#[derive(Debug)]
struct Piece {
    start: u64,
    length: u32,
    sum: u32,
}

impl Pieces {
    /// Adds the next bytes of the file as a piece.
    pub fn push(&mut self, bytes: &[u8]) {
        self.add(bytes.len() as u32, checksum(bytes));
    }

    fn add(&mut self, length: u32, sum: u32) {
        self.list.push(Piece { start: self.end, length, sum });
        self.end += u64::from(length);
    }

    /// The pieces in the seal of `file`; `None` if it has no seal.
    ///
    /// # Errors
    /// If the checksum of the seal or footer is wrong, or the operating system refuses the read.
    pub fn of(file: &impl ChunkReader) -> Result<Option<Pieces>, ParquetError> {
        let Some(tail_at) = file.len().checked_sub(TAIL_BYTES) else { return Ok(None) };
        let footer_bytes = word(&file.get_bytes(tail_at, TAIL_BYTES as usize)?, 0);
        let end_at = tail_at.checked_sub(u64::from(footer_bytes) + END_BYTES);
        let Some(end_at) = end_at else { return Ok(None) };
        let end = file.get_bytes(end_at, END_BYTES as usize)?;
        if &end[4..] != MAGIC {
            return Ok(None);
        }
        let list_bytes = PIECE_BYTES as u64 * u64::from(word(&end, 0));
        let start = end_at.checked_sub(list_bytes + SUM_BYTES);
        let start = start.ok_or_else(|| wrong("its list of checksums"))?;
        let sealed = file.get_bytes(start, (file.len() - start) as usize)?;
        let (sum, sealed) = sealed.split_at(SUM_BYTES as usize);
        let mut pieces = Pieces::default();
        let (list, _) = sealed[..list_bytes as usize].as_chunks::<PIECE_BYTES>();
        list.iter().for_each(|piece| pieces.add(word(piece, 0), word(piece, 4)));
        if word(sum, 0) != checksum(sealed) || pieces.end != start {
            return Err(wrong("its footer"));
        }
        Ok(Some(pieces))
    }

    /// Length of the piece that begins at `start`; `None` after the last piece.
    ///
    /// # Errors
    /// If no piece begins at `start`.
    pub fn length_at(&self, start: u64) -> Result<Option<usize>, ParquetError> {
        Ok(self.at(start)?.map(|piece| piece.length as usize))
    }

    /// Compares `bytes` from offset `start` with their checksum. The bytes after the last piece were
    /// checked when the pieces were read.
    ///
    /// # Errors
    /// If the bytes differ or are no complete piece.
    pub fn check(&self, start: u64, bytes: &[u8]) -> Result<(), ParquetError> {
        match self.at(start)? {
            Some(piece) if (piece.length as usize, piece.sum) != (bytes.len(), checksum(bytes)) => {
                Err(wrong(&format!("what lies at byte {start}")))
            }
            _ => Ok(()),
        }
    }

    /// Compares all of `file` with its checksums.
    ///
    /// # Errors
    /// Errors of [`Self::check`]; the operating system refuses the read.
    pub fn check_all(&self, file: &impl ChunkReader) -> Result<(), ParquetError> {
        self.list.iter().try_for_each(|piece| {
            self.check(piece.start, &file.get_bytes(piece.start, piece.length as usize)?)
        })
    }

    fn at(&self, start: u64) -> Result<Option<&Piece>, ParquetError> {
        if start >= self.end {
            return Ok(None);
        }
        let place = self.list.binary_search_by_key(&start, |piece| piece.start);
        place.map(|place| self.list.get(place)).map_err(|_| wrong(&format!("byte {start}")))
    }
}

/// Writes the checksums of `pieces`, which reach up to the footer, into a complete Parquet file.
///
/// # Errors
/// If the operating system refuses the write.
pub fn seal(file: &File, pieces: &Pieces) -> io::Result<()> {
    let mut sealed = Vec::new();
    for piece in &pieces.list {
        sealed.extend(piece.length.to_le_bytes());
        sealed.extend(piece.sum.to_le_bytes());
    }
    sealed.extend((pieces.list.len() as u32).to_le_bytes());
    sealed.extend(MAGIC);
    let footer_at = sealed.len();
    sealed.resize(footer_at + (file.metadata()?.len() - pieces.end) as usize, 0);
    file.read_exact_at(&mut sealed[footer_at..], pieces.end)?;
    file.write_all_at(&checksum(&sealed).to_le_bytes(), pieces.end)?;
    file.write_all_at(&sealed, pieces.end + SUM_BYTES)
}

/// Writes checksums of pieces of equal length into a complete Parquet file.
///
/// # Errors
/// If the operating system refuses the write.
pub fn seal_evenly(file: &File) -> io::Result<()> {
    let tail_at = file.metadata()?.len() - TAIL_BYTES;
    let mut footer_bytes = [0; 4];
    file.read_exact_at(&mut footer_bytes, tail_at)?;
    let end = tail_at - u64::from(u32::from_le_bytes(footer_bytes));
    let mut pieces = Pieces::default();
    while pieces.end < end {
        let mut piece = vec![0; (end - pieces.end).min(EVEN_PIECE_BYTES) as usize];
        file.read_exact_at(&mut piece, pieces.end)?;
        pieces.push(&piece);
    }
    seal(file, &pieces)
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("the range has 4 bytes"))
}

fn wrong(what: &str) -> ParquetError {
    let what_to_do = "copy or create the file again";
    ParquetError::General(format!("{what} does not match its checksum: {what_to_do}"))
}
