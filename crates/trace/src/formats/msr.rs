//! `msr`: the CSV of Microsoft Research Cambridge's block traces (SNIA IOTTA 388),
//! `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`: a Windows FILETIME, bytes, and
//! the response time in the same 100 ns ticks.

use super::requests::{EXPECTED_LENGTH, REQUEST_BYTES_MAX};
use super::{Format, ReadOptions};
use crate::Error;
use crate::input::Input;
use crate::ledger::Ledger;
use crate::lines::{Expected, LineParser, Lines, TextReader};
use crate::record::{AddressUnit, Operation, Record, RecordReader, Traits};
use crate::sniff::{Confidence, head_lines};
use crate::text::decimal;

/// The row of this format.
pub const FORMAT: Format = Format {
    name: "msr",
    summary: "CSV of the Microsoft Research Cambridge block traces",
    has_columns: false,
    has_parts: false,
    has_accesses: true,
    sniff,
    open,
};

/// Nanoseconds per tick of a FILETIME.
const TICK_NS: u64 = 100;

/// Ticks from 1601 to 1970. Nanoseconds since 1601 do not fit into 63 bits.
const EPOCH_TICKS: u64 = 116_444_736_000_000_000;

fn sniff(head: &[u8]) -> Confidence {
    let lines = head_lines(head, 20);
    let good = lines.iter().filter(|line| parse(line).is_some() || is_header(line)).count();
    Confidence::Likely.when(good > 0 && good == lines.len())
}

fn is_header(line: &[u8]) -> bool {
    line.get(..10).is_some_and(|start| start.eq_ignore_ascii_case(b"Timestamp,"))
        && line.split(|&byte| byte == b',').count() == 7
}

fn open(input: Input, _options: &ReadOptions) -> Result<Box<dyn RecordReader>, Error> {
    Ok(Box::new(TextReader::new(Lines::new(input), Msr { device_name: Vec::new() })))
}

struct Msr {
    device_name: Vec<u8>,
}

/// The fields of a line; the length of the request is not yet checked.
struct Request<'line> {
    host: &'line [u8],
    disk: &'line [u8],
    record: Record,
}

fn parse(line: &[u8]) -> Option<Request<'_>> {
    let mut fields = line.split(|&byte| byte == b',');
    let ticks = decimal(fields.next()?)?;
    let (host, disk) = (fields.next()?, fields.next()?);
    let operation = match fields.next()? {
        word if word.eq_ignore_ascii_case(b"read") => Operation::Read,
        word if word.eq_ignore_ascii_case(b"write") => Operation::Write,
        _ => return None,
    };
    let offset = decimal(fields.next()?)?;
    let bytes = decimal(fields.next()?)?;
    let duration = decimal(fields.next()?)?;
    if fields.next().is_some() || ticks < EPOCH_TICKS {
        return None;
    }
    let record = Record {
        time_ns: i64::try_from((ticks - EPOCH_TICKS).checked_mul(TICK_NS)?).ok()?,
        bytes,
        duration_ns: duration.checked_mul(TICK_NS)?,
        ..Record::new(operation, offset)
    };
    Some(Request { host, disk, record })
}

impl LineParser for Msr {
    fn line(
        &mut self,
        line: &[u8],
        records: &mut Vec<Record>,
        ledger: &mut Ledger,
    ) -> Result<(), Expected> {
        if line.trim_ascii().is_empty() || is_header(line) {
            return Ok(());
        }
        let Request { host, disk, record } = parse(line).ok_or(Expected(
            "`FILETIME,Hostname,DiskNumber,Read|Write,Offset,Size,ResponseTime`",
        ))?;
        if record.bytes > REQUEST_BYTES_MAX {
            return Err(Expected(EXPECTED_LENGTH));
        }
        self.device_name.clear();
        self.device_name.extend_from_slice(host);
        self.device_name.push(b'.');
        self.device_name.extend_from_slice(disk);
        ledger.see(if record.operation == Operation::Read { b"Read" } else { b"Write" }, 1);
        records.push(Record { device: ledger.device(&self.device_name), ..record });
        Ok(())
    }

    fn traits(&self) -> Traits {
        Traits {
            address: AddressUnit::Byte,
            has_durations: true,
            has_stages: false,
            ..Traits::BLOCK_EVENTS
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::tests::read_text;

    #[test]
    fn requests_keep_their_time_address_and_duration() {
        let text = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime
128166372003061629,usr,0,Read,7014609920,24576,41286
128166372016382155,usr,1,Write,2517696512,512,10
1,usr,1,Write,0,512,10
128166372016382155,usr,1,Write,0,99999999999,10

";
        let (records, ledger) = read_text(&FORMAT, text);
        assert_eq!(records.len(), 2);
        assert_eq!(records[0].time_ns, 1_172_163_600_306_162_900);
        assert_eq!((records[0].address, records[0].bytes), (7_014_609_920, 24_576));
        assert_eq!(records[0].duration_ns, 4_128_600);
        assert_eq!(ledger.devices(), ["usr.0", "usr.1"]);
        let lines: Vec<u64> = ledger.rejects().1.iter().map(|reject| reject.line).collect();
        assert_eq!(lines, [4, 5]);
    }
}
