//! `blktrace`: the binary files NAME.blktrace.CPU of blktrace(8), version 7, of either byte order
//! (struct blk_io_trace in include/uapi/linux/blktrace_api.h). One trace is one file per CPU.

use super::requests::{believed, device_name};
use super::{Format, ReadOptions};
use crate::Error;
use crate::binary::{BinaryReader, RecordParser};
use crate::input::Input;
use crate::ledger::Ledger;
use crate::record::{Operation, Record, RecordReader, Stage, Traits};
use crate::sniff::Confidence;

/// The row of this format.
pub const FORMAT: Format = Format {
    name: "blktrace",
    summary: "binary per-CPU files of blktrace(8): block requests",
    has_columns: false,
    has_parts: true,
    has_accesses: true,
    sniff,
    open,
};

/// Upper 24 bits of every record's first word; the lower 8 are the version.
const MAGIC: u32 = 0x6561_7400;
const VERSION: u32 = 7;
const RECORD_BYTES: usize = 48;

/// Categories, in the upper half of the action.
const WRITE: u32 = 1 << 1;
const FLUSH: u32 = 1 << 2;
const PACKET_COMMAND: u32 = 1 << 9;
const NOTIFY: u32 = 1 << 10;
const DISCARD: u32 = 1 << 13;

/// Set in the lower half if the payload begins with a cgroup id.
const CGROUP: u32 = 1 << 8;

/// Names of the actions in the lower half, as blkparse prints them.
const ACTIONS: [&[u8]; 18] = [
    b"?", b"Q", b"M", b"F", b"G", b"S", b"R", b"D", b"C", b"P", b"U", b"UT", b"I", b"X", b"B",
    b"A", b"abort", b"driver",
];

fn sniff(head: &[u8]) -> Confidence {
    let is_ours = byte_order(head).is_some();
    Confidence::Certain.when(is_ours)
}

fn open(input: Input, _options: &ReadOptions) -> Result<Box<dyn RecordReader>, Error> {
    let Some(is_big_endian) = byte_order(input.held()) else {
        return Err(input.corrupt("expected the magic number of blktrace"));
    };
    Ok(Box::new(BinaryReader::new(input, Blktrace { is_big_endian, sequence: None })))
}

/// Whether the first record is big-endian; `None` if `head` is no record.
fn byte_order(head: &[u8]) -> Option<bool> {
    let word = <[u8; 4]>::try_from(head.get(..4)?).ok()?;
    let is_magic = |word: u32| word & !0xff == MAGIC;
    if is_magic(u32::from_le_bytes(word)) {
        Some(false)
    } else if is_magic(u32::from_be_bytes(word)) {
        Some(true)
    } else {
        None
    }
}

struct Blktrace {
    is_big_endian: bool,
    /// Device, CPU and sequence number of the last request. The kernel numbers requests without gaps.
    sequence: Option<(u32, u32, u32)>,
}

/// The fields of a record that the import uses.
struct Raw {
    magic: u32,
    sequence: u32,
    time_ns: u64,
    sector: u64,
    bytes: u32,
    action: u32,
    pid: u32,
    device: u32,
    cpu: u32,
    payload_bytes: usize,
}

impl RecordParser for Blktrace {
    fn record(
        &mut self,
        input: &mut Input,
        records: &mut Vec<Record>,
        ledger: &mut Ledger,
    ) -> Result<bool, Error> {
        let Some(held) = input.need(RECORD_BYTES)? else {
            return Ok(false);
        };
        let raw = Raw::decode(held, self.is_big_endian);
        if raw.magic & !0xff != MAGIC {
            return Err(input.corrupt("expected the magic number of a record"));
        }
        if raw.magic & 0xff != VERSION {
            let found = raw.magic & 0xff;
            return Err(input.corrupt(&format!("expected version {VERSION}, not {found}")));
        }
        let length = RECORD_BYTES + raw.payload_bytes;
        if let Some(held) = input.need(length)? {
            let payload = &held[RECORD_BYTES..length];
            if raw.action >> 16 & NOTIFY != 0 {
                note(&raw, payload, ledger);
            } else {
                self.check_sequence(&raw, ledger);
                records.extend(request(&raw, ledger));
            }
        }
        input.consume(length);
        Ok(true)
    }

    fn traits(&self) -> Traits {
        Traits::BLOCK_EVENTS
    }
}

impl Blktrace {
    fn check_sequence(&mut self, raw: &Raw, ledger: &mut Ledger) {
        if let Some((device, cpu, last)) = self.sequence
            && (device, cpu) == (raw.device, raw.cpu)
            && raw.sequence > last
        {
            ledger.lose(
                "records missing by their sequence number",
                u64::from(raw.sequence - last - 1),
            );
        }
        self.sequence = Some((raw.device, raw.cpu, raw.sequence));
    }
}

impl Raw {
    /// `held` has at least `RECORD_BYTES`.
    fn decode(held: &[u8], is_big_endian: bool) -> Raw {
        let word = |at: usize| {
            let bytes = [held[at], held[at + 1], held[at + 2], held[at + 3]];
            if is_big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
        };
        let double = |at: usize| {
            let (first, second) = (u64::from(word(at)), u64::from(word(at + 4)));
            if is_big_endian { first << 32 | second } else { second << 32 | first }
        };
        let payload = [held[46], held[47]];
        let payload =
            if is_big_endian { u16::from_be_bytes(payload) } else { u16::from_le_bytes(payload) };
        Raw {
            magic: word(0),
            sequence: word(4),
            time_ns: double(8),
            sector: double(16),
            bytes: word(24),
            action: word(28),
            pid: word(32),
            device: word(36),
            cpu: word(40),
            payload_bytes: usize::from(payload),
        }
    }
}

/// Handles a notification: the name of a process, the time of day, or a message.
fn note(raw: &Raw, payload: &[u8], ledger: &mut Ledger) {
    let is_process = raw.action & 0xffff & !CGROUP == 0;
    let name = payload.split(|&byte| byte == 0).next().unwrap_or_default();
    if is_process && !name.is_empty() {
        ledger.named_process(raw.pid, name);
    }
    ledger.see(b"notify", 1);
}

fn request(raw: &Raw, ledger: &mut Ledger) -> Option<Record> {
    let action = (raw.action & 0xffff & !CGROUP) as usize;
    ledger.see(ACTIONS.get(action).copied().unwrap_or(ACTIONS[0]), 1);
    let stage = match action {
        1 => Stage::Queue,
        7 => Stage::Issue,
        8 => Stage::Complete,
        _ => return None,
    };
    let category = raw.action >> 16;
    let operation = if category & PACKET_COMMAND != 0 {
        Operation::Passthrough
    } else if category & DISCARD != 0 {
        Operation::Discard
    } else if category & FLUSH != 0 && raw.bytes == 0 {
        Operation::Flush
    } else if category & WRITE != 0 {
        Operation::Write
    } else {
        Operation::Read
    };
    Some(Record {
        time_ns: i64::try_from(raw.time_ns).unwrap_or(i64::MAX),
        bytes: u64::from(raw.bytes),
        process: ledger.named_process(raw.pid, b""),
        device: ledger.device(device_name(raw.device).as_bytes()),
        stage,
        ..Record::new(believed(operation, raw.bytes.into(), ledger), raw.sector)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;
    use crate::formats::tests::read_bytes;

    /// A record as the kernel writes it, in either byte order.
    fn encode(
        is_big_endian: bool,
        sequence: u32,
        action: u32,
        bytes: u32,
        payload: &[u8],
    ) -> Vec<u8> {
        let word = |value: u32| {
            if is_big_endian { value.to_be_bytes() } else { value.to_le_bytes() }
        };
        let double = |value: u64| {
            if is_big_endian { value.to_be_bytes() } else { value.to_le_bytes() }
        };
        let half = |value: u16| {
            if is_big_endian { value.to_be_bytes() } else { value.to_le_bytes() }
        };
        let mut record = Vec::new();
        record.extend(word(MAGIC | VERSION));
        record.extend(word(sequence));
        record.extend(double(1000 + u64::from(sequence)));
        record.extend(double(80));
        record.extend(word(bytes));
        record.extend(word(action));
        record.extend(word(7));
        record.extend(word(8 << 20 | 1));
        record.extend(word(3));
        record.extend(half(0));
        record.extend(half(payload.len() as u16));
        record.extend(payload);
        record
    }

    #[test]
    fn both_byte_orders_give_the_same_records() {
        for is_big_endian in [false, true] {
            let bytes = [
                encode(is_big_endian, 0, NOTIFY << 16, 0, b"\") Z (\"\0\0"),
                encode(is_big_endian, 1, (WRITE | 64) << 16 | 7, 4096, b""),
                encode(is_big_endian, 4, (WRITE | 128) << 16 | 8, 4096, b"pdu"),
                encode(is_big_endian, 5, (1 | 16) << 16 | 1 | CGROUP, 512, &[0; 8]),
                encode(is_big_endian, 6, DISCARD << 16 | 7, u32::MAX, b""),
                encode(is_big_endian, 7, 15, 0, &[0; 12]),
            ]
            .concat();
            let (records, ledger) = read_bytes(&FORMAT, &bytes).unwrap();
            let brief: Vec<_> = records
                .iter()
                .map(|record| (record.operation, record.stage, record.address, record.bytes))
                .collect();
            assert_eq!(
                brief,
                [
                    (Operation::Write, Stage::Issue, 80, 4096),
                    (Operation::Write, Stage::Complete, 80, 4096),
                    (Operation::Read, Stage::Queue, 80, 512),
                    (Operation::Discard, Stage::Issue, 80, u64::from(u32::MAX)),
                ]
            );
            assert_eq!(ledger.processes().get(0).unwrap().name, "\") Z (\"");
            assert_eq!(ledger.devices(), ["8,1"]);
            assert_eq!(ledger.losses()[0].count, 2);
        }
    }

    #[test]
    fn errors_have_the_offset_of_the_damage() {
        let good = encode(false, 1, WRITE << 16 | 7, 4096, b"12345");
        let cut = [good.clone(), good[..50].to_vec()].concat();
        let error = read_bytes(&FORMAT, &cut).unwrap_err();
        assert_eq!(
            error.to_string(),
            "sample at byte 53: ends within a record: 50 bytes of at least 53"
        );
        let mut old = good.clone();
        old[0] = 5;
        let error = read_bytes(&FORMAT, &old).unwrap_err();
        assert_eq!(error.to_string(), "sample at byte 0: expected version 7, not 5");
        let spoilt = [good, vec![9; 48]].concat();
        let error = read_bytes(&FORMAT, &spoilt).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains("byte 53"), "{error}");
    }
}
