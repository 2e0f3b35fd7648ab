//! `pgw`: page-level swap events of the BPF recorder, stored by column, little endian: u64 magic,
//! u64 n, i64 first time, then columns of n values: i32 time since the previous event (ns), u8
//! type, u8 flags, u32 process, u64 virtual page or value, u64 swap entry, u32 auxiliary.
//!
//! Device traffic names swap slots, not pages: the owner of a slot is the page that was last
//! written out to it. A device read inside a page fault of that owner is the fault's own read,
//! which the fault event stands for; every other read is readahead.
//!
//! The columns lie one behind the other, so each is read by a stream of its own: memory stays
//! small whatever n is, at the price of decompressing the file once per column.

use std::collections::HashMap;

use types::{EventFlags, ProcessId};

use super::{Confidence, Format, ReadOptions};
use crate::Error;
use crate::input::Input;
use crate::ledger::Ledger;
use crate::record::{AddressUnit, Mapping, Operation, Record, RecordReader, Traits};

/// The row of this format.
pub const FORMAT: Format = Format {
    name: "pgw",
    summary: "page-level swap events of the BPF recorder, by owner and address",
    has_columns: false,
    has_parts: false,
    sniff,
    open,
};

const MAGIC: [u8; 8] = 0x3157_4750_u64.to_le_bytes();
const HEADER_BYTES: u64 = 24;

/// Bytes per value of each column, in the order of the file.
const WIDTHS: [u64; COLUMNS] = [4, 1, 1, 4, 8, 8, 4];
const COLUMNS: usize = 7;

/// Events per call.
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
    // A hostile count must not make the place of a column overflow.
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
    let reader = Pgw { columns, left: count, time_ns: start_ns, owners: HashMap::new() };
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
    /// The page that each swap slot holds.
    owners: HashMap<u64, Owner>,
}

#[derive(Clone, Copy)]
struct Owner {
    process: ProcessId,
    page: u64,
}

/// One event as it is stored.
struct Raw {
    kind: u8,
    flags: u8,
    pid: u32,
    value: u64,
    entry: u64,
    auxiliary: u32,
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
            if let Some(record) = self.event(&raw, ledger) {
                records.push(record);
            }
        }
        for (column, width) in self.columns.iter_mut().zip(WIDTHS) {
            column.consume((count * width) as usize);
        }
        self.left -= count;
        Ok(true)
    }

    fn traits(&self) -> Traits {
        Traits {
            address: AddressUnit::Page,
            mapping: Mapping::Swap,
            has_clock: true,
            has_operations: true,
            has_sizes: false,
            has_durations: true,
            has_stages: false,
        }
    }
}

/// The event at `index` of what all columns hold, and the time since the one before.
fn decode(columns: &[Input], index: usize) -> (i32, Raw) {
    let [delta, kind, flags, pid, value, entry, auxiliary] = columns else {
        unreachable!("open makes one input per column")
    };
    let raw = Raw {
        kind: kind.held()[index],
        flags: flags.held()[index],
        pid: word(pid.held(), 4 * index),
        value: double(value.held(), 8 * index),
        entry: double(entry.held(), 8 * index),
        auxiliary: word(auxiliary.held(), 4 * index),
    };
    (word(delta.held(), 4 * index) as i32, raw)
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn double(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32
}

impl Pgw {
    /// What an event records, if it is one that a trace keeps.
    fn event(&mut self, raw: &Raw, ledger: &mut Ledger) -> Option<Record> {
        let record = |operation, process, page, flags| {
            Some(Record { time_ns: self.time_ns, process, flags, ..Record::new(operation, page) })
        };
        let none = EventFlags::default();
        match raw.kind {
            1 => {
                ledger.see(b"page-out", 1);
                if raw.flags & 1 != 0 {
                    ledger.lose("page-outs whose owner the recorder did not find", 1);
                }
                let process = ledger.process(raw.pid);
                self.owners.insert(raw.entry, Owner { process, page: raw.value });
                let is_shared = raw.flags & 2 != 0;
                let shared = if is_shared { EventFlags::SHARED } else { none };
                record(Operation::SwapOut, process, raw.value, EventFlags::DIRTY.with(shared))
            }
            2 => {
                ledger.see(b"device write", 1);
                let owner = self.owner(raw, ledger)?;
                record(Operation::DeviceWrite, owner.process, owner.page, none)
            }
            3 => {
                ledger.see(b"device read", 1);
                let owner = self.owner(raw, ledger)?;
                let is_in_fault = raw.flags & 4 != 0;
                // After a fork the child faults on the page that its parent wrote out, at the
                // parent's address: the address decides, not the process.
                if is_in_fault && raw.value == owner.page {
                    return None;
                }
                record(Operation::DeviceRead, owner.process, owner.page, none)
            }
            4 => {
                ledger.see(b"swap-in fault", 1);
                let is_major = raw.flags & 2 != 0;
                let flags = if is_major { EventFlags::MAJOR } else { none };
                let process = ledger.process(raw.pid);
                let record = record(Operation::SwapIn, process, raw.value, flags)?;
                Some(Record { duration_ns: u64::from(raw.auxiliary), ..record })
            }
            6 => {
                ledger.see(b"exec", 1);
                let name = [raw.value.to_le_bytes(), raw.entry.to_le_bytes()].concat();
                let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
                let process = ledger.process(raw.pid);
                ledger.name_process(process, name);
                None
            }
            7 => {
                ledger.see(b"exit", 1);
                let process = ledger.process(raw.pid);
                record(Operation::Exit, process, 0, none)
            }
            8 => {
                ledger.see(b"fork", 1);
                // Pages of a process still leave memory after its first thread has exited; only
                // a fork makes its pid another process.
                ledger.end_process(raw.pid);
                None
            }
            other => {
                ledger.see(format!("type {other}").as_bytes(), 1);
                None
            }
        }
    }

    fn owner(&self, raw: &Raw, ledger: &mut Ledger) -> Option<Owner> {
        let owner = self.owners.get(&raw.entry).copied();
        if owner.is_none() {
            ledger.lose("device transfers of slots written before the recording began", 1);
        }
        owner
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::tests::read_bytes;

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
    fn readahead_is_told_from_the_fault_by_the_slots_owner() {
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
        assert_eq!(ledger.processes()[0].name, "\") Z (\"");
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
