//! `blkparse`: the text that blkparse(1) prints by default,
//! `MAJOR,MINOR CPU SEQUENCE TIME PID ACTION RWBS SECTOR + SECTORS [COMM]`, then a summary.

use super::requests::{EXPECTED_LENGTH, operation_of_rwbs, sectors_to_bytes};
use super::{Format, ReadOptions};
use crate::Error;
use crate::input::Input;
use crate::ledger::Ledger;
use crate::lines::{Expected, LineParser, Lines, TextReader};
use crate::record::{Operation, Record, RecordReader, Stage, Traits};
use crate::sniff::{Confidence, head_lines};
use crate::text::{SECOND_NS, decimal, skip_blanks, take_decimal, take_word, time};

/// The row of this format.
pub const FORMAT: Format = Format {
    name: "blkparse",
    summary: "text of blkparse(1): block requests",
    has_columns: false,
    has_parts: false,
    has_accesses: true,
    sniff,
    open,
};

fn sniff(head: &[u8]) -> Confidence {
    let lines = head_lines(head, 20);
    let good = lines.iter().filter(|line| Line::parse(line).is_some()).count();
    Confidence::Likely.when(good > 0 && good * 2 >= lines.len())
}

fn open(input: Input, _options: &ReadOptions) -> Result<Box<dyn RecordReader>, Error> {
    Ok(Box::new(TextReader::new(Lines::new(input), Blkparse { is_inside_summary: false })))
}

struct Blkparse {
    is_inside_summary: bool,
}

impl LineParser for Blkparse {
    fn line(
        &mut self,
        line: &[u8],
        records: &mut Vec<Record>,
        ledger: &mut Ledger,
    ) -> Result<(), Expected> {
        let Some(parsed) = Line::parse(line) else {
            return self.other_line(line.trim_ascii(), ledger);
        };
        self.is_inside_summary = false;
        ledger.see(parsed.action, 1);
        let stage = match parsed.action {
            b"D" => Stage::Issue,
            b"Q" => Stage::Queue,
            b"C" => Stage::Complete,
            _ => return Ok(()),
        };
        let request = Request::parse(parsed.rest)
            .ok_or(Expected("`RWBS SECTOR + SECTORS [COMM]` after action D, Q or C"))?;
        let bytes = sectors_to_bytes(request.sectors, request.operation);
        // A completion has an error code in the place of the command's name.
        let comm = if stage == Stage::Complete { b"" } else { request.comm };
        records.push(Record {
            time_ns: parsed.time_ns,
            bytes: bytes.ok_or(Expected(EXPECTED_LENGTH))?,
            process: ledger.named_process(parsed.pid, comm),
            device: ledger.device(parsed.device),
            stage,
            ..Record::new(request.operation, request.sector)
        });
        Ok(())
    }

    fn traits(&self) -> Traits {
        Traits::BLOCK_EVENTS
    }
}

impl Blkparse {
    fn other_line(&mut self, line: &[u8], ledger: &mut Ledger) -> Result<(), Expected> {
        // `Skips: 2 forward (117 -   0.5%)`: 117 records are missing.
        if let Some((_, forward)) = line.strip_prefix(b"Skips: ").and_then(take_decimal)
            && let Some(lost) = forward.strip_prefix(b" forward (")
            && let Some((lost, _)) = take_decimal(skip_blanks(lost))
        {
            ledger.lose("records that blkparse reports missing", lost);
        }
        let is_cpu = line.starts_with(b"CPU") && line.ends_with(b":");
        if is_cpu || line.starts_with(b"Total (") || line.starts_with(b"Input file ") {
            self.is_inside_summary = true;
        }
        if self.is_inside_summary || line.is_empty() {
            return Ok(());
        }
        Err(Expected("`MAJOR,MINOR CPU SEQUENCE TIME PID ACTION RWBS ...`"))
    }
}

/// The columns that every event line begins with.
struct Line<'line> {
    device: &'line [u8],
    time_ns: i64,
    pid: u32,
    action: &'line [u8],
    rest: &'line [u8],
}

impl Line<'_> {
    fn parse(line: &[u8]) -> Option<Line<'_>> {
        let (device, rest) = take_word(line)?;
        let comma = memchr::memchr(b',', device)?;
        decimal(&device[..comma]).and(decimal(&device[comma + 1..]))?;
        let (cpu, rest) = take_word(rest)?;
        let (sequence, rest) = take_word(rest)?;
        decimal(cpu).and(decimal(sequence))?;
        let (when, rest) = take_word(rest)?;
        let time_ns = time(when, SECOND_NS)?;
        let (pid, rest) = take_word(rest)?;
        let pid = u32::try_from(decimal(pid)?).ok()?;
        let (action, rest) = take_word(rest)?;
        action.iter().all(u8::is_ascii_alphabetic).then_some(Line {
            device,
            time_ns,
            pid,
            action,
            rest,
        })
    }
}

/// What follows the action of a request.
struct Request<'line> {
    operation: Operation,
    sector: u64,
    sectors: u64,
    comm: &'line [u8],
}

impl Request<'_> {
    fn parse(rest: &[u8]) -> Option<Request<'_>> {
        let (rwbs, rest) = take_word(rest)?;
        let operation = operation_of_rwbs(rwbs)?;
        let rest = skip_blanks(rest);
        // The name stands in the last brackets, and may contain brackets itself.
        let open = memchr::memchr(b'[', rest)?;
        let comm = rest[open + 1..].trim_ascii_end().strip_suffix(b"]")?;
        let place = rest[..open].trim_ascii_end();
        let request = |sector, sectors| Request { operation, sector, sectors, comm };
        if place.is_empty() {
            return Some(request(0, 0));
        }
        let (sector, place) = take_decimal(place)?;
        match skip_blanks(place) {
            [b'+', length @ ..] => Some(request(sector, take_decimal(skip_blanks(length))?.0)),
            // A packet command: its length in bytes, and the command's own bytes.
            [b'(', ..] => Some(Request { operation: Operation::Passthrough, ..request(0, 0) }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::tests::read_text;

    #[test]
    fn requests_are_read_and_the_summary_is_skipped() {
        let text = "  8,0    3        1     0.000000000   697  G   W 223490 + 8 [kjournald]
  8,0    3        2     0.000001829   697  D   W 223490 + 8 [a] b [x]
  8,0    3        3     0.000002000     0  C   W 223490 + 8 [0]
  8,0    3        4     0.000003000   697  Q FWS [jbd2/sda1-8]
  8,0    3        5     0.000004000   700  D   R 36 (12 00 00 00 24 00) [udevd]
  8,0    3        6     0.000005000     0  m   N cfq697 slice expired
  8,0    3        7     0.000006000   697  D   W broken
CPU0 (sda):
 Reads Queued:           0,        0KiB\t Writes Queued:           1,        4KiB
Total (sda):
Skips: 2 forward (117 -   0.5%)
";
        let (records, ledger) = read_text(&FORMAT, text);
        let brief: Vec<_> = records
            .iter()
            .map(|record| (record.operation, record.stage, record.address, record.bytes))
            .collect();
        assert_eq!(
            brief,
            [
                (Operation::Write, Stage::Issue, 223490, 4096),
                (Operation::Write, Stage::Complete, 223490, 4096),
                (Operation::Write, Stage::Queue, 0, 0),
                (Operation::Passthrough, Stage::Issue, 0, 0),
            ]
        );
        assert_eq!(records[0].time_ns, 1829);
        assert_eq!(ledger.processes().get(0).unwrap().name, "a] b [x");
        assert_eq!((ledger.rejects().0, ledger.rejects().1[0].line), (1, 7));
        assert_eq!(ledger.losses()[0].count, 117);
    }
}
