//! Interprets the events of the BPF recorder, for every file format that stores them.
//!
//! Device traffic names swap slots, not pages. The owner of a slot is the page last swapped out to it.
//! The kernel queues the write before it reports the page-out (pageout in mm/vmscan.c, Linux 6.18), so
//! a write waits for the page-out of its slot; only writebacks of zswap come long after it. A device
//! read during a page fault of the owner belongs to the fault's own event; every other read is
//! readahead.
//!
//! A page swapped out as zeros returns as zeros, also after it leaves unmodified, until it is swapped out
//! with other contents. The pages of a forked child are not tracked.

use std::collections::{HashMap, HashSet};

use types::{EventFlags, ProcessId};

use crate::ledger::Ledger;
use crate::record::{Operation, Record, Traits};
use crate::recording::{self, flag, kind};

/// The loss of a read of a slot that was neither written nor swapped out to in the recording.
const FROM_BEFORE: &str = "device reads of slots written before the recording began";
/// The loss of a read of a slot that was written without a page-out. Recorders report only page-outs of
/// anonymous pages. zswap also writes pages that it took before the recording began.
const OF_SHARED_MEMORY: &str =
    "device reads of shared memory (MAP_SHARED, tmpfs), whose pages are not recorded";

/// Turns recorded events into records, in order.
#[derive(Default)]
pub(super) struct SwapEvents {
    /// The page that each swap slot holds.
    owners: HashMap<u64, Owner>,
    /// Slots with a queued write whose page-out is not yet reported.
    queued: HashSet<u64>,
    /// Pages of each process whose last page-out was zeros.
    zeros: HashMap<ProcessId, HashSet<u64>>,
    /// Whether the recorder marks page-outs of zeros, and the number of pages marked.
    knows_zeros: bool,
    zero_outs: u64,
}

#[derive(Clone, Copy)]
struct Owner {
    process: ProcessId,
    page: u64,
    /// Whether the device got a write of the page.
    is_written: bool,
}

impl SwapEvents {
    /// The traits of every record.
    pub(super) const TRAITS: Traits = Traits { has_durations: true, ..Traits::PAGE_EVENTS };

    /// Call this if the recorder marks page-outs of zeros.
    pub(super) fn know_zeros(&mut self) {
        self.knows_zeros = true;
    }

    /// Page-outs of zeros, in pages.
    pub(super) fn zero_outs(&self) -> u64 {
        self.zero_outs
    }

    /// Appends the records of an event, if a swap trace keeps it.
    pub(super) fn take(
        &mut self,
        time_ns: i64,
        raw: &recording::Record,
        records: &mut Vec<Record>,
        ledger: &mut Ledger,
    ) {
        see(raw, ledger);
        let taken = records.len();
        match raw.kind {
            kind::PAGE_OUT => self.page_out(raw, records, ledger),
            kind::SWAP_WRITE => self.swap_write(raw, records),
            kind::SWAP_READ => self.swap_read(raw, records, ledger),
            kind::SWAP_IN => {
                let process = ledger.process(raw.process);
                let is_major = raw.flags & flag::MAJOR != 0;
                let is_zero =
                    self.zeros.get(&process).is_some_and(|all| all.contains(&raw.address));
                let flags = set(is_major, EventFlags::MAJOR).with(set(is_zero, EventFlags::ZERO));
                let duration_ns = u64::from(raw.auxiliary);
                let record = record(Operation::SwapIn, process, raw.address);
                records.push(Record { duration_ns, flags, ..record });
            }
            kind::FILE_ADDED => file_pages(time_ns, Operation::Request, raw, records, ledger),
            kind::FILE_DROPPED => file_pages(time_ns, Operation::Evict, raw, records, ledger),
            kind::EXIT => {
                let process = ledger.process(raw.process);
                self.zeros.remove(&process);
                records.push(record(Operation::Exit, process, 0));
            }
            _ => know_process(raw, ledger),
        }
        records[taken..].iter_mut().for_each(|record| record.time_ns = time_ns);
    }

    fn page_out(
        &mut self,
        raw: &recording::Record,
        records: &mut Vec<Record>,
        ledger: &mut Ledger,
    ) {
        if raw.flags & flag::NO_OWNER != 0 {
            ledger.lose("page-outs whose owner the recorder did not find", pages(raw));
        }
        let process = ledger.process(raw.process);
        let is_zero = self.knows_zeros && raw.flags & flag::ZEROS != 0;
        let flags = EventFlags::DIRTY
            .with(set(raw.flags & flag::SHARED != 0, EventFlags::SHARED))
            .with(set(is_zero, EventFlags::ZERO));
        for place in 0..pages(raw) {
            let (slot, page) = (raw.object.wrapping_add(place), raw.address.wrapping_add(place));
            let is_written = self.queued.remove(&slot);
            self.owners.insert(slot, Owner { process, page, is_written });
            self.note_zero(process, page, is_zero);
            records.push(Record { flags, ..record(Operation::SwapOut, process, page) });
            if is_written {
                records.push(record(Operation::DeviceWrite, process, page));
            }
        }
    }

    /// Remembers whether a page was swapped out as zeros.
    fn note_zero(&mut self, process: ProcessId, page: u64, is_zero: bool) {
        if is_zero {
            self.zero_outs += 1;
            self.zeros.entry(process).or_default().insert(page);
        } else if let Some(zeros) = self.zeros.get_mut(&process) {
            zeros.remove(&page);
        }
    }

    fn swap_write(&mut self, raw: &recording::Record, records: &mut Vec<Record>) {
        for slot in slots(raw) {
            match self.owners.get_mut(&slot) {
                Some(owner) if !owner.is_written => {
                    owner.is_written = true;
                    records.push(record(Operation::DeviceWrite, owner.process, owner.page));
                }
                _ => {
                    self.queued.insert(slot);
                }
            }
        }
    }

    fn swap_read(
        &mut self,
        raw: &recording::Record,
        records: &mut Vec<Record>,
        ledger: &mut Ledger,
    ) {
        let is_in_fault = raw.flags & flag::IN_FAULT != 0;
        for slot in slots(raw) {
            let Some(owner) = self.owners.get(&slot) else {
                let was_written = self.queued.contains(&slot);
                ledger.lose(if was_written { OF_SHARED_MEMORY } else { FROM_BEFORE }, 1);
                continue;
            };
            // After a fork the child faults at the parent's address on a page that the parent swapped
            // out. Therefore the address decides, not the process.
            if !is_in_fault || raw.address != owner.page {
                records.push(record(Operation::DeviceRead, owner.process, owner.page));
            }
        }
    }
}

/// Keeps the names and ends of processes, for every kind of trace.
pub(super) fn know_process(raw: &recording::Record, ledger: &mut Ledger) {
    match raw.kind {
        kind::EXEC => {
            let process = ledger.process(raw.process);
            ledger.name_process(process, &raw.program());
        }
        // Pages of a process can leave memory after its first thread exits. Only a fork gives the pid to
        // another process.
        kind::FORK => ledger.end_process(raw.process),
        _ => {}
    }
}

/// Appends the file pages that enter or leave the page cache.
pub(super) fn file_pages(
    time_ns: i64,
    operation: Operation,
    raw: &recording::Record,
    records: &mut Vec<Record>,
    ledger: &mut Ledger,
) {
    let process = ledger.process(raw.process);
    for place in 0..pages(raw) {
        let page = raw.address.wrapping_add(place);
        match ledger.files.page(raw.device, raw.object, page) {
            Some((address, class)) => {
                let flags = EventFlags::FILE.with_class(class);
                records.push(Record { time_ns, flags, ..record(operation, process, address) });
            }
            None => ledger.lose("pages of files beyond the first million", 1),
        }
    }
}

/// Counts an event under its name in `pagewise info`; events that move pages count their pages.
pub(super) fn see(raw: &recording::Record, ledger: &mut Ledger) {
    let name: &[u8] = match raw.kind {
        kind::PAGE_OUT => b"page_out",
        kind::SWAP_WRITE => b"swap_write",
        kind::SWAP_READ => b"swap_read",
        kind::SWAP_IN => b"swap_in_fault",
        kind::FILE_ADDED => b"file_added",
        kind::FILE_DROPPED => b"file_dropped",
        kind::EXEC => b"exec",
        kind::EXIT => b"exit",
        kind::FORK => b"fork",
        kind::BLOCK if raw.flags & flag::IS_OTHER != 0 => b"block_other",
        kind::BLOCK if raw.flags & flag::WRITES != 0 => b"block_write",
        kind::BLOCK => b"block_read",
        kind::KILL if raw.flags & flag::OOM_KILL != 0 => b"oom_kill",
        kind::KILL => b"kill",
        kind::ALLOCATE => b"allocate",
        kind::FREE => b"free",
        kind::DISCARD => b"discard",
        kind::TOUCHED => b"touched",
        kind::SMALL => b"small_allocations",
        kind::USAGE => b"usage",
        kind::SLOT_VOID => b"slot_void",
        kind::MOVE_DONE => b"move_done",
        kind::MOVE_FAILED => b"move_failed",
        kind::CAPACITY => b"capacity",
        other => return ledger.see(format!("kind_{other}").as_bytes(), 1),
    };
    let is_of_pages = raw.kind <= kind::FILE_ADDED || raw.kind == kind::FILE_DROPPED;
    ledger.see(name, if is_of_pages { pages(raw) } else { 1 });
}

/// Pages of an event; 1 if the recording lacks the number.
fn pages(raw: &recording::Record) -> u64 {
    u64::from(raw.pages.max(1))
}

/// The swap slots of a transfer, which are consecutive.
pub(super) fn slots(raw: &recording::Record) -> impl Iterator<Item = u64> {
    let first = raw.object;
    (0..pages(raw)).map(move |place| first.wrapping_add(place))
}

/// `flags` if `is_set`, otherwise no flag.
fn set(is_set: bool, flags: EventFlags) -> EventFlags {
    if is_set { flags } else { EventFlags::default() }
}

fn record(operation: Operation, process: ProcessId, page: u64) -> Record {
    Record { process, ..Record::new(operation, page) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Loss;

    #[test]
    fn reads_of_shared_memory_are_distinguished_from_reads_of_earlier_pages() {
        let slot = |kind, object| recording::Record {
            kind,
            object,
            process: 5,
            pages: 1,
            ..recording::Record::default()
        };
        let (mut events, mut ledger, mut records) =
            (SwapEvents::default(), Ledger::new(false), Vec::new());
        for raw in [
            // The write of an anonymous page comes with its page-out, that of shared memory without one.
            slot(kind::SWAP_WRITE, 1),
            slot(kind::PAGE_OUT, 1),
            slot(kind::SWAP_WRITE, 2),
            slot(kind::SWAP_READ, 1),
            slot(kind::SWAP_READ, 2),
            slot(kind::SWAP_READ, 2),
            slot(kind::SWAP_READ, 3),
        ] {
            events.take(0, &raw, &mut records, &mut ledger);
        }
        let lost: Vec<_> =
            ledger.losses().into_iter().map(|Loss { what, count }| (what, count)).collect();
        assert_eq!(lost, [(OF_SHARED_MEMORY.to_owned(), 2), (FROM_BEFORE.to_owned(), 1)]);
        assert!(records.iter().any(|record| record.operation == Operation::DeviceRead));
    }
}
