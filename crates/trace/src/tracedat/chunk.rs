//! The bytes of a ring buffer in a file, chunk by chunk: compressed chunks of whole pages, or plain pages.

use super::contents::{Compression, CpuPart};
use super::cursor::BLOCK_BYTES_MAX;
use super::order::ByteOrder;
use crate::Error;
use crate::whole::Whole;

/// The longest unpacked chunk. trace-cmd makes chunks of 10 to some hundred pages.
const CHUNK_BYTES_MAX: u64 = 16 << 20;

/// Bytes of plain pages per read.
const READ_BYTES: usize = 64 << 10;

/// Unpacks `bytes` into exactly `length` bytes.
///
/// # Errors
/// A message if they are damaged or longer.
pub(super) fn unpack(
    compression: Compression,
    bytes: &[u8],
    length: u64,
) -> Result<Vec<u8>, String> {
    if length > BLOCK_BYTES_MAX {
        let most = BLOCK_BYTES_MAX;
        return Err(format!("a block of {length} bytes is packed here; at most {most}"));
    }
    let length = length as usize;
    let unpacked = match compression {
        Compression::None => return Err("a packed block in a file without compression".into()),
        Compression::Zstd => zstd::bulk::decompress(bytes, length)
            .map_err(|error| format!("compressed data is damaged: {error}"))?,
        Compression::Zlib => {
            let mut unpacked = Vec::with_capacity(length.min(1 << 20));
            let decoder = flate2::read::ZlibDecoder::new(bytes);
            let mut limited = std::io::Read::take(decoder, length as u64 + 1);
            std::io::Read::read_to_end(&mut limited, &mut unpacked)
                .map_err(|error| format!("compressed data is damaged: {error}"))?;
            unpacked
        }
    };
    if unpacked.len() == length {
        Ok(unpacked)
    } else {
        Err(format!("expected {length} bytes in compressed data, found {}", unpacked.len()))
    }
}

/// The chunks of one CPU.
pub(super) struct Chunks {
    part: CpuPart,
    order: ByteOrder,
    /// Offset in the file of the next chunk, and the end of the last.
    next: u64,
    end: u64,
    /// Chunks to come; `None` before their number is read.
    left: Option<u64>,
}

impl Chunks {
    pub(super) fn new(part: CpuPart, order: ByteOrder) -> Chunks {
        // trace-cmd 3.1.6 does not count the number of chunks, 4 bytes, in the length.
        let count_bytes = if part.compression == Compression::None { 0 } else { 4 };
        let end = part.offset.saturating_add(part.length).saturating_add(count_bytes);
        Chunks { part, order, next: part.offset, end, left: None }
    }

    /// Bytes in the file that were read.
    pub(super) fn bytes_read(&self) -> u64 {
        self.next - self.part.offset
    }

    /// Reads the next chunk into `chunk` and returns its offset in the file; `None` at the end.
    pub(super) fn read(
        &mut self,
        whole: &Whole,
        chunk: &mut Vec<u8>,
    ) -> Result<Option<u64>, Error> {
        let at = self.next;
        if self.part.compression == Compression::None {
            let page = self.part.page_bytes;
            let wanted = (READ_BYTES / page).max(1) * page;
            let length = (self.end - at).min(wanted as u64) as usize;
            if length == 0 {
                return Ok(None);
            }
            if at + length as u64 > whole.length() {
                return Err(self.cut(whole));
            }
            chunk.clear();
            chunk.resize(length, 0);
            whole.read_at(at, chunk)?;
            self.next = at + length as u64;
            return Ok(Some(at));
        }
        self.read_packed(whole, chunk)
    }

    fn read_packed(&mut self, whole: &Whole, chunk: &mut Vec<u8>) -> Result<Option<u64>, Error> {
        let left = match self.left {
            Some(left) => left,
            None => self.number(whole)?,
        };
        if left == 0 {
            return Ok(None);
        }
        self.left = Some(left - 1);
        let at = self.next;
        let (packed, unpacked) = (self.number(whole)?, self.number(whole)?);
        if packed > self.end - self.next || unpacked > CHUNK_BYTES_MAX {
            return Err(whole.corrupt(
                at,
                format!(
                    "expected a chunk of at most {} bytes, unpacked at most {CHUNK_BYTES_MAX}; \
                     found {packed} and {unpacked}",
                    self.end - self.next
                ),
            ));
        }
        if self.next + packed > whole.length() {
            return Err(self.cut(whole));
        }
        let mut bytes = vec![0; packed as usize];
        whole.read_at(self.next, &mut bytes)?;
        *chunk = unpack(self.part.compression, &bytes, unpacked)
            .map_err(|message| whole.corrupt(at, message))?;
        self.next += packed;
        Ok(Some(at))
    }

    fn number(&mut self, whole: &Whole) -> Result<u64, Error> {
        if self.end - self.next < 4 {
            return Err(whole.corrupt(self.next, "ends within the header of a chunk"));
        }
        let mut bytes = [0; 4];
        whole.read_at(self.next, &mut bytes)?;
        self.next += 4;
        Ok(self.order.number(&bytes))
    }

    /// The error for a file that ends before the events of this CPU.
    fn cut(&self, whole: &Whole) -> Error {
        let (cpu, end, length) = (self.part.cpu, self.end, whole.length());
        let message = format!("the events of CPU {cpu} reach to byte {end}: the file is cut");
        whole.corrupt(length, message)
    }
}
