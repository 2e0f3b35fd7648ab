//! The packets of a file, also those inside compressed packets. A file is a message `Trace`, whose field 1
//! repeats; so files that are joined are a file again.

use std::io::Read;

use super::wire::{Message, Value, take_number};
use crate::input::{BUFFER_BYTES, Input};
use crate::system::Tally;
use crate::unpacked::UnpackedCopy;
use crate::{Error, ErrorKind};

/// The largest packet that is read, packed or not. Perfetto's packets have at most some hundred kilobytes.
pub const PACKET_BYTES_MAX: usize = 8 << 20;

/// Bytes that a compressed packet may hold; the rest is lost.
const UNPACKED_BYTES_MAX: usize = 32 << 20;

/// Bytes that a key and a length take at most.
const HEAD_BYTES: usize = 20;

/// Fields of `TracePacket` that hold compressed packets.
const ZLIB_PACKETS: u32 = 50;
const ZSTD_PACKETS: u32 = 133;

/// Reads packets.
pub struct Packets {
    input: Input,
    /// Packets out of a compressed packet, and how far they are read.
    unpacked: Vec<u8>,
    unpacked_taken: usize,
    is_ended: bool,
}

impl Packets {
    /// The packets of a file, from its beginning.
    pub fn new(input: Input) -> Packets {
        Packets { input, unpacked: Vec::new(), unpacked_taken: 0, is_ended: false }
    }

    /// Reads the rest of the file from a copy of it that is not compressed, if that is whole.
    ///
    /// # Errors
    /// Errors of [`Input::read_copy`].
    pub fn read_copy(&mut self, copy: &UnpackedCopy) -> Result<(), Error> {
        self.input.read_copy(copy)
    }

    /// Replaces `packet` by the next packet; false at the end. A packet inside a compressed packet counts as a
    /// packet.
    ///
    /// # Errors
    /// If the file cannot be read, or a byte is no field, with the offset. A cut file ends with a loss.
    pub fn next(&mut self, packet: &mut Vec<u8>, tally: &mut Tally) -> Result<bool, Error> {
        loop {
            if self.next_unpacked(packet, tally) {
                return Ok(true);
            }
            if self.is_ended || !self.next_of_file(packet, tally)? {
                self.is_ended = true;
                return Ok(false);
            }
            if !self.unpack(packet, tally) {
                return Ok(true);
            }
        }
    }

    /// The next packet out of the last compressed packet.
    fn next_unpacked(&mut self, packet: &mut Vec<u8>, tally: &mut Tally) -> bool {
        let rest = &self.unpacked[self.unpacked_taken..];
        let mut fields = Message::new(rest);
        while let Some((number, value)) = fields.next() {
            self.unpacked_taken = self.unpacked.len() - fields.rest().len();
            match value {
                Value::Bytes(bytes) if number == 1 && bytes.len() > PACKET_BYTES_MAX => {
                    tally.skip_bytes(bytes.len() as u64);
                    tally.lose("packets of more than 8 MiB", 1);
                }
                Value::Bytes(bytes) if number == 1 => {
                    packet.clear();
                    packet.extend_from_slice(bytes);
                    return true;
                }
                _ => tally.unknown_field("Trace", number),
            }
        }
        if fields.is_damaged() {
            tally.lose("compressed packets with damaged contents", 1);
        }
        self.unpacked.clear();
        self.unpacked_taken = 0;
        false
    }

    fn next_of_file(&mut self, packet: &mut Vec<u8>, tally: &mut Tally) -> Result<bool, Error> {
        loop {
            let held = self.fill(HEAD_BYTES, tally)?;
            if held == 0 {
                return Ok(false);
            }
            let mut rest = self.input.held();
            let Some(key) = take_number(&mut rest) else {
                return self.bad_head(held, tally);
            };
            let (number, wire_type) = ((key >> 3) as u32, key & 7);
            if key >> 3 == 0 || key >> 3 > u64::from(u32::MAX) {
                return Err(self.no_field());
            }
            if wire_type != 2 {
                let length = match wire_type {
                    0 => take_number(&mut rest).map(|_| held_length(self.input.held(), rest)),
                    1 => Some(held_length(self.input.held(), rest) + 8),
                    5 => Some(held_length(self.input.held(), rest) + 4),
                    _ => return Err(self.no_field()),
                };
                let Some(length) = length.filter(|&length| length <= held) else {
                    return self.bad_head(held, tally);
                };
                tally.unknown_field("Trace", number);
                self.input.consume(length);
                continue;
            }
            let Some(length) = take_number(&mut rest) else {
                return self.bad_head(held, tally);
            };
            let head = held_length(self.input.held(), rest);
            self.input.consume(head);
            let is_packet = number == 1;
            if is_packet && length <= PACKET_BYTES_MAX as u64 {
                return self.read_packet(length as usize, packet, tally);
            }
            if is_packet {
                tally.lose("packets of more than 8 MiB", 1);
            } else {
                tally.unknown_field("Trace", number);
            }
            if !self.skip(length, tally)? {
                return Ok(false);
            }
        }
    }

    /// Reads a packet of `length` bytes; false if the file ends within it.
    fn read_packet(
        &mut self,
        length: usize,
        packet: &mut Vec<u8>,
        tally: &mut Tally,
    ) -> Result<bool, Error> {
        packet.clear();
        while packet.len() < length {
            if self.fill(1, tally)? == 0 {
                tally.skip_bytes(packet.len() as u64);
                tally.lose("packets that the end of the file cuts", 1);
                return Ok(false);
            }
            let held = self.input.held();
            let count = held.len().min(length - packet.len());
            packet.extend_from_slice(&held[..count]);
            self.input.consume(count);
        }
        Ok(true)
    }

    /// Skips `length` bytes; false if the file ends before.
    fn skip(&mut self, mut length: u64, tally: &mut Tally) -> Result<bool, Error> {
        while length > 0 {
            let held = self.fill(1, tally)?;
            if held == 0 {
                tally.lose("packets that the end of the file cuts", 1);
                return Ok(false);
            }
            let count = usize::try_from(length).unwrap_or(usize::MAX).min(held);
            self.input.consume(count);
            tally.skip_bytes(count as u64);
            length -= count as u64;
        }
        Ok(true)
    }

    /// Holds at least `wanted` bytes if the file has them, and returns how many it holds. Compressed data that
    /// ends too early ends the file with a loss.
    fn fill(&mut self, wanted: usize, tally: &mut Tally) -> Result<usize, Error> {
        debug_assert!(wanted <= BUFFER_BYTES);
        if self.input.held().len() < wanted
            && !self.is_ended
            && let Err(error) = self.input.fill()
        {
            if error.kind() != ErrorKind::Corrupt || self.input.offset() == 0 {
                return Err(error);
            }
            tally.lose("the rest of the file: compressed data is cut or damaged", 1);
            self.is_ended = true;
        }
        Ok(self.input.held().len())
    }

    /// The end of a file whose last bytes are the beginning of a field; otherwise an error.
    fn bad_head(&mut self, held: usize, tally: &mut Tally) -> Result<bool, Error> {
        if held < HEAD_BYTES {
            tally.skip_bytes(held as u64);
            tally.lose("packets that the end of the file cuts", 1);
            return Ok(false);
        }
        Err(self.no_field())
    }

    fn no_field(&self) -> Error {
        self.input.corrupt("expected a packet of a Perfetto trace (field 1)")
    }

    /// Unpacks a compressed packet; false if the packet is not compressed.
    fn unpack(&mut self, packet: &[u8], tally: &mut Tally) -> bool {
        let mut is_compressed = false;
        for (number, value) in Message::new(packet) {
            let reader: Box<dyn Read + '_> = match (number, value) {
                (ZLIB_PACKETS, Value::Bytes(bytes)) => {
                    Box::new(flate2::bufread::ZlibDecoder::new(bytes))
                }
                (ZSTD_PACKETS, Value::Bytes(bytes)) => match zstd::Decoder::with_buffer(bytes) {
                    Ok(decoder) => Box::new(decoder),
                    Err(_) => {
                        tally.lose("compressed packets with damaged contents", 1);
                        continue;
                    }
                },
                _ => continue,
            };
            is_compressed = true;
            let room = UNPACKED_BYTES_MAX.saturating_sub(self.unpacked.len());
            let mut limited = reader.take(room as u64 + 1);
            if limited.read_to_end(&mut self.unpacked).is_err() {
                tally.lose("compressed packets with damaged contents", 1);
            }
            if self.unpacked.len() > UNPACKED_BYTES_MAX {
                self.unpacked.truncate(UNPACKED_BYTES_MAX);
                tally.lose("compressed packets of more than 32 MiB, cut", 1);
            }
        }
        is_compressed
    }
}

/// Bytes of `held` before `rest`, which is its end.
fn held_length(held: &[u8], rest: &[u8]) -> usize {
    held.len() - rest.len()
}
