//! Parses lines of the kernel's text trace into records. The format is that of Linux 5.15 to 6.18:
//! `COMM-TID (TGID) [CPU] FLAGS SECONDS: EVENT: ARGUMENTS`.

use std::collections::{HashMap, HashSet};

use linux::system::device_number;
use trace::recording::{Record, flag, kind};

use super::slots::Slots;

/// The most faults that are remembered; a task has at most one.
const FAULTS_MAX: usize = 1 << 16;
/// The most requests that are remembered; a device has fewer on their way.
const REQUESTS_MAX: usize = 1 << 16;

/// Parses lines, and keeps the state from line to line.
#[derive(Default)]
pub struct Lines {
    /// The places of the swap areas on disks.
    slots: Slots,
    /// The last fault of each thread.
    faults: HashMap<u32, Fault>,
    /// Bytes in swap of each address space, by the `mm_id` of the text events.
    swapped: HashMap<u64, i64>,
    /// Device and sector of requests that were issued, and of those that their device sent back.
    issued: HashSet<(u32, u64)>,
    requeued: HashSet<(u32, u64)>,
}

#[derive(Clone, Copy)]
struct Fault {
    address: u64,
    time_ns: u64,
    reads_device: bool,
    is_in_kernel: bool,
}

/// The part of a line before the arguments.
struct Head<'line> {
    name: &'line str,
    thread: u32,
    process: u32,
    time_ns: u64,
    event: &'line str,
}

impl Lines {
    /// A parser for a machine with these swap areas.
    pub fn new(slots: Slots) -> Lines {
        Lines { slots, ..Lines::default() }
    }

    /// Names the transfers of a device by their page.
    pub fn add_area(&mut self, device: u32) {
        self.slots.add(device);
    }

    /// The record of a line; None for a line of another format or of an event that records nothing.
    pub fn record(&mut self, line: &str) -> Option<Record> {
        let (head, arguments) = head(line)?;
        let record =
            Record { time_ns: head.time_ns, process: head.process, pages: 1, ..Record::default() };
        match head.event {
            "page_fault_user" => self.begin_fault(&head, arguments, false),
            "page_fault_kernel" => self.begin_fault(&head, arguments, true),
            "rss_stat" => self.swap_in(&head, arguments, record),
            "block_bio_queue" => self.transfer(&head, arguments, record),
            "block_rq_issue" => self.block_request(arguments, record),
            "block_rq_requeue" => {
                let key = Request::parse(arguments)?.key();
                // Some drivers refuse a request before it is issued.
                if self.issued.contains(&key) {
                    remember(&mut self.requeued, key);
                }
                None
            }
            "mm_vmscan_write_folio" | "mm_vmscan_writepage" => page_out(&head, arguments, record),
            "mm_filemap_add_to_page_cache" => file_pages(arguments, kind::FILE_ADDED, record),
            "mm_filemap_delete_from_page_cache" => {
                file_pages(arguments, kind::FILE_DROPPED, record)
            }
            "sched_process_exec" => Some(record.of_program(head.name)),
            "sched_process_fork" => {
                let process = number(value(arguments, "child_pid=")?)?;
                Some(Record { kind: kind::FORK, process, auxiliary: head.process, ..record })
            }
            "sched_process_exit" => self.exit(&head, arguments, record),
            "signal_generate" if value(arguments, "sig=")? == "9" => kill(&head, arguments, record),
            "mark_victim" => kill(&head, arguments, Record { flags: flag::OOM_KILL, ..record }),
            _ => None,
        }
    }

    /// Records a request when it is issued for the first time. A busy device sends it back, and the kernel issues it
    /// again.
    fn block_request(&mut self, arguments: &str, record: Record) -> Option<Record> {
        let request = Request::parse(arguments)?;
        remember(&mut self.issued, request.key());
        (!self.requeued.remove(&request.key())).then(|| Record {
            kind: kind::BLOCK,
            address: request.sector,
            object: request.sectors * 512,
            device: request.device,
            flags: request.flags(),
            pages: 0,
            ..record
        })
    }

    fn exit(&mut self, head: &Head, arguments: &str, record: Record) -> Option<Record> {
        // Before Linux 6.15 the line does not show whether the process ends with its thread.
        let is_last = match value(arguments, "group_dead=") {
            Some(text) => text == "true",
            None => head.thread == head.process,
        };
        self.faults.remove(&head.thread);
        is_last.then_some(Record { kind: kind::EXIT, ..record })
    }

    fn begin_fault(&mut self, head: &Head, arguments: &str, is_in_kernel: bool) -> Option<Record> {
        let text = value(arguments, "address=")?;
        let address = u64::from_str_radix(text.trim_start_matches("0x"), 16).ok()?;
        if self.faults.len() >= FAULTS_MAX {
            self.faults.clear();
        }
        let fault = Fault { address, time_ns: head.time_ns, reads_device: false, is_in_kernel };
        self.faults.insert(head.thread, fault);
        None
    }

    /// Records a swap-in if the task's own pages in swap became fewer while its last fault was open.
    fn swap_in(&mut self, head: &Head, arguments: &str, record: Record) -> Option<Record> {
        if value(arguments, "type=")? != "MM_SWAPENTS" || value(arguments, "curr=")? != "1" {
            return None;
        }
        let memory = value(arguments, "mm_id=")?.parse().ok()?;
        let bytes: i64 = value(arguments, "size=")?.trim_end_matches('B').parse().ok()?;
        let before = self.swapped.insert(memory, bytes);
        if before.is_some_and(|before| before <= bytes) {
            return None;
        }
        let fault = self.faults.remove(&head.thread)?;
        let duration = head.time_ns.saturating_sub(fault.time_ns);
        let in_kernel = if fault.is_in_kernel { flag::IN_KERNEL } else { 0 };
        let major = if fault.reads_device { flag::MAJOR } else { 0 };
        Some(Record {
            kind: kind::SWAP_IN,
            address: fault.address >> 12,
            auxiliary: u32::try_from(duration).unwrap_or(u32::MAX),
            flags: in_kernel | major,
            ..record
        })
    }

    fn transfer(&mut self, head: &Head, arguments: &str, record: Record) -> Option<Record> {
        let request = Request::parse(arguments)?;
        let object = self.slots.entry(request.device, request.sector * 512)?;
        let kind = match request.flags() {
            0 => kind::SWAP_READ,
            flag::WRITES => kind::SWAP_WRITE,
            _ => return None,
        };
        if kind == kind::SWAP_READ
            && let Some(fault) = self.faults.get_mut(&head.thread)
        {
            fault.reads_device = true;
        }
        let pages = u16::try_from(request.sectors / 8).unwrap_or(u16::MAX);
        Some(Record { kind, object, device: request.device, pages, ..record })
    }
}

/// Splits a line after the event. If the kernel does not know the process, the thread ID stands for it.
fn head(line: &str) -> Option<(Head<'_>, &str)> {
    // A name may contain anything; the text after it does not contain " [".
    let (task, rest) = line.rsplit_once("] ").filter(|(task, _)| task.contains(" ["))?;
    let (task, rest) = match rest.split_once(": ") {
        Some(_) if is_cpu(task) => (task, rest),
        // The arguments have the same form, so search from the front.
        _ => line.match_indices("] ").find_map(|(at, _)| {
            let (task, rest) = (&line[..at], &line[at + 2..]);
            is_cpu(task).then_some((task, rest))
        })?,
    };
    let task = task.rsplit_once(" [")?.0.trim_end();
    let (task, process) = match task.rsplit_once('(') {
        Some((before, group)) if group.ends_with(')') => {
            (before.trim_end(), group.trim_end_matches(')').trim())
        }
        _ => (task, ""),
    };
    let (name, thread) = task.rsplit_once('-')?;
    let thread = thread.trim().parse().ok()?;
    let mut words = rest.splitn(2, ": ");
    let time = words.next()?.rsplit(' ').next()?;
    let (event, arguments) = words.next()?.split_once(": ")?;
    let (seconds, fraction) = time.split_once('.')?;
    let nanoseconds = format!("{fraction:0<9}").parse::<u64>().ok()?;
    let head = Head {
        name: name.trim_start(),
        thread,
        process: process.parse().unwrap_or(thread),
        time_ns: seconds
            .parse::<u64>()
            .ok()?
            .checked_mul(1_000_000_000)?
            .checked_add(nanoseconds)?,
        event,
    };
    Some((head, arguments))
}

/// Whether the text ends with an opening bracket and the number of a processor.
fn is_cpu(task: &str) -> bool {
    task.rsplit_once('[')
        .is_some_and(|(_, cpu)| !cpu.is_empty() && cpu.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The rest of the word that begins with `key`.
fn value<'line>(arguments: &'line str, key: &str) -> Option<&'line str> {
    let word = |word: &'line str| word.strip_prefix(key);
    arguments.split(' ').find_map(word)
}

fn number(text: &str) -> Option<u32> {
    text.parse().ok()
}

/// `254,0 WS [4096 ()] 1234 + 8 [...]`: a request as block events print it.
struct Request<'line> {
    device: u32,
    operation: &'line str,
    sector: u64,
    sectors: u64,
}

impl Request<'_> {
    fn parse(arguments: &str) -> Option<Request<'_>> {
        let (ahead, behind) = arguments.split_once(" + ")?;
        let mut words = ahead.split(' ');
        let (major, minor) = words.next()?.split_once(',')?;
        let operation = words.next()?;
        Some(Request {
            device: device_number(number(major)?, number(minor)?),
            operation,
            sector: words.next_back()?.parse().ok()?,
            sectors: behind.split(' ').next()?.parse().ok()?,
        })
    }

    /// What tells a request from others that are on their way.
    fn key(&self) -> (u32, u64) {
        (self.device, self.sector)
    }

    /// Flags of a `BLOCK` record.
    fn flags(&self) -> u8 {
        match self.operation.trim_start_matches('F').bytes().next() {
            Some(b'R') => 0,
            Some(b'W') => flag::WRITES,
            _ => flag::IS_OTHER,
        }
    }
}

fn remember(requests: &mut HashSet<(u32, u64)>, key: (u32, u64)) {
    if requests.len() >= REQUESTS_MAX {
        requests.clear();
    }
    requests.insert(key);
}

fn page_out(head: &Head, arguments: &str, record: Record) -> Option<Record> {
    let is_anonymous = arguments.contains("RECLAIM_WB_ANON");
    let (kind, flags) = (kind::PAGE_OUT, flag::NO_OWNER);
    let record = Record { kind, flags, process: 0, auxiliary: head.process, ..record };
    is_anonymous.then_some(record)
}

fn kill(head: &Head, arguments: &str, record: Record) -> Option<Record> {
    let process = number(value(arguments, "pid=")?)?;
    Some(Record { kind: kind::KILL, process, auxiliary: head.process, ..record })
}

/// `dev 254:0 ino a3601c pfn=0x4b0b4d ofs=3575808 order=0`.
fn file_pages(arguments: &str, kind: u8, record: Record) -> Option<Record> {
    let mut words = arguments.split(' ');
    let (major, minor) = words.nth(1)?.split_once(':')?;
    let inode = u64::from_str_radix(words.nth(1)?, 16).ok()?;
    let byte: u64 = value(arguments, "ofs=")?.parse().ok()?;
    let order: u32 = value(arguments, "order=").and_then(|order| order.parse().ok()).unwrap_or(0);
    Some(Record {
        kind,
        address: byte / 4096,
        object: inode,
        device: device_number(number(major)?, number(minor)?),
        pages: 1 << order.min(15),
        ..record
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(text: &str) -> Vec<Record> {
        let mut lines = Lines::default();
        text.lines().filter_map(|line| lines.record(line)).collect()
    }

    #[test]
    fn a_fall_of_swapped_pages_after_a_fault_is_a_swap_in() {
        let found = records(
            "  a b) Z (-12   (     10) [001] d....     7.000010: page_fault_user: address=0x7f0000002018 ip=0x1 error_code=0x6\n\
             \x20 a b) Z (-12   (     10) [001] .....     7.000040: rss_stat: mm_id=5 curr=1 type=MM_SWAPENTS size=8192B\n\
             \x20 a b) Z (-12   (     10) [001] d....     7.000050: page_fault_user: address=0x7f0000003018 ip=0x1 error_code=0x6\n\
             \x20 a b) Z (-12   (     10) [001] .....     7.000060: rss_stat: mm_id=5 curr=1 type=MM_SWAPENTS size=12288B\n",
        );
        assert_eq!(found.len(), 1);
        let expected = Record {
            time_ns: 7_000_040_000,
            address: 0x7_f000_0002,
            process: 10,
            auxiliary: 30_000,
            pages: 1,
            kind: kind::SWAP_IN,
            ..Record::default()
        };
        assert_eq!(found[0], expected);
    }

    #[test]
    fn block_requests_files_and_processes_are_read() {
        let found = records(
            " sync-169 (  169) [000] .....  1.5: block_rq_issue: 254,0 FWS 16384 () 800 + 32 be,0,4 [sh] x]\n\
             \x20agent-15 (-------) [001] .....  1.6: mm_filemap_add_to_page_cache: dev 254:0 ino a3 pfn=0x4b ofs=8192 order=2\n\
             \x20sh-9 (  9) [001] .....  1.7: sched_process_exec: filename=/usr/bin/sh pid=9 old_pid=9\n\
             \x20sh-9 (  9) [001] .....  1.8: sched_process_fork: comm=sh pid=9 child_comm=sh child_pid=11\n\
             \x20sh-9 (  9) [001] d..1.  1.9: signal_generate: sig=9 errno=0 code=0 comm=sh pid=11 grp=1 res=0\n\
             \x20sh-9 (  9) [001] .....  2.0: sched_process_exit: comm=sh pid=9 prio=120 group_dead=true\n\
             \x20kswapd0-40 (  40) [001] .....  2.1: mm_vmscan_write_folio: page=0x1 pfn=0x2 flags=RECLAIM_WB_ANON|RECLAIM_WB_ASYNC\n\
             CPU:1 [LOST 12 EVENTS]\n",
        );
        let brief: Vec<_> =
            found.iter().map(|record| (record.kind, record.process, record.address)).collect();
        let name = u64::from(u16::from_le_bytes(*b"sh"));
        assert_eq!(
            brief,
            [
                (kind::BLOCK, 169, 800),
                (kind::FILE_ADDED, 15, 2),
                (kind::EXEC, 9, name),
                (kind::FORK, 11, 0),
                (kind::KILL, 11, 0),
                (kind::EXIT, 9, 0),
                (kind::PAGE_OUT, 0, 0),
            ]
        );
        assert_eq!((found[0].flags, found[0].object), (flag::WRITES, 32 * 512));
        assert_eq!((found[1].object, found[1].device, found[1].pages), (0xa3, 254 << 20, 4));
    }

    #[test]
    fn a_request_that_a_busy_device_sends_back_is_recorded_once() {
        let issue = |sector| {
            format!(
                " sh-9 (  9) [000] .....  1.5: block_rq_issue: 254,0 R 4096 () {sector} + 8 be,0,4 [sh]\n"
            )
        };
        let back =
            " sh-9 (  9) [000] .....  1.6: block_rq_requeue: 254,0 R () 800 + 8 be,0,4 [0]\n";
        let sectors = |lines: &[&str]| -> Vec<_> {
            records(&lines.concat()).iter().map(|found| found.address).collect()
        };
        let (here, there) = (issue(800), issue(808));
        assert_eq!(sectors(&[&here, back, &there, &here, &here]), [800, 808, 800]);
        // It was sent back before it was issued.
        assert_eq!(sectors(&[back, &here, &there]), [800, 808]);
    }

    #[test]
    fn a_damaged_line_gives_no_record() {
        let line =
            " sh-9 (  9) [001] d..1.  1.9: signal_generate: sig=9 errno=0 code=0 comm=sh pid=11 ";
        for end in 0..line.len() - 12 {
            assert_eq!(records(&line[..end]), [], "{end}");
        }
    }
}
