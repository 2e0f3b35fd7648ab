//! `vscsi`: VMware vscsiStats records as in CloudPhysics' traces, little endian. Version 1,
//! 32 bytes: u32 number, u32 bytes, u32 segments, u16 SCSI command, u16 version, u64 block, u64
//! microseconds. Version 2, 40 bytes: u16 command, u16 version, u32 number, u32 bytes, u32
//! segments, u64 block, u64 microseconds, u64 response time in microseconds. The upper byte of the
//! version word is the version.

use super::requests::{believed, operation_of_word};
use super::{Format, ReadOptions};
use crate::Error;
use crate::binary::{BinaryReader, RecordParser};
use crate::input::Input;
use crate::ledger::Ledger;
use crate::record::{Operation, Record, RecordReader, Traits};
use crate::sniff::Confidence;

/// The row of this format.
pub const FORMAT: Format = Format {
    name: "vscsi",
    summary: "VMware vscsiStats binary (CloudPhysics): block requests",
    has_columns: false,
    has_parts: false,
    has_accesses: true,
    sniff,
    open,
};

/// Records that recognition checks.
const RECORDS_SNIFFED: usize = 100;

const MICROSECOND_NS: u64 = 1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Version {
    const ALL: [Version; 2] = [Version::One, Version::Two];

    const fn record_bytes(self) -> usize {
        match self {
            Version::One => 32,
            Version::Two => 40,
        }
    }

    /// Whether a complete record has this version.
    fn is_version_of(self, record: &[u8]) -> bool {
        match self {
            Version::One => record[15] == 1,
            Version::Two => record[3] == 2,
        }
    }

    /// Whether all complete records in `head` have this version and a known command.
    fn fits(self, head: &[u8]) -> bool {
        let mut records = head.chunks_exact(self.record_bytes()).take(RECORDS_SNIFFED).peekable();
        records.peek().is_some()
            && records.all(|record| self.is_version_of(record) && command(self, record).is_some())
    }
}

fn command(version: Version, record: &[u8]) -> Option<Operation> {
    let at = if version == Version::One { 12 } else { 0 };
    if record[at + 1] != 0 {
        return None;
    }
    operation_of_word(format!("0x{:02x}", record[at]).as_bytes())
}

fn sniff(head: &[u8]) -> Confidence {
    Confidence::Likely.when(Version::ALL.iter().any(|version| version.fits(head)))
}

fn open(input: Input, _options: &ReadOptions) -> Result<Box<dyn RecordReader>, Error> {
    let held = input.held();
    let version = Version::ALL
        .into_iter()
        .find(|version| held.len() >= version.record_bytes() && version.is_version_of(held));
    match version {
        Some(version) => Ok(Box::new(BinaryReader::new(input, Vscsi { version }))),
        None => Err(input.corrupt("expected a vscsi record of version 1 or 2")),
    }
}

struct Vscsi {
    version: Version,
}

impl RecordParser for Vscsi {
    fn record(
        &mut self,
        input: &mut Input,
        records: &mut Vec<Record>,
        ledger: &mut Ledger,
    ) -> Result<bool, Error> {
        let length = self.version.record_bytes();
        let Some(held) = input.need(length)? else {
            return Ok(false);
        };
        let held = &held[..length];
        if !self.version.is_version_of(held) {
            return Err(input.corrupt("expected a record of the same version as the first"));
        }
        let Some(record) = decode(self.version, held, ledger) else {
            return Err(input.corrupt("expected a time of less than 292 years"));
        };
        records.push(record);
        input.consume(length);
        Ok(true)
    }

    fn traits(&self) -> Traits {
        Traits {
            has_durations: self.version == Version::Two,
            has_stages: false,
            ..Traits::BLOCK_EVENTS
        }
    }
}

/// Decodes a record; `None` if its time or duration does not fit.
fn decode(version: Version, held: &[u8], ledger: &mut Ledger) -> Option<Record> {
    let word = |at: usize| {
        u64::from(u32::from_le_bytes([held[at], held[at + 1], held[at + 2], held[at + 3]]))
    };
    let double = |at: usize| word(at) | word(at + 4) << 32;
    let bytes = word(if version == Version::One { 4 } else { 8 });
    let operation = command(version, held).unwrap_or(Operation::Passthrough);
    let operation = believed(operation, bytes, ledger);
    ledger.see(
        match operation {
            Operation::Read => b"read",
            Operation::Write => b"write",
            _ => b"other command",
        },
        1,
    );
    let duration = if version == Version::Two { double(32) } else { 0 };
    Some(Record {
        time_ns: i64::try_from(double(24).checked_mul(MICROSECOND_NS)?).ok()?,
        bytes,
        duration_ns: duration.checked_mul(MICROSECOND_NS)?,
        ..Record::new(operation, double(16))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::tests::read_bytes;

    fn version_one(command: u8, bytes: u32, block: u64, micros: u64) -> Vec<u8> {
        let mut record = 9u32.to_le_bytes().to_vec();
        record.extend(bytes.to_le_bytes());
        record.extend(1u32.to_le_bytes());
        record.extend([command, 0, 0, 1]);
        record.extend(block.to_le_bytes());
        record.extend(micros.to_le_bytes());
        record
    }

    fn version_two(command: u8, bytes: u32, block: u64, micros: u64) -> Vec<u8> {
        let mut record = vec![command, 0, 0, 2];
        record.extend(9u32.to_le_bytes());
        record.extend(bytes.to_le_bytes());
        record.extend(1u32.to_le_bytes());
        record.extend(block.to_le_bytes());
        record.extend(micros.to_le_bytes());
        record.extend(70u64.to_le_bytes());
        record
    }

    #[test]
    fn both_versions_are_read() {
        for (encode, duration) in
            [(version_one as fn(u8, u32, u64, u64) -> Vec<u8>, 0), (version_two, 70_000)]
        {
            let bytes =
                [encode(0x2a, 512, 99, 5), encode(0x88, 8192, 7, 6), encode(0x12, 36, 0, 7)]
                    .concat();
            let (records, _) = read_bytes(&FORMAT, &bytes).unwrap();
            let brief: Vec<_> = records
                .iter()
                .map(|record| (record.operation, record.address, record.bytes, record.time_ns))
                .collect();
            assert_eq!(
                brief,
                [
                    (Operation::Write, 99, 512, 5000),
                    (Operation::Read, 7, 8192, 6000),
                    (Operation::Passthrough, 0, 36, 7000),
                ]
            );
            assert_eq!(records[0].duration_ns, duration);
            assert_eq!(sniff(&bytes[..bytes.len() * 2 / 3]), Confidence::Likely);
        }
    }

    #[test]
    fn errors_have_the_offset_of_the_damage() {
        let good = version_one(0x2a, 512, 99, 5);
        let cut = [good.clone(), good[..9].to_vec()].concat();
        let error = read_bytes(&FORMAT, &cut).unwrap_err();
        assert_eq!(
            error.to_string(),
            "sample at byte 32: ends within a record: 9 bytes of at least 32"
        );
        let mixed = [good.clone(), vec![0; 32]].concat();
        assert!(read_bytes(&FORMAT, &mixed).unwrap_err().to_string().contains("byte 32"));
        let late = [good, version_one(0x2a, 512, 99, u64::MAX)].concat();
        assert!(read_bytes(&FORMAT, &late).unwrap_err().to_string().contains("byte 32"));
    }
}
