//! Packs records into the bytes of a block. Fields that are predictable from earlier records are left
//! out, which costs the recorded machine less than compressing them.
//!
//! u32 count, then for each record: u8 kind, u16 of `present` bits, and the fields that they announce,
//! in this order: the time as the distance from the record before; flags u8, pages u16 and device u32,
//! process u32, auxiliary u32; address and object as the distance from the last record of the same
//! kind. A distance is little endian, has its sign in the lowest bit, and only as many bytes as
//! necessary.

use super::Record;
use crate::varint::{unzigzag, zigzag};

/// Records of a block: at a million a minute, a block every four seconds.
pub const RECORDS_MAX: usize = 1 << 16;

const HEAD_BYTES: usize = 4;

/// Larger than any record plus the word that may be written past its end.
const ROW_BYTES_MAX: usize = 48;

/// The two bytes after the kind: which fields a record has. An absent field equals that of the last
/// record of the same kind.
mod present {
    pub const FLAGS: u16 = 1;
    /// Pages and device.
    pub const PAGES: u16 = 2;
    pub const PROCESS: u16 = 4;
    pub const AUXILIARY: u16 = 8;
    /// Four bits each: the number of bytes of the distance. 0 means an address or object of zero.
    pub const TIME_SHIFT: u16 = 4;
    pub const ADDRESS_SHIFT: u16 = 8;
    pub const OBJECT_SHIFT: u16 = 12;
    /// An address or object as in the last record of the same kind.
    pub const OF_KIND: u16 = 14;
    /// An address or object as in the last record of any kind where it was not zero.
    pub const AS_LAST: u16 = 15;
}

/// The state of packer and unpacker from the records before.
#[derive(Default)]
struct Before {
    time_ns: u64,
    /// The last address and object other than zero.
    address: u64,
    object: u64,
    /// The last record of each kind, by the low bits of the kind.
    of_kind: [Record; 16],
}

impl Before {
    fn of_kind(&mut self, kind: u8) -> &mut Record {
        &mut self.of_kind[usize::from(kind % 16)]
    }

    fn remember(&mut self, record: Record) {
        self.time_ns = record.time_ns;
        if record.address != 0 {
            self.address = record.address;
        }
        if record.object != 0 {
            self.object = record.object;
        }
        *self.of_kind(record.kind) = record;
    }
}

/// A block in the making.
#[derive(Default)]
pub(super) struct Packer {
    before: Before,
    count: u32,
    /// Reused for every block: fresh memory costs a fault per page.
    bytes: Vec<u8>,
}

impl Packer {
    pub(super) fn count(&self) -> usize {
        self.count as usize
    }

    pub(super) fn push(&mut self, record: Record) {
        if self.bytes.is_empty() {
            self.bytes.extend([0; HEAD_BYTES]);
        }
        let last = *self.before.of_kind(record.kind);
        let mut row = Row { bytes: [0; ROW_BYTES_MAX], length: 3 };
        let time = row.put_distance(distance_of(record.time_ns, self.before.time_ns));
        let mut fields = time << present::TIME_SHIFT;
        if record.flags != last.flags {
            fields |= present::FLAGS;
            row.put(record.flags.to_le_bytes());
        }
        if (record.pages, record.device) != (last.pages, last.device) {
            fields |= present::PAGES;
            row.put(record.pages.to_le_bytes());
            row.put(record.device.to_le_bytes());
        }
        if record.process != last.process {
            fields |= present::PROCESS;
            row.put(record.process.to_le_bytes());
        }
        if record.auxiliary != last.auxiliary {
            fields |= present::AUXILIARY;
            row.put(record.auxiliary.to_le_bytes());
        }
        fields |= row.put_word(record.address, self.before.address, last.address)
            << present::ADDRESS_SHIFT;
        fields |=
            row.put_word(record.object, self.before.object, last.object) << present::OBJECT_SHIFT;
        row.bytes[0] = record.kind;
        row.bytes[1..3].copy_from_slice(&fields.to_le_bytes());
        // Copy all of it, because a copy of known length takes only a few instructions.
        let end = self.bytes.len() + row.length;
        self.bytes.extend_from_slice(&row.bytes);
        self.bytes.truncate(end);
        self.before.remember(record);
        self.count += 1;
    }

    /// The bytes of the block.
    pub(super) fn bytes(&mut self) -> &[u8] {
        self.bytes[..HEAD_BYTES].copy_from_slice(&self.count.to_le_bytes());
        &self.bytes
    }

    /// Begins the next block, which is independent of the block before.
    pub(super) fn clear(&mut self) {
        self.before = Before::default();
        self.count = 0;
        self.bytes.clear();
    }
}

/// The bytes of a record.
struct Row {
    bytes: [u8; ROW_BYTES_MAX],
    length: usize,
}

impl Row {
    fn put<const COUNT: usize>(&mut self, bytes: [u8; COUNT]) {
        self.bytes[self.length..self.length + COUNT].copy_from_slice(&bytes);
        self.length += COUNT;
    }

    /// Puts a distance and returns its length.
    fn put_distance(&mut self, distance: u64) -> u16 {
        let length = (u64::BITS - distance.leading_zeros()).div_ceil(8);
        self.put(distance.to_le_bytes());
        self.length -= size_of::<u64>() - length as usize;
        length as u16
    }

    /// Puts an address or object, and returns its bits of `present`.
    fn put_word(&mut self, word: u64, last: u64, of_kind: u64) -> u16 {
        if word == 0 {
            return 0;
        }
        if word == last {
            return present::AS_LAST;
        }
        match self.put_distance(distance_of(word, of_kind)) {
            0 => present::OF_KIND,
            length => length,
        }
    }
}

/// The distance of two numbers, which is small if they are near.
fn distance_of(number: u64, from: u64) -> u64 {
    zigzag(number.wrapping_sub(from))
}

/// Unpacks the records of a block; `None` if the bytes are invalid.
pub(super) fn unpack(bytes: &[u8]) -> Option<Vec<Record>> {
    let (head, rows) = bytes.split_first_chunk::<HEAD_BYTES>()?;
    let count = u32::from_le_bytes(*head) as usize;
    if count > RECORDS_MAX {
        return None;
    }
    let (mut rest, mut before) = (rows, Before::default());
    let mut records = Vec::with_capacity(count);
    for _ in 0..count {
        let record = unpack_record(&mut rest, &mut before)?;
        before.remember(record);
        records.push(record);
    }
    rest.is_empty().then_some(records)
}

fn unpack_record(rest: &mut &[u8], before: &mut Before) -> Option<Record> {
    let [kind, low, high] = take(rest)?;
    let fields = u16::from_le_bytes([low, high]);
    let time_ns = before.time_ns.wrapping_add(distance(rest, fields >> present::TIME_SHIFT)?);
    let last = *before.of_kind(kind);
    let mut record = Record { kind, time_ns, ..last };
    if fields & present::FLAGS != 0 {
        [record.flags] = take(rest)?;
    }
    if fields & present::PAGES != 0 {
        record.pages = u16::from_le_bytes(take(rest)?);
        record.device = u32::from_le_bytes(take(rest)?);
    }
    if fields & present::PROCESS != 0 {
        record.process = u32::from_le_bytes(take(rest)?);
    }
    if fields & present::AUXILIARY != 0 {
        record.auxiliary = u32::from_le_bytes(take(rest)?);
    }
    record.address = word(rest, fields >> present::ADDRESS_SHIFT, before.address, last.address)?;
    record.object = word(rest, fields >> present::OBJECT_SHIFT, before.object, last.object)?;
    Some(record)
}

fn word(rest: &mut &[u8], how: u16, last: u64, of_kind: u64) -> Option<u64> {
    match how & 15 {
        0 => Some(0),
        present::OF_KIND => Some(of_kind),
        present::AS_LAST => Some(last),
        length => Some(of_kind.wrapping_add(distance(rest, length)?)),
    }
}

/// A distance; the low four bits of `length` are its number of bytes.
fn distance(rest: &mut &[u8], length: u16) -> Option<u64> {
    let (bytes, others) = rest.split_at_checked(usize::from(length & 15))?;
    let mut word = [0; size_of::<u64>()];
    word.get_mut(..bytes.len())?.copy_from_slice(bytes);
    *rest = others;
    Some(unzigzag(u64::from_le_bytes(word)))
}

fn take<const COUNT: usize>(rest: &mut &[u8]) -> Option<[u8; COUNT]> {
    let (taken, others) = rest.split_first_chunk()?;
    *rest = others;
    Some(*taken)
}
