//! What the events of the BPF recorder mean, whichever file they are stored in.
//!
//! Device traffic names swap slots, not pages: the owner of a slot is the page that was last
//! written out to it. The kernel queues the write before it reports the page-out (pageout in
//! mm/vmscan.c, Linux 6.18), so a write waits for the page-out of its slot; only what zswap writes
//! back comes long after it. A device read inside a page fault of that owner is the fault's own read,
//! which the fault event stands for; every other read is readahead.
//!
//! A page that went out as zeros comes back as zeros, and again if it leaves unmodified, until it goes
//! out as anything else. The pages of a child that a fork made are not followed.

use std::collections::{HashMap, HashSet};

use types::{EventFlags, ProcessId};

use crate::ledger::Ledger;
use crate::record::{Operation, Record, Traits};
use crate::recording::{self, flag, kind};

/// Turns recorded events into records, in the order in which they happened.
#[derive(Default)]
pub(super) struct SwapEvents {
    /// The page that each swap slot holds.
    owners: HashMap<u64, Owner>,
    /// Slots whose write was queued and whose page-out was not reported yet.
    queued: HashSet<u64>,
    /// Pages of each process that went out as zeros last.
    zeros: HashMap<ProcessId, HashSet<u64>>,
    /// Whether the recorder marked page-outs of zeros, and how many pages it did.
    knows_zeros: bool,
    zero_outs: u64,
}

#[derive(Clone, Copy)]
struct Owner {
    process: ProcessId,
    page: u64,
    /// Whether the device was told to write it.
    is_written: bool,
}

impl SwapEvents {
    /// What holds for every record.
    pub(super) const TRAITS: Traits = Traits { has_durations: true, ..Traits::PAGE_EVENTS };

    /// Says that page-outs of zeros are marked.
    pub(super) fn know_zeros(&mut self) {
        self.knows_zeros = true;
    }

    /// How many times a page went out as zeros.
    pub(super) fn zero_outs(&self) -> u64 {
        self.zero_outs
    }

    /// Appends what an event records, if it is one that a swap trace keeps.
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

    /// Remembers whether a page went out as zeros.
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
                ledger.lose("device reads of slots written before the recording began", 1);
                continue;
            };
            // After a fork the child faults on the page that its parent wrote out, at the parent's
            // address: the address decides, not the process.
            if !is_in_fault || raw.address != owner.page {
                records.push(record(Operation::DeviceRead, owner.process, owner.page));
            }
        }
    }
}

/// Keeps who is who, whatever the recording is read as.
pub(super) fn know_process(raw: &recording::Record, ledger: &mut Ledger) {
    match raw.kind {
        kind::EXEC => {
            let process = ledger.process(raw.process);
            ledger.name_process(process, &raw.program());
        }
        // Pages of a process still leave memory after its first thread has exited; only a fork makes
        // its pid another process.
        kind::FORK => ledger.end_process(raw.process),
        _ => {}
    }
}

/// A page enters or leaves the page cache.
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

/// Counts an event under the name that `pagewise info` gives it: pages where it moves pages.
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
        other => return ledger.see(format!("kind_{other}").as_bytes(), 1),
    };
    let is_of_pages = raw.kind <= kind::FILE_ADDED || raw.kind == kind::FILE_DROPPED;
    ledger.see(name, if is_of_pages { pages(raw) } else { 1 });
}

/// Pages of one event; recordings without the number have one.
fn pages(raw: &recording::Record) -> u64 {
    u64::from(raw.pages.max(1))
}

/// The swap slots of a transfer, which lie one behind the other.
pub(super) fn slots(raw: &recording::Record) -> impl Iterator<Item = u64> {
    let first = raw.object;
    (0..pages(raw)).map(move |place| first.wrapping_add(place))
}

/// `flags` where it is so, none otherwise.
fn set(is_so: bool, flags: EventFlags) -> EventFlags {
    if is_so { flags } else { EventFlags::default() }
}

fn record(operation: Operation, process: ProcessId, page: u64) -> Record {
    Record { process, ..Record::new(operation, page) }
}
