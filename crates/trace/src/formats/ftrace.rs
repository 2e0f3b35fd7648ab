//! `ftrace`: the text of tracefs, of `trace-cmd report`, of `perf script`, and of systrace HTML
//! ([`crate::system::formats::ftrace`]).
//!
//! Block requests are read here without a detour over events, for speed; with `--as swap`, and if the file has no
//! requests but pages of files, it is read as a system trace.

use types::ProcessId;

use super::requests::{EXPECTED_LENGTH, sectors_to_bytes};
use super::system_records;
use super::{Format, ReadOptions};
use crate::Error;
use crate::input::Input;
use crate::ledger::Ledger;
use crate::lines::{Expected, LineParser, Lines, TextReader};
use crate::record::{Record, RecordReader, Stage, Traits};
use crate::system::formats::ftrace::{
    self, DROPPED, Decoded, EXPECTED_LINE, LineDecoder, LineHeader, Note, OVERWRITTEN, Place,
    Request, note, split_header,
};
use crate::system::{Contents, Event, Facts, Tally};
use crate::text::skip_blanks;

/// The row of this format.
pub const FORMAT: Format = Format {
    name: "ftrace",
    summary: "text of tracefs, trace-cmd report and perf script, systrace HTML: block requests, \
              pages of files, kernel events",
    has_columns: false,
    has_parts: false,
    has_accesses: true,
    sniff: ftrace::sniff,
    open,
};

fn open(mut input: Input, options: &ReadOptions) -> Result<Box<dyn RecordReader>, Error> {
    if system_records::is_of_pages(&mut input, options, ftrace::open)? {
        return system_records::of_pages(input, ftrace::open);
    }
    let parser = Ftrace {
        place: Place::of(input.held()),
        process_last: None,
        decoder: LineDecoder::default(),
        events: Vec::new(),
        facts: Facts::default(),
        requests: 0,
        completions: 0,
    };
    Ok(Box::new(TextReader::new(Lines::new(input), parser)))
}

struct Ftrace {
    place: Place,
    /// Pid, comm and process of the last line.
    process_last: Option<(u32, Vec<u8>, ProcessId)>,
    decoder: LineDecoder,
    /// Events of a line that is no block request.
    events: Vec<Event>,
    facts: Facts,
    /// Requests and completions of the current lines, which are not in `facts` yet.
    requests: u64,
    completions: u64,
}

impl LineParser for Ftrace {
    fn line(
        &mut self,
        line: &[u8],
        records: &mut Vec<Record>,
        ledger: &mut Ledger,
    ) -> Result<(), Expected> {
        if !matches!(self.place.follow(line), Some(Place::Trace | Place::Script)) {
            return Ok(());
        }
        let Some(header) = split_header(line) else {
            return other_line(line, ledger);
        };
        ledger.see(header.event, 1);
        let Some(stage) = stage_of(header.event) else {
            self.other_event(&header, ledger);
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
        match stage {
            Stage::Complete => self.completions += 1,
            _ => self.requests += 1,
        }
        Ok(())
    }

    fn end_block(&mut self, ledger: &mut Ledger) {
        self.facts.add_count("block_request", std::mem::take(&mut self.requests));
        self.facts.add_count("block_complete", std::mem::take(&mut self.completions));
        let contents = Contents::new(&Tally::default(), self.facts.take_counts());
        match &mut ledger.system {
            Some(known) => known.join(contents),
            none => *none = Some(contents),
        }
    }

    fn traits(&self) -> Traits {
        Traits::BLOCK_EVENTS
    }
}

impl Ftrace {
    /// Counts what the event of a line says.
    fn other_event(&mut self, header: &LineHeader<'_>, ledger: &mut Ledger) {
        if self.decoder.decode(header, &mut self.events) == Decoded::Incomplete {
            ledger.lose(ftrace::INCOMPLETE, 1);
        }
        for event in self.events.drain(..) {
            self.facts.add(&event, self.decoder.names());
        }
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

/// A line that records no event.
fn other_line(line: &[u8], ledger: &mut Ledger) -> Result<(), Expected> {
    match note(line).ok_or(EXPECTED_LINE)? {
        Note::Comment => {}
        Note::Overwritten(count) => ledger.lose(OVERWRITTEN, count),
        Note::Dropped(count) => ledger.lose(DROPPED, count),
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::tests::read_text;
    use crate::record::Operation;
    use crate::sniff::Confidence;

    #[test]
    fn block_events_become_requests() {
        let text = "# tracer: nop
# entries-in-buffer/entries-written: 3/5   #P:2
 cat-7     [001] .....  1.000001: block_rq_issue: 254,0 RA 4096 () 80 + 8 be,0,4 [cat]
 cat-7     [001] .....  1.000002: block_rq_complete: 254,0 RA () 80 + 8 be,0,4 [0]
CPU:1 [LOST 4 EVENTS]
 cat-7     [001] .....  1.000003: block_bio_queue: 8,1 WS 16 + 24 [cat]
 cat-7     [001] .....  1.000004: block_rq_issue: 8,1 N 0 (12 01 00) 18446744073709551615 + 0 [x]
 cat-7     [001] .....  1.000005: sched_switch: a:1 [120] R ==> b:2 [120]
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
        assert_eq!(ftrace::sniff(b"<!DOCTYPE html><title>Not found</title>"), Confidence::No);
        assert_eq!(ftrace::sniff(b"<html><title>Android System Trace</title>"), Confidence::Likely);
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
