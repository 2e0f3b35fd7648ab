//! `events`: our own CSV for swap traces written by hand or by scripts,
//! `time_s,event,process,page,state,kind`. Events are out, in, evict, request and exit; process and
//! page are decimal or 0x; state is D (dirty), C (clean) or empty; kind is anon, file or empty.
//! Lines that begin with # are comments. Without a state, a page-out is dirty and an eviction clean. A
//! line without a time has the time of the line before it.

use types::EventFlags;

use super::{Format, ReadOptions};
use crate::Error;
use crate::input::Input;
use crate::ledger::Ledger;
use crate::lines::{Expected, LineParser, Lines, TextReader};
use crate::record::{Operation, Record, RecordReader, Traits};
use crate::sniff::{Confidence, head_lines};
use crate::text::{SECOND_NS, decimal_or_hex, time};

/// The row of this format.
pub const FORMAT: Format = Format {
    name: "events",
    summary: "our CSV of page-outs, page-ins, evictions, requests and exits",
    has_columns: false,
    has_parts: false,
    has_accesses: true,
    sniff,
    open,
};

const COLUMNS: [&[u8]; 6] = [b"time_s", b"event", b"process", b"page", b"state", b"kind"];

fn sniff(head: &[u8]) -> Confidence {
    Confidence::Certain.when(head_lines(head, 1).first().is_some_and(|line| is_header(line)))
}

fn is_header(line: &[u8]) -> bool {
    line.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).eq(COLUMNS)
}

fn open(input: Input, _options: &ReadOptions) -> Result<Box<dyn RecordReader>, Error> {
    // The first event decides: a clock that begins later would leave earlier events without a time.
    let first = head_lines(input.held(), 2).into_iter().find(|line| !is_header(line));
    let has_clock = first.is_some_and(|line| !line.starts_with(b","));
    Ok(Box::new(TextReader::new(Lines::new(input), Events { has_clock, time_ns: 0 })))
}

struct Events {
    has_clock: bool,
    /// Time of the last line that had one.
    time_ns: i64,
}

impl LineParser for Events {
    fn line(
        &mut self,
        line: &[u8],
        records: &mut Vec<Record>,
        ledger: &mut Ledger,
    ) -> Result<(), Expected> {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") || is_header(line) {
            return Ok(());
        }
        let [when, event, process, page, state, kind] = split(line)?;
        let (operation, is_file) = operation(event, kind)?;
        if !when.is_empty() && !self.has_clock {
            return Err(Expected("no time, as in the first event"));
        }
        if !when.is_empty() {
            self.time_ns = time(when, SECOND_NS).ok_or(Expected("seconds as time_s"))?;
        }
        let pid = decimal_or_hex(process).and_then(|pid| u32::try_from(pid).ok());
        let pid = pid.ok_or(Expected("a process number"))?;
        let is_exit = operation == Operation::Exit;
        let page = if is_exit && page.is_empty() { Some(0) } else { decimal_or_hex(page) };
        let page = page.ok_or(Expected("a page number, decimal or 0x"))?;
        let flags = flags(operation, is_file, state)?;
        ledger.see(event, 1);
        let process = ledger.process(pid);
        if is_exit {
            ledger.end_process(pid);
        }
        records.push(Record {
            time_ns: self.time_ns,
            process,
            flags,
            ..Record::new(operation, page)
        });
        Ok(())
    }

    fn traits(&self) -> Traits {
        Traits { has_clock: self.has_clock, ..Traits::PAGE_EVENTS }
    }
}

/// The six fields of a line; missing fields are empty.
fn split(line: &[u8]) -> Result<[&[u8]; 6], Expected> {
    let mut fields = [&b""[..]; 6];
    let mut count = 0;
    for field in line.split(|&byte| byte == b',') {
        *fields.get_mut(count).ok_or(Expected("six fields"))? = field.trim_ascii();
        count += 1;
    }
    // Editors drop empty fields at the end of a line.
    if count < 3 { Err(Expected("`time_s,event,process,page,state,kind`")) } else { Ok(fields) }
}

fn flags(operation: Operation, is_file: bool, state: &[u8]) -> Result<EventFlags, Expected> {
    let dirty = match state {
        b"D" => EventFlags::DIRTY,
        b"" if operation == Operation::SwapOut => EventFlags::DIRTY,
        b"C" | b"" => EventFlags::default(),
        _ => return Err(Expected("state D, C or nothing")),
    };
    Ok(if is_file { dirty.with(EventFlags::FILE) } else { dirty })
}

/// The operation of an event, and whether its page is a file page.
fn operation(event: &[u8], kind: &[u8]) -> Result<(Operation, bool), Expected> {
    let (operation, is_file) = match event {
        b"out" => (Operation::SwapOut, false),
        b"in" => (Operation::SwapIn, false),
        b"evict" => (Operation::Evict, true),
        b"request" => (Operation::Request, true),
        b"exit" => return Ok((Operation::Exit, false)),
        _ => return Err(Expected("event out, in, evict, request or exit")),
    };
    match kind {
        b"" => Ok((operation, is_file)),
        b"anon" if !is_file => Ok((operation, is_file)),
        b"file" if is_file => Ok((operation, is_file)),
        _ => Err(Expected("kind anon with out and in, file with evict and request")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::tests::read_text;

    #[test]
    fn events_without_times_have_no_clock() {
        let open = |text: &str| {
            let input = Input::from_bytes("sample", text.as_bytes().to_vec()).unwrap();
            open(input, &ReadOptions::default()).unwrap().traits().has_clock
        };
        let header = "# note\ntime_s,event,process,page,state,kind\n";
        assert!(!open(&format!("{header}# note\n,in,1,2,,\n3,in,1,2,,\n")));
        assert!(open(&format!("{header}\n 1,in,1,2,,\n,in,1,2,,\n")));
        let (records, ledger) = read_text(&FORMAT, &format!("{header},in,1,2,,\n3,in,1,2,,\n"));
        assert_eq!((records.len(), ledger.rejects().0), (1, 1));
    }

    #[test]
    fn every_event_is_read() {
        let text = "# worked by hand
time_s,event,process,page,state,kind
0.5,out,1,0x10,D,anon
,in,1,16,,
1,out,0x1,16
2,evict,1,7,D,file
2,request,2,7,,
3,exit,1,,,
4,in,1,16,,
5,out,1,16,X,
6,in,1,16,,file
7,jump,1,16,,
8,in,1,,,
9,in,1,1,,,,
";
        let (records, ledger) = read_text(&FORMAT, text);
        let brief: Vec<_> = records
            .iter()
            .map(|record| (record.operation, record.address, record.flags.0, record.process.0))
            .collect();
        assert_eq!(
            brief,
            [
                (Operation::SwapOut, 16, 1, 0),
                (Operation::SwapIn, 16, 0, 0),
                (Operation::SwapOut, 16, 1, 0),
                (Operation::Evict, 7, 3, 0),
                (Operation::Request, 7, 2, 1),
                (Operation::Exit, 0, 0, 0),
                (Operation::SwapIn, 16, 0, 2),
            ]
        );
        assert_eq!(records[1].time_ns, 500_000_000);
        let lines: Vec<u64> = ledger.rejects().1.iter().map(|reject| reject.line).collect();
        assert_eq!(lines, [10, 11, 12, 13, 14]);
    }
}
