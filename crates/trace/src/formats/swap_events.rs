//! What the events of the BPF recorder mean, whichever file they are stored in.
//!
//! Device traffic names swap slots, not pages: the owner of a slot is the page that was last
//! written out to it. The kernel queues the write before it reports the page-out (pageout in
//! mm/vmscan.c, Linux 6.18), so a write waits for the page-out of its slot; only what zswap writes
//! back comes long after it. A device read inside a page fault of that owner is the fault's own read,
//! which the fault event stands for; every other read is readahead.

use std::collections::{HashMap, HashSet};

use types::{EventFlags, ProcessId};

use crate::ledger::Ledger;
use crate::record::{AddressUnit, Mapping, Operation, Record, Traits};
use crate::recording::{self, flag, kind};

/// Turns recorded events into records, in the order in which they happened.
#[derive(Default)]
pub(super) struct SwapEvents {
    /// The page that each swap slot holds.
    owners: HashMap<u64, Owner>,
    /// Slots whose write was queued and whose page-out was not reported yet.
    queued: HashSet<u64>,
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
    pub(super) const TRAITS: Traits = Traits {
        address: AddressUnit::Page,
        mapping: Mapping::Swap,
        has_clock: true,
        has_operations: true,
        has_sizes: false,
        has_durations: true,
        has_stages: false,
    };

    /// Appends what an event records, if it is one that a trace keeps.
    pub(super) fn take(
        &mut self,
        time_ns: i64,
        raw: &recording::Record,
        records: &mut Vec<Record>,
        ledger: &mut Ledger,
    ) {
        let record = |operation, process, page, flags| Record {
            time_ns,
            process,
            flags,
            ..Record::new(operation, page)
        };
        let none = EventFlags::default();
        match raw.kind {
            kind::PAGE_OUT => {
                ledger.see(b"page-out", 1);
                if raw.flags & flag::NO_OWNER != 0 {
                    ledger.lose("page-outs whose owner the recorder did not find", 1);
                }
                let process = ledger.process(raw.process);
                let is_written = self.queued.remove(&raw.object);
                let owner = Owner { process, page: raw.address, is_written };
                self.owners.insert(raw.object, owner);
                let is_shared = raw.flags & flag::SHARED != 0;
                let shared = if is_shared { EventFlags::SHARED } else { none };
                let flags = EventFlags::DIRTY.with(shared);
                records.push(record(Operation::SwapOut, process, raw.address, flags));
                if is_written {
                    records.push(record(Operation::DeviceWrite, process, raw.address, none));
                }
            }
            kind::SWAP_WRITE => {
                ledger.see(b"device write", 1);
                match self.owners.get_mut(&raw.object) {
                    Some(owner) if !owner.is_written => {
                        owner.is_written = true;
                        let (process, page) = (owner.process, owner.page);
                        records.push(record(Operation::DeviceWrite, process, page, none));
                    }
                    _ => {
                        self.queued.insert(raw.object);
                    }
                }
            }
            kind::SWAP_READ => {
                ledger.see(b"device read", 1);
                let Some(owner) = self.owners.get(&raw.object) else {
                    ledger.lose("device reads of slots written before the recording began", 1);
                    return;
                };
                let is_in_fault = raw.flags & flag::IN_FAULT != 0;
                // After a fork the child faults on the page that its parent wrote out, at the
                // parent's address: the address decides, not the process.
                if !is_in_fault || raw.address != owner.page {
                    records.push(record(Operation::DeviceRead, owner.process, owner.page, none));
                }
            }
            kind::SWAP_IN => {
                ledger.see(b"swap-in fault", 1);
                let is_major = raw.flags & flag::MAJOR != 0;
                let flags = if is_major { EventFlags::MAJOR } else { none };
                let process = ledger.process(raw.process);
                let record = record(Operation::SwapIn, process, raw.address, flags);
                records.push(Record { duration_ns: u64::from(raw.auxiliary), ..record });
            }
            kind::EXEC => {
                ledger.see(b"exec", 1);
                let name = [raw.address.to_le_bytes(), raw.object.to_le_bytes()].concat();
                let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
                let process = ledger.process(raw.process);
                ledger.name_process(process, name);
            }
            kind::EXIT => {
                ledger.see(b"exit", 1);
                let process = ledger.process(raw.process);
                records.push(record(Operation::Exit, process, 0, none));
            }
            kind::FORK => {
                ledger.see(b"fork", 1);
                // Pages of a process still leave memory after its first thread has exited; only
                // a fork makes its pid another process.
                ledger.end_process(raw.process);
            }
            other => ledger.see(format!("type {other}").as_bytes(), 1),
        }
    }
}
