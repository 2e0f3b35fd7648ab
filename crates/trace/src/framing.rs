//! Recordings consist of independent blocks: a head, and a zstd frame with a checksum. The head is u32
//! kind, u32 length in the file, u32 length unpacked, and the checksum (crate::checksum) of the
//! block's offset in the file (u64) and of these three; little endian. After a killed recorder, a full
//! disk or a power cut, the file can be read up to its last complete block. Older files have heads
//! without a checksum.

use std::io::{self, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::checksum::{WRONG_HEAD, head_sum};
use crate::input::Input;
use crate::{Error, ErrorKind, Position};

/// Bytes of a head without its checksum.
const FIELDS_BYTES: usize = 12;

/// Bytes of a head with its checksum.
const HEAD_BYTES: usize = FIELDS_BYTES + size_of::<u32>();

/// Longest block that a reader accepts, packed or unpacked; a bound on hostile lengths.
const BLOCK_BYTES_MAX: usize = 64 << 20;

/// The fast levels of zstd, below 1, cost the recorded machine less and its disk more.
const COMPRESSION_LEVEL: i32 = -30;

/// First bytes of the files of a format, with the version in the last byte.
pub struct Magic {
    /// Files of the current version, whose heads have a checksum.
    pub checked: [u8; 8],
    /// Files of the version before, whose heads have no checksum.
    pub unchecked: [u8; 8],
}

impl Magic {
    /// Whether a file that begins with `head` is of this format.
    pub fn begins(&self, head: &[u8]) -> bool {
        head.starts_with(&self.checked) || head.starts_with(&self.unchecked)
    }
}

/// Writes each block in a single call, so that the file ends with a complete block unless the machine
/// itself stops.
pub struct FrameWriter<W: Write> {
    output: W,
    compressor: zstd::bulk::Compressor<'static>,
    /// Buffer, reused for every block.
    block: Vec<u8>,
    bytes: u64,
}

impl<W: Write> FrameWriter<W> {
    /// Begins a file with the magic number of its format.
    ///
    /// # Errors
    /// If the operating system refuses the write.
    pub fn new(output: W, magic: &Magic) -> io::Result<FrameWriter<W>> {
        FrameWriter::with_level(output, magic, COMPRESSION_LEVEL)
    }

    /// Begins a file whose blocks are packed with a level of zstd.
    ///
    /// # Errors
    /// If the operating system refuses the write.
    pub fn with_level(mut output: W, magic: &Magic, level: i32) -> io::Result<FrameWriter<W>> {
        let magic = magic.checked;
        output.write_all(&magic)?;
        let mut compressor = zstd::bulk::Compressor::new(level)?;
        compressor.include_checksum(true)?;
        Ok(FrameWriter { output, compressor, block: Vec::new(), bytes: magic.len() as u64 })
    }

    /// Bytes of complete blocks written so far; a failed write may leave more bytes after them.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes `part` as the JSON of a block.
    ///
    /// # Errors
    /// If the operating system refuses the write.
    pub fn write_json(&mut self, kind: u32, part: &impl Serialize) -> io::Result<()> {
        let text = serde_json::to_vec(part).map_err(io::Error::other)?;
        self.write(kind, &text)
    }

    /// Writes a block.
    ///
    /// # Errors
    /// If the operating system refuses the write.
    pub fn write(&mut self, kind: u32, contents: &[u8]) -> io::Result<()> {
        self.block.resize(HEAD_BYTES + zstd::zstd_safe::compress_bound(contents.len()), 0);
        let (head, room) = self.block.split_at_mut(HEAD_BYTES);
        let packed_bytes = self.compressor.compress_to_buffer(contents, room)?;
        let (fields, sum) = head.split_at_mut(FIELDS_BYTES);
        fields[..4].copy_from_slice(&kind.to_le_bytes());
        fields[4..8].copy_from_slice(&(packed_bytes as u32).to_le_bytes());
        fields[8..].copy_from_slice(&(contents.len() as u32).to_le_bytes());
        sum.copy_from_slice(&head_sum(self.bytes, fields).to_le_bytes());
        self.output.write_all(&self.block[..HEAD_BYTES + packed_bytes])?;
        self.bytes += (HEAD_BYTES + packed_bytes) as u64;
        Ok(())
    }

    /// Writes a block that another writer has packed; `block` is its head and its frame. Only the checksum of the head,
    /// which depends on the offset, is computed again.
    ///
    /// # Errors
    /// If the operating system refuses the write.
    pub fn write_packed(&mut self, block: &[u8]) -> io::Result<()> {
        self.block.clear();
        self.block.extend_from_slice(block);
        let (fields, sum) = self.block[..HEAD_BYTES].split_at_mut(FIELDS_BYTES);
        sum.copy_from_slice(&head_sum(self.bytes, fields).to_le_bytes());
        self.output.write_all(&self.block)?;
        self.bytes += self.block.len() as u64;
        Ok(())
    }

    /// The output. It gets the magic number and then each block in one call of `write_all`.
    pub fn output_mut(&mut self) -> &mut W {
        &mut self.output
    }

    /// Flushes all blocks and returns the output.
    ///
    /// # Errors
    /// If the operating system refuses the write.
    pub fn finish(mut self) -> io::Result<W> {
        self.output.flush()?;
        Ok(self.output)
    }
}

/// The head and the frame of the first block in `bytes`, which a [`FrameWriter`] wrote; `None` if there is none.
pub fn first_packed(bytes: &[u8]) -> Option<&[u8]> {
    let head = bytes.first_chunk::<HEAD_BYTES>()?;
    bytes.get(..HEAD_BYTES + field(head, 4) as usize)
}

/// The kind of a block of [`first_packed`].
pub fn packed_kind(block: &[u8]) -> Option<u32> {
    Some(field(block.first_chunk::<HEAD_BYTES>()?, 0))
}

/// The unpacked contents of a block of [`first_packed`]; `None` if it is damaged.
pub fn packed_contents(block: &[u8]) -> Option<Vec<u8>> {
    let (head, frame) = block.split_first_chunk::<HEAD_BYTES>()?;
    zstd::bulk::decompress(frame, field(head, 8) as usize).ok()
}

/// The number at byte `at` of a head.
fn field(head: &[u8; HEAD_BYTES], at: usize) -> u32 {
    u32::from_le_bytes(head[at..at + 4].try_into().expect("the range has 4 bytes"))
}

/// A block of a file.
pub enum FramedBlock {
    /// The kind and the unpacked contents of a complete block.
    Whole(u32, Vec<u8>),
    /// The file ends within a block, after this number of its bytes.
    CutShort(u64),
}

/// Reads a file block by block.
pub struct FrameReader {
    input: Input,
    is_checked: bool,
}

impl FrameReader {
    /// Reads the magic number; `None` if `input` begins with other bytes.
    ///
    /// # Errors
    /// If the operating system refuses the read.
    pub fn new(mut input: Input, magic: &Magic) -> Result<Option<FrameReader>, Error> {
        let head = input.fill()?;
        if !magic.begins(head) {
            return Ok(None);
        }
        let is_checked = head.starts_with(&magic.checked);
        input.consume(magic.checked.len());
        Ok(Some(FrameReader { input, is_checked }))
    }

    /// The next block; `None` at the end.
    ///
    /// # Errors
    /// `Corrupt` with the offset if a complete block violates the format; `Io` if the operating system
    /// refuses the read.
    pub fn read(&mut self) -> Result<Option<FramedBlock>, Error> {
        let start = self.input.offset();
        let mut head = [0; HEAD_BYTES];
        let head = &mut head[..if self.is_checked { HEAD_BYTES } else { FIELDS_BYTES }];
        let there = self.input.read_into(head)?;
        if there == 0 {
            return Ok(None);
        }
        if there < head.len() {
            return Ok(Some(FramedBlock::CutShort(there as u64)));
        }
        // After a power cut, some file systems keep the length of a file but not its last bytes.
        if head.iter().all(|&byte| byte == 0) {
            return self.pass_rest(start).map(Some);
        }
        let field = |at: usize| {
            u32::from_le_bytes(head[at..at + 4].try_into().expect("the range has 4 bytes"))
        };
        if self.is_checked && field(FIELDS_BYTES) != head_sum(start, &head[..FIELDS_BYTES]) {
            let error = Error::new(ErrorKind::Corrupt, self.input.path(), WRONG_HEAD);
            return Err(error.at(Position::Byte(start)));
        }
        let (kind, packed_bytes, bytes) = (field(0), field(4) as usize, field(8) as usize);
        if packed_bytes.max(bytes) > BLOCK_BYTES_MAX {
            let found = format!("expected a block of at most {BLOCK_BYTES_MAX} bytes");
            return Err(self.corrupt(&found));
        }
        let mut packed = vec![0; packed_bytes];
        let there = self.input.read_into(&mut packed)?;
        if there < packed_bytes {
            return Ok(Some(FramedBlock::CutShort(self.input.offset() - start)));
        }
        let contents = zstd::bulk::decompress(&packed, bytes)
            .map_err(|error| self.corrupt(&format!("a block does not unpack: {error}")))?;
        Ok(Some(FramedBlock::Whole(kind, contents)))
    }

    /// Accepts a block of a kind that this version does not know.
    ///
    /// # Errors
    /// `Corrupt` if heads have no checksum: older files have no other kinds, so the head is damaged.
    pub fn pass_unknown(&self, kind: u32) -> Result<(), Error> {
        if self.is_checked {
            return Ok(());
        }
        Err(self.corrupt(&format!("expected a block of a known kind, found {kind}")))
    }

    /// An error at the first unread byte.
    pub fn corrupt(&self, message: &str) -> Error {
        self.input.corrupt(message)
    }

    /// Skips everything from `start` on as a block that was cut short.
    fn pass_rest(&mut self, start: u64) -> Result<FramedBlock, Error> {
        while !self.input.fill()?.is_empty() {
            self.input.consume(usize::MAX);
        }
        Ok(FramedBlock::CutShort(self.input.offset() - start))
    }
}

/// Parses the JSON of a block.
///
/// # Errors
/// Names what it expected.
pub fn parse_json<Part: DeserializeOwned>(contents: &[u8]) -> Result<Part, String> {
    serde_json::from_slice(contents)
        .map_err(|error| format!("expected the JSON of a block: {error}"))
}
