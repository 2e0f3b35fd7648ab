//! Records as columns, which compress several times better than rows: the bytes of a block.
//!
//! u32 count, u64 time of the first record, then per column `count` values: i32 time since the record
//! before, u8 kind, u8 flags, u16 pages, u32 process, u32 auxiliary, u32 device, u64 address, u64
//! object.

use super::Record;

/// Records of one block: at a million a minute, one block in four seconds.
pub const RECORDS_MAX: usize = 1 << 16;

const HEAD_BYTES: usize = 12;
const RECORD_BYTES: usize = 36;

/// Whether `next` may follow `last` in a block: their distance fits the column of times.
pub(super) fn can_follow(last: &Record, next: &Record) -> bool {
    i32::try_from(next.time_ns.wrapping_sub(last.time_ns) as i64).is_ok()
}

/// Replaces `bytes` by those of a block of `records`, of which there is at least one.
pub(super) fn pack(records: &[Record], bytes: &mut Vec<u8>) {
    bytes.clear();
    bytes.reserve(HEAD_BYTES + records.len() * RECORD_BYTES);
    bytes.extend((records.len() as u32).to_le_bytes());
    bytes.extend(records[0].time_ns.to_le_bytes());
    let mut time_ns = records[0].time_ns;
    column(bytes, records, |record| {
        let distance = record.time_ns.wrapping_sub(time_ns) as i32;
        time_ns = record.time_ns;
        distance.to_le_bytes()
    });
    column(bytes, records, |record| [record.kind]);
    column(bytes, records, |record| [record.flags]);
    column(bytes, records, |record| record.pages.to_le_bytes());
    column(bytes, records, |record| record.process.to_le_bytes());
    column(bytes, records, |record| record.auxiliary.to_le_bytes());
    column(bytes, records, |record| record.device.to_le_bytes());
    column(bytes, records, |record| record.address.to_le_bytes());
    column(bytes, records, |record| record.object.to_le_bytes());
}

/// Appends one value per record. The room is made first: growing for each value costs more than the
/// value.
fn column<const WIDTH: usize>(
    bytes: &mut Vec<u8>,
    records: &[Record],
    mut value: impl FnMut(&Record) -> [u8; WIDTH],
) {
    let start = bytes.len();
    bytes.resize(start + records.len() * WIDTH, 0);
    let (places, _) = bytes[start..].as_chunks_mut::<WIDTH>();
    for (place, record) in places.iter_mut().zip(records) {
        *place = value(record);
    }
}

/// The records in the bytes of a block; none if they are not what `pack` makes.
pub(super) fn unpack(bytes: &[u8]) -> Option<Vec<Record>> {
    let (head, mut rest) = bytes.split_at_checked(HEAD_BYTES)?;
    let count = u32::from_le_bytes(head[..4].try_into().ok()?) as usize;
    let mut time_ns = u64::from_le_bytes(head[4..].try_into().ok()?);
    if count > RECORDS_MAX || rest.len() != count * RECORD_BYTES {
        return None;
    }
    let mut column = |width: usize| {
        let (values, others) = rest.split_at(count * width);
        rest = others;
        values
    };
    let distances = column(4);
    let (kinds, flags, pages) = (column(1), column(1), column(2));
    let (processes, auxiliaries, devices) = (column(4), column(4), column(4));
    let (addresses, objects) = (column(8), column(8));
    let mut records = Vec::with_capacity(count);
    for index in 0..count {
        time_ns = time_ns.wrapping_add(i64::from(word(distances, index) as i32) as u64);
        records.push(Record {
            time_ns,
            address: double(addresses, index),
            object: double(objects, index),
            process: word(processes, index),
            auxiliary: word(auxiliaries, index),
            device: word(devices, index),
            pages: u16::from_le_bytes([pages[2 * index], pages[2 * index + 1]]),
            kind: kinds[index],
            flags: flags[index],
        });
    }
    Some(records)
}

fn word(column: &[u8], index: usize) -> u32 {
    let at = 4 * index;
    u32::from_le_bytes([column[at], column[at + 1], column[at + 2], column[at + 3]])
}

fn double(column: &[u8], index: usize) -> u64 {
    u64::from(word(column, 2 * index)) | u64::from(word(column, 2 * index + 1)) << 32
}
