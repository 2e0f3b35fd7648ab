//! `pgw`: page-level swap events of an early recorder, stored by column, little endian: u64 magic,
//! u64 n, i64 first time, then columns of n values: i32 time since the previous event (ns), u8
//! type, u8 flags, u32 process, u64 virtual page or value, u64 swap entry, u32 auxiliary.
//!
//! `swap_events` interprets the events.
//!
//! The columns follow one another, so each has its own stream: memory stays small for every n, at the
//! price of decompressing the file once per column.

use super::swap_events::SwapEvents;
use super::{Format, ReadOptions};
use crate::Error;
use crate::input::Input;
use crate::ledger::Ledger;
use crate::record::{Record, RecordReader, Traits};
use crate::recording;
use crate::sniff::Confidence;

/// The row of this format.
pub const FORMAT: Format = Format {
    name: "pgw",
    summary: "the layout of an early recorder: swap by owner and address",
    has_columns: false,
    has_parts: false,
    has_accesses: true,
    sniff,
    open,
};

const MAGIC: [u8; 8] = 0x3157_4750_u64.to_le_bytes();
const HEADER_BYTES: u64 = 24;

/// Bytes per value of each column, in the order of the file.
const WIDTHS: [u64; COLUMNS] = [4, 1, 1, 4, 8, 8, 4];
const COLUMNS: usize = 7;

/// Events per call of `read`.
const EVENTS_PER_READ: u64 = 4096;

fn sniff(head: &[u8]) -> Confidence {
    Confidence::Certain.when(head.starts_with(&MAGIC))
}

fn open(mut input: Input, _options: &ReadOptions) -> Result<Box<dyn RecordReader>, Error> {
    let head = input.held();
    if head.len() < HEADER_BYTES as usize || !head.starts_with(&MAGIC) {
        return Err(input.corrupt("expected 24 bytes of header with the magic number"));
    }
    let (count, start_ns) = (double(head, 8), double(head, 16) as i64);
    // A hostile count must not overflow the offset of a column.
    if count > u64::MAX / 64 {
        return Err(input.corrupt(&format!("expected fewer than {count} events")));
    }
    let mut start = HEADER_BYTES;
    let mut columns = Vec::with_capacity(COLUMNS);
    for width in &WIDTHS[..COLUMNS - 1] {
        columns.push(column_at(input.again()?, start, count * width)?);
        start += count * width;
    }
    // The input itself, which is hashed and metered, reads the last column.
    columns.push(column_at(input, start, count * WIDTHS[COLUMNS - 1])?);
    let reader = Pgw { columns, left: count, time_ns: start_ns, meaning: SwapEvents::default() };
    Ok(Box::new(reader))
}

/// `input` at the start of a column; an empty column may begin at the end of the file.
fn column_at(mut input: Input, start: u64, bytes: u64) -> Result<Input, Error> {
    input.skip(start)?;
    if bytes > 0 && input.fill()?.is_empty() {
        return Err(input.corrupt(&format!("ends {bytes} bytes before the end of a column")));
    }
    Ok(input)
}

struct Pgw {
    columns: Vec<Input>,
    left: u64,
    time_ns: i64,
    meaning: SwapEvents,
}

impl RecordReader for Pgw {
    fn read(&mut self, records: &mut Vec<Record>, ledger: &mut Ledger) -> Result<bool, Error> {
        if self.left == 0 {
            let last = &mut self.columns[COLUMNS - 1];
            return match last.fill()?.is_empty() {
                true => Ok(false),
                false => Err(last.corrupt("expected the end of the file after the last column")),
            };
        }
        let mut count = self.left.min(EVENTS_PER_READ);
        for (column, width) in self.columns.iter_mut().zip(WIDTHS) {
            let Some(held) = column.need(width as usize)? else {
                let missing = self.left * width;
                return Err(
                    column.corrupt(&format!("ends {missing} bytes before the end of a column"))
                );
            };
            count = count.min(held.len() as u64 / width);
        }
        for index in 0..count as usize {
            let (delta, raw) = decode(&self.columns, index);
            self.time_ns = self.time_ns.saturating_add(i64::from(delta));
            self.meaning.take(self.time_ns, &raw, records, ledger);
        }
        for (column, width) in self.columns.iter_mut().zip(WIDTHS) {
            column.consume((count * width) as usize);
        }
        self.left -= count;
        Ok(true)
    }

    fn traits(&self) -> Traits {
        SwapEvents::TRAITS
    }
}

/// The event at `index` of the columns' buffers, and the time since the event before.
fn decode(columns: &[Input], index: usize) -> (i32, recording::Record) {
    let [delta, kind, flags, pid, value, entry, auxiliary] = columns else {
        unreachable!("open makes one input per column")
    };
    let kind = kind.held()[index];
    let value = double(value.held(), 8 * index);
    let auxiliary = word(auxiliary.held(), 4 * index);
    let raw = recording::Record {
        kind,
        flags: flags.held()[index],
        process: word(pid.held(), 4 * index),
        address: value,
        object: double(entry.held(), 8 * index),
        // In this format the parent of a fork is in the column of the page.
        auxiliary: if kind == recording::kind::FORK { value as u32 } else { auxiliary },
        ..recording::Record::default()
    };
    (word(delta.held(), 4 * index) as i32, raw)
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn double(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::tests::read_bytes;
    use crate::record::Operation;

    type Row = (i32, u8, u8, u32, u64, u64, u32);

    fn encode(rows: &[Row]) -> Vec<u8> {
        let mut file = MAGIC.to_vec();
        file.extend((rows.len() as u64).to_le_bytes());
        file.extend(1000i64.to_le_bytes());
        rows.iter().for_each(|row| file.extend(row.0.to_le_bytes()));
        rows.iter().for_each(|row| file.push(row.1));
        rows.iter().for_each(|row| file.push(row.2));
        rows.iter().for_each(|row| file.extend(row.3.to_le_bytes()));
        rows.iter().for_each(|row| file.extend(row.4.to_le_bytes()));
        rows.iter().for_each(|row| file.extend(row.5.to_le_bytes()));
        rows.iter().for_each(|row| file.extend(row.6.to_le_bytes()));
        file
    }

    const ROWS: [Row; 9] = [
        (0, 6, 0, 9, u64::from_le_bytes(*b"\") Z (\"\0"), 0, 0),
        (5, 1, 0, 9, 100, 77, 1),
        (5, 1, 2, 9, 101, 78, 1),
        (1, 2, 1, 1, 0, 77, 0),
        (1, 3, 5, 9, 100, 77, 0),
        (1, 3, 5, 9, 100, 78, 0),
        (1, 3, 5, 9, 100, 79, 0),
        (9, 4, 2, 9, 100, 0, 250),
        (1, 7, 0, 9, 0, 0, 0),
    ];

    #[test]
    fn the_owner_of_a_slot_distinguishes_readahead_from_the_fault() {
        let (records, ledger) = read_bytes(&FORMAT, &encode(&ROWS)).unwrap();
        let brief: Vec<_> = records
            .iter()
            .map(|record| (record.time_ns, record.operation, record.address, record.flags.0))
            .collect();
        assert_eq!(
            brief,
            [
                (1005, Operation::SwapOut, 100, 1),
                (1010, Operation::SwapOut, 101, 9),
                (1011, Operation::DeviceWrite, 100, 0),
                (1013, Operation::DeviceRead, 101, 0),
                (1023, Operation::SwapIn, 100, 4),
                (1024, Operation::Exit, 0, 0),
            ]
        );
        assert_eq!(records[4].duration_ns, 250);
        assert_eq!(ledger.processes().get(0).unwrap().name, "\") Z (\"");
        assert_eq!(ledger.losses()[0].count, 1);
    }

    #[test]
    fn every_truncation_is_refused_with_its_offset() {
        let file = encode(&ROWS);
        for length in 1..file.len() {
            let error = read_bytes(&FORMAT, &file[..length]).unwrap_err();
            assert!(error.to_string().contains("at byte"), "{length}: {error}");
        }
        let longer = [file, vec![0]].concat();
        assert!(read_bytes(&FORMAT, &longer).is_err());
        let mut hostile = encode(&[]);
        assert!(read_bytes(&FORMAT, &hostile).unwrap().0.is_empty());
        hostile[8..16].fill(0xff);
        assert!(read_bytes(&FORMAT, &hostile).is_err());
        hostile[15] = 0;
        assert!(read_bytes(&FORMAT, &hostile).is_err());
    }
}
