//! Blocks that stand alone, of which recordings are made: u32 kind, u32 length in the file, u32 length
//! unpacked, and a zstd frame with a checksum; little endian. What a killed recorder, a full disk or
//! a pulled plug leaves can be read up to its last whole block.

use std::io::{self, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Error;
use crate::input::Input;

/// Bytes ahead of the contents of a block.
pub const HEAD_BYTES: usize = 12;

/// Longest block that a reader accepts, packed or not: hostile lengths stop here.
const BLOCK_BYTES_MAX: usize = 64 << 20;

/// The fast levels of zstd, below 1, cost the recorded machine less and its disk more.
const COMPRESSION_LEVEL: i32 = -30;

/// Writes blocks, each in one call, so that what is on disk ends with a whole block unless the
/// machine itself stops.
pub struct FrameWriter<W: Write> {
    output: W,
    compressor: zstd::bulk::Compressor<'static>,
    /// Kept from block to block.
    block: Vec<u8>,
    bytes: u64,
}

impl<W: Write> FrameWriter<W> {
    /// Begins a file with the number that names its format.
    ///
    /// # Errors
    /// What the operating system refuses.
    pub fn new(mut output: W, magic: [u8; 8]) -> io::Result<FrameWriter<W>> {
        output.write_all(&magic)?;
        let mut compressor = zstd::bulk::Compressor::new(COMPRESSION_LEVEL)?;
        compressor.include_checksum(true)?;
        Ok(FrameWriter { output, compressor, block: Vec::new(), bytes: magic.len() as u64 })
    }

    /// Bytes of whole blocks written so far; what a failed write left lies behind them.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes `part` as the JSON of a block.
    ///
    /// # Errors
    /// What the operating system refuses.
    pub fn write_json(&mut self, kind: u32, part: &impl Serialize) -> io::Result<()> {
        let text = serde_json::to_vec(part).map_err(io::Error::other)?;
        self.write(kind, &text)
    }

    /// Writes a block.
    ///
    /// # Errors
    /// What the operating system refuses.
    pub fn write(&mut self, kind: u32, contents: &[u8]) -> io::Result<()> {
        self.block.resize(HEAD_BYTES + zstd::zstd_safe::compress_bound(contents.len()), 0);
        let (head, room) = self.block.split_at_mut(HEAD_BYTES);
        let packed_bytes = self.compressor.compress_to_buffer(contents, room)?;
        head[..4].copy_from_slice(&kind.to_le_bytes());
        head[4..8].copy_from_slice(&(packed_bytes as u32).to_le_bytes());
        head[8..].copy_from_slice(&(contents.len() as u32).to_le_bytes());
        self.output.write_all(&self.block[..HEAD_BYTES + packed_bytes])?;
        self.bytes += (HEAD_BYTES + packed_bytes) as u64;
        Ok(())
    }

    /// Hands back where the blocks went, all of them written.
    ///
    /// # Errors
    /// What the operating system refuses.
    pub fn finish(mut self) -> io::Result<W> {
        self.output.flush()?;
        Ok(self.output)
    }
}

/// Passes the number that names a format, with which `input` begins; false where it begins otherwise.
///
/// # Errors
/// What the operating system refuses.
pub fn pass_magic(input: &mut Input, magic: &[u8; 8]) -> Result<bool, Error> {
    let is_it = input.fill()?.starts_with(magic);
    if is_it {
        input.consume(magic.len());
    }
    Ok(is_it)
}

/// One block of a file.
pub enum Frame {
    /// Its kind, and what it holds.
    Whole(u32, Vec<u8>),
    /// The file ends within a block, of which this many bytes are there.
    CutShort(u64),
}

/// The next block of `input`, which stands behind the magic number or another block; none at the end.
///
/// # Errors
/// `Corrupt` with the offset where a whole block is not what the format demands; what the operating
/// system refuses.
pub fn read_frame(input: &mut Input) -> Result<Option<Frame>, Error> {
    let mut head = [0; HEAD_BYTES];
    let there = input.read_into(&mut head)?;
    if there == 0 {
        return Ok(None);
    }
    if there < head.len() {
        return Ok(Some(Frame::CutShort(there as u64)));
    }
    let field =
        |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("the range has 4 bytes"));
    let (kind, packed_bytes, bytes) = (field(0), field(4) as usize, field(8) as usize);
    if packed_bytes.max(bytes) > BLOCK_BYTES_MAX {
        let found = format!("expected a block of at most {BLOCK_BYTES_MAX} bytes");
        return Err(input.corrupt(&found));
    }
    let mut packed = vec![0; packed_bytes];
    let there = input.read_into(&mut packed)?;
    if there < packed_bytes {
        return Ok(Some(Frame::CutShort((HEAD_BYTES + there) as u64)));
    }
    let contents = zstd::bulk::decompress(&packed, bytes)
        .map_err(|error| input.corrupt(&format!("a block does not unpack: {error}")))?;
    Ok(Some(Frame::Whole(kind, contents)))
}

/// What the JSON of a block holds.
///
/// # Errors
/// What was expected of it.
pub fn parse_json<Part: DeserializeOwned>(contents: &[u8]) -> Result<Part, String> {
    serde_json::from_slice(contents)
        .map_err(|error| format!("expected the JSON of a block: {error}"))
}
