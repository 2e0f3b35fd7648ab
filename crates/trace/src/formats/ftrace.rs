//! `ftrace`: the text of tracefs, of `trace-cmd report`, and of systrace HTML.
//!
//! A line is `COMM-PID (TGID) [CPU] FLAGS TIME: EVENT: ARGUMENTS`; the group id and the flags (four,
//! five or more letters) may be absent (trace_print_context in kernel/trace/trace_output.c). Only
//! block requests become accesses; every event is counted by name. In HTML, the trace lies inside
//! `<script class="trace-data">`; scripts of this class with a list of processes are skipped.

use memchr::memmem;
use types::ProcessId;

use super::requests::{EXPECTED_LENGTH, operation_of_rwbs, sectors_to_bytes};
use super::{Format, ReadOptions};
use crate::Error;
use crate::input::Input;
use crate::ledger::Ledger;
use crate::lines::{Expected, LineParser, Lines, TextReader};
use crate::record::{Operation, Record, RecordReader, Stage, Traits};
use crate::sniff::{Confidence, head_lines};
use crate::text::{SECOND_NS, skip_blanks, take_decimal, take_time, take_word};

/// The row of this format.
pub const FORMAT: Format = Format {
    name: "ftrace",
    summary: "tracefs text, trace-cmd report text and systrace HTML: block requests",
    has_columns: false,
    has_parts: false,
    sniff,
    open,
};

/// Marks in the first bytes of the HTML pages of systrace and its successors. The trace itself follows
/// after megabytes of scripts.
const PAGE_MARKS: [&[u8]; 4] =
    [b"class=\"trace-data\"", b"Android System Trace", b"trace-viewer", b"systrace"];

fn sniff(head: &[u8]) -> Confidence {
    if is_html(head) {
        let is_marked = PAGE_MARKS.iter().any(|mark| memmem::find(head, mark).is_some());
        return Confidence::Likely.when(is_marked);
    }
    if head.starts_with(b"# tracer:") {
        return Confidence::Certain;
    }
    let lines = head_lines(head, 100);
    let good = lines.iter().filter(|line| split_header(line).is_some()).count();
    Confidence::Likely.when(good > 0 && good * 2 >= lines.len())
}

fn is_html(head: &[u8]) -> bool {
    let head = head.trim_ascii_start();
    head.get(..9).is_some_and(|start| start.eq_ignore_ascii_case(b"<!doctype"))
        || head.get(..5).is_some_and(|start| start.eq_ignore_ascii_case(b"<html"))
}

fn open(input: Input, _options: &ReadOptions) -> Result<Box<dyn RecordReader>, Error> {
    let place = if is_html(input.held()) { Place::Page } else { Place::Trace };
    let parser = Ftrace { place, process_last: None };
    Ok(Box::new(TextReader::new(Lines::new(input), parser)))
}

/// What the lines at the current position of the file contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Lines of the trace, to the end of the file.
    Trace,
    /// HTML around the trace.
    Page,
    /// Lines of the trace until the script ends.
    Script,
    /// The list of processes, which systrace puts into a separate script, until that script ends.
    ProcessList,
}

/// The line above systrace's list of processes.
const PROCESS_LIST: &[u8] = b"PROCESS DUMP";

struct Ftrace {
    place: Place,
    /// Pid, comm and process of the last line.
    process_last: Option<(u32, Vec<u8>, ProcessId)>,
}

impl LineParser for Ftrace {
    fn line(
        &mut self,
        line: &[u8],
        records: &mut Vec<Record>,
        ledger: &mut Ledger,
    ) -> Result<(), Expected> {
        if self.place != Place::Trace && self.is_page(line) {
            return Ok(());
        }
        let Some(header) = split_header(line) else {
            return other_line(line, ledger);
        };
        ledger.see(header.event, 1);
        let Some(stage) = stage_of(header.event) else {
            return Ok(());
        };
        let request = Request::parse(header.arguments)
            .ok_or(Expected("`MAJOR,MINOR RWBS [BYTES] (COMMAND) SECTOR + SECTORS [COMM]`"))?;
        let bytes = sectors_to_bytes(request.sectors, request.operation);
        records.push(Record {
            time_ns: header.time_ns,
            bytes: bytes.ok_or(Expected(EXPECTED_LENGTH))?,
            process: self.process(&header, ledger),
            device: ledger.device(request.device),
            stage,
            ..Record::new(request.operation, request.sector)
        });
        Ok(())
    }

    fn traits(&self) -> Traits {
        Traits::BLOCK_EVENTS
    }
}

impl Ftrace {
    /// Follows the HTML around the trace; true if this line belongs to it.
    fn is_page(&mut self, line: &[u8]) -> bool {
        if matches!(self.place, Place::Script | Place::ProcessList) {
            if memmem::find(line, b"</script").is_some() && split_header(line).is_none() {
                self.place = Place::Page;
            } else if line.trim_ascii() == PROCESS_LIST {
                self.place = Place::ProcessList;
            }
            return self.place != Place::Script;
        }
        if line.trim_ascii_start().starts_with(b"<script")
            && memmem::find(line, b"class=\"trace-data\"").is_some()
        {
            self.place = Place::Script;
        }
        true
    }

    fn process(&mut self, header: &LineHeader<'_>, ledger: &mut Ledger) -> ProcessId {
        let pid = header.tgid.unwrap_or(header.pid);
        if let Some((last_pid, name, process)) = &self.process_last
            && *last_pid == pid
            && name == header.comm
        {
            return *process;
        }
        // Each thread has its own comm; the process takes its name from the first thread.
        let is_own_name = header.tgid.is_none_or(|tgid| tgid == header.pid);
        let name = if is_own_name { skip_blanks(header.comm) } else { b"<...>" };
        let process = ledger.named_process(pid, name);
        // Reuse the allocation.
        let mut last = self.process_last.take().map_or_else(Vec::new, |(_, comm, _)| comm);
        last.clear();
        last.extend_from_slice(header.comm);
        self.process_last = Some((pid, last, process));
        process
    }
}

/// A line that records no event: a comment, a note of losses, or a bad one.
fn other_line(line: &[u8], ledger: &mut Ledger) -> Result<(), Expected> {
    let line = line.trim_ascii();
    if let Some(counts) = line.strip_prefix(b"# entries-in-buffer/entries-written:") {
        let counts = take_decimal(skip_blanks(counts));
        if let Some((held, [b'/', written @ ..])) = counts
            && let Some((written, _)) = take_decimal(written)
        {
            ledger.lose("events overwritten in the ring buffer", written.saturating_sub(held));
        }
        return Ok(());
    }
    if let Some(count) = loss_of(line) {
        ledger.lose("events that the kernel dropped", count);
        return Ok(());
    }
    let is_note = line.is_empty()
        || line.starts_with(b"#")
        || line.starts_with(b"version = ")
        || line.starts_with(b"cpus=")
        || (line.starts_with(b"CPU ") && line.ends_with(b" is empty"))
        || line == b"TRACE:"
        // The JSON in the second trace-data script of systrace.
        || line.starts_with(b"{\"traceEvents\"");
    if is_note { Ok(()) } else { Err(EXPECTED_LINE) }
}

const EXPECTED_LINE: Expected = Expected("`COMM-PID [CPU] FLAGS TIME: EVENT: ...`");

/// The count in `CPU:3 [LOST 12 EVENTS]` (tracefs) or `CPU:3 [12 EVENTS DROPPED]` (trace-cmd).
fn loss_of(line: &[u8]) -> Option<u64> {
    let (_, rest) = take_decimal(line.strip_prefix(b"CPU:")?)?;
    let rest = rest.strip_prefix(b" [")?;
    let rest = rest.strip_prefix(b"LOST ").unwrap_or(rest);
    let (count, rest) = take_decimal(rest)?;
    rest.starts_with(b" EVENTS").then_some(count)
}

/// The stage of a request that an event records.
#[inline]
fn stage_of(event: &[u8]) -> Option<Stage> {
    match event {
        b"block_rq_issue" => Some(Stage::Issue),
        b"block_bio_queue" => Some(Stage::Queue),
        b"block_rq_complete" => Some(Stage::Complete),
        _ => None,
    }
}

/// The part of a line before the event's arguments.
#[derive(Debug, PartialEq, Eq)]
struct LineHeader<'line> {
    /// Command name with its leading blanks.
    comm: &'line [u8],
    pid: u32,
    tgid: Option<u32>,
    time_ns: i64,
    event: &'line [u8],
    arguments: &'line [u8],
}

/// Width of the command name in an untrimmed line, and its maximum length.
const COMM_WIDTH: usize = 16;

/// Splits a line at the dash before its pid. A command may contain dashes, digits, brackets and even text
/// that looks like a header. But it has at most 16 bytes, and the last header that begins within them is
/// the line's own.
fn split_header(line: &[u8]) -> Option<LineHeader<'_>> {
    if line.get(COMM_WIDTH) == Some(&b'-')
        && let Some(header) = header_at(line, COMM_WIDTH)
    {
        return Some(header);
    }
    let within = &line[..line.len().min(COMM_WIDTH)];
    let mut ends = memchr::memrchr_iter(b'-', within);
    ends.find_map(|dash| header_at(line, dash)).or_else(|| {
        // A line with more indentation than the kernel writes.
        let after = line.get(COMM_WIDTH..line.len().min(4 * COMM_WIDTH))?;
        memchr::memchr_iter(b'-', after).find_map(|dash| header_at(line, COMM_WIDTH + dash))
    })
}

#[inline]
fn header_at(line: &[u8], dash: usize) -> Option<LineHeader<'_>> {
    let (pid, rest) = take_decimal(&line[dash + 1..])?;
    let mut rest = skip_blanks(rest);
    let mut tgid = None;
    if let [b'(', group @ ..] = rest {
        let close = memchr::memchr(b')', group.get(..16).unwrap_or(group))?;
        tgid = take_decimal(skip_blanks(&group[..close])).map(|(tgid, _)| tgid);
        rest = skip_blanks(&group[close + 1..]);
    }
    let (_, rest) = take_decimal(rest.strip_prefix(b"[")?)?;
    let rest = skip_blanks(rest.strip_prefix(b"]")?);
    let (time_ns, rest) = match take_time(rest, SECOND_NS) {
        Some((time_ns, rest)) if rest.starts_with(b":") => (time_ns, rest),
        // Flags: letters, dots, digits and signs without a blank.
        _ => take_time(skip_blanks(take_word(rest)?.1), SECOND_NS)?,
    };
    let rest = skip_blanks(rest.strip_prefix(b":")?);
    let colon = memchr::memchr2(b':', b' ', rest)?;
    if colon == 0 || rest[colon] != b':' {
        return None;
    }
    Some(LineHeader {
        comm: &line[..dash],
        pid: u32::try_from(pid).ok()?,
        tgid: tgid.and_then(|tgid| u32::try_from(tgid).ok()),
        time_ns,
        event: &rest[..colon],
        arguments: &rest[colon + 1..],
    })
}

/// The arguments of a block event.
struct Request<'line> {
    device: &'line [u8],
    operation: Operation,
    sector: u64,
    sectors: u64,
}

impl Request<'_> {
    /// Reads `8,0 W 4096 () 1234 + 8 ...`; the byte count and the command are absent from
    /// block_bio_queue, and the byte count from block_rq_complete.
    #[inline]
    fn parse(arguments: &[u8]) -> Option<Request<'_>> {
        let numbers = skip_blanks(arguments);
        let (_, minor) = take_decimal(numbers)?;
        let (_, rest) = take_decimal(minor.strip_prefix(b",")?)?;
        let device = &numbers[..numbers.len() - rest.len()];
        if !matches!(rest, [b' ' | b'\t', ..]) {
            return None;
        }
        let (rwbs, rest) = take_word(rest)?;
        let operation = operation_of_rwbs(rwbs)?;
        let mut rest = skip_blanks(rest);
        let (mut sector, after) = match take_decimal(rest) {
            Some((number, after)) => (Some(number), skip_blanks(after)),
            None => (None, rest),
        };
        rest = after;
        if let [b'(', command @ ..] = rest {
            // Most requests have no command and need no search.
            let end = if command.starts_with(b")") { 0 } else { memchr::memchr(b')', command)? };
            rest = skip_blanks(&command[end + 1..]);
            let (number, after) = take_decimal(rest)?;
            sector = Some(number);
            rest = skip_blanks(after);
        }
        let (sectors, _) = take_decimal(skip_blanks(rest.strip_prefix(b"+")?))?;
        Some(Request { device, operation, sector: sector?, sectors })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::tests::read_text;

    fn header(line: &str) -> (String, u32, Option<u32>, i64, String) {
        let header = split_header(line.as_bytes()).unwrap_or_else(|| panic!("no header: {line}"));
        (
            String::from_utf8_lossy(skip_blanks(header.comm)).into(),
            header.pid,
            header.tgid,
            header.time_ns,
            String::from_utf8_lossy(header.event).into(),
        )
    }

    #[test]
    fn every_layout_of_the_header_is_read() {
        let expected = |comm: &str, tgid| (comm.to_owned(), 7, tgid, 1_500_000_000, "e".to_owned());
        assert_eq!(
            header("             cat-7       [001] .....  1.500000: e: x"),
            expected("cat", None)
        );
        assert_eq!(
            header("             cat-7       [001] d..1  1.500000: e: x"),
            expected("cat", None)
        );
        assert_eq!(
            header("             cat-7       [001] dNh3...  1.5: e: x"),
            expected("cat", None)
        );
        assert_eq!(
            header("             cat-7     [001]     1.500000: e:   x"),
            expected("cat", None)
        );
        assert_eq!(
            header("   cat-7       (  99) [001] d..1  1.500000: e: x"),
            expected("cat", Some(99))
        );
        assert_eq!(
            header("   cat-7       (-----) [001] d..1  1.500000: e: x"),
            expected("cat", None)
        );
        assert_eq!(header("cat-7 [001] 1.500000: e:"), expected("cat", None));
        assert_eq!(header("           <...>-7     [001] ....  1.5: e: x"), expected("<...>", None));
    }

    #[test]
    fn hostile_names_are_read_as_names() {
        for comm in ["\") Z (\"", "a-1 [0] 1.1: x:", "-1", "a b-2", "[1] 2.2: e:", "- 5 -", "()"] {
            let line = format!("{comm:>16}-7       [001] .....  1.500000: e: a-9 [2] 3.3: f: y");
            assert_eq!(header(&line).0, comm.trim_start(), "{line}");
            assert_eq!(header(&line).1, 7);
        }
    }

    #[test]
    fn block_events_become_requests() {
        let text = "# tracer: nop
# entries-in-buffer/entries-written: 3/5   #P:2
 cat-7     [001] .....  1.000001: block_rq_issue: 254,0 RA 4096 () 80 + 8 be,0,4 [cat]
 cat-7     [001] .....  1.000002: block_rq_complete: 254,0 RA () 80 + 8 be,0,4 [0]
CPU:1 [LOST 4 EVENTS]
 cat-7     [001] .....  1.000003: block_bio_queue: 8,1 WS 16 + 24 [cat]
 cat-7     [001] .....  1.000004: block_rq_issue: 8,1 N 0 (12 01 00) 18446744073709551615 + 0 [x]
 cat-7     [001] .....  1.000005: sched_switch: a ==> b
 cat-7     [001] .....  1.000006: block_rq_issue: 8,1 broken
nonsense
";
        let (records, ledger) = read_text(&FORMAT, text);
        let brief: Vec<_> = records
            .iter()
            .map(|record| (record.operation, record.stage, record.address, record.bytes))
            .collect();
        assert_eq!(
            brief,
            [
                (Operation::Read, Stage::Issue, 80, 4096),
                (Operation::Read, Stage::Complete, 80, 4096),
                (Operation::Write, Stage::Queue, 16, 12288),
                (Operation::Passthrough, Stage::Issue, u64::MAX, 0),
            ]
        );
        assert_eq!(ledger.devices(), ["254,0", "8,1"]);
        let lines: Vec<u64> = ledger.rejects().1.iter().map(|reject| reject.line).collect();
        assert_eq!(lines, [9, 10]);
        let losses: Vec<u64> = ledger.losses().iter().map(|loss| loss.count).collect();
        assert_eq!(losses, [2, 4, 2]);
        assert!(ledger.seen().contains(&("sched_switch".into(), 1)));
    }

    #[test]
    fn a_page_without_a_trace_is_not_recognised() {
        assert_eq!(sniff(b"<!DOCTYPE html><title>Not found</title>"), Confidence::No);
        assert_eq!(sniff(b"<html><title>Android System Trace</title>"), Confidence::Likely);
    }

    #[test]
    fn the_trace_inside_a_page_is_found() {
        let text = "<!DOCTYPE html>
<script>var x = 'cat-7 [001] 1.0: block_bio_queue: 8,1 W 0 + 8 [cat]'</script>
  <script class=\"trace-data\" type=\"application/text\">
PROCESS DUMP
USER           PID  PPID     VSZ    RSS WCHAN  PC S NAME                        COMM
root             1     0   32904   4528 SyS_epoll_wait 0 S init                 init
  </script>
  <script class=\"trace-data\" type=\"application/text\">
# tracer: nop
 cat-7     [001] .....  1.000003: block_bio_queue: 8,1 W 16 + 24 [cat]
  </script>
  <script class=\"trace-data\" type=\"application/text\">
{\"traceEvents\": []}</script>
 cat-7     [001] .....  1.000004: block_bio_queue: 8,1 W 16 + 24 [cat]
</html>
";
        let (records, ledger) = read_text(&FORMAT, text);
        assert_eq!((records.len(), ledger.rejects().0), (1, 0));
    }

    #[test]
    fn requests_of_a_thread_belong_to_its_process() {
        let text = "\
 worker-8  (    7) [001] .....  1.0: block_bio_queue: 8,1 W 16 + 8 [worker]
 main-7    (    7) [001] .....  1.1: block_bio_queue: 8,1 W 16 + 8 [main]
";
        let (records, ledger) = read_text(&FORMAT, text);
        assert_eq!(records[0].process, records[1].process);
        assert_eq!(ledger.processes().len(), 1);
        assert_eq!(ledger.processes().get(0), Some(crate::Process { pid: 7, name: "main" }));
    }
}
