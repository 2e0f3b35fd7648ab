//! The records of foreign formats: one per event of the recording, before requests are split into pages
//! and pages are numbered.

use serde::{Deserialize, Serialize};
use types::{EventFlags, ProcessId};

use crate::ledger::Ledger;
use crate::{Error, TraceKind};

/// The operation of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A block-layer or cache read.
    Read,
    /// A block-layer or cache write.
    Write,
    /// A discard: the device may drop the data.
    Discard,
    /// A flush, or another command without data.
    Flush,
    /// A command that is neither read nor write, such as that of an ioctl.
    Passthrough,
    /// An anonymous page left memory.
    SwapOut,
    /// A fault brought an anonymous page back.
    SwapIn,
    /// A file page left memory.
    Evict,
    /// A fault or read asked for a file page that was not in memory.
    Request,
    /// A process ended.
    Exit,
    /// The device read a page ahead of its fault.
    DeviceRead,
    /// The device wrote a page.
    DeviceWrite,
    /// The slot of an anonymous page was discarded.
    Void,
}

/// Stage of the block layer at which a request was recorded. A request usually appears at several stages
/// and must be counted at only one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The recording has one record per access.
    Only,
    /// Sent to the device (block_rq_issue, action D).
    Issue,
    /// Handed to the block layer (block_bio_queue, action Q).
    Queue,
    /// Finished (block_rq_complete, action C).
    Complete,
}

/// One event of a recording.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// Nanoseconds on the recording's clock; 0 without a clock.
    pub time_ns: i64,
    /// Address, in the unit of the reader's `Traits`.
    pub address: u64,
    /// Requested bytes; 0 if the recording has no sizes.
    pub bytes: u64,
    /// Duration in nanoseconds; 0 if unknown.
    pub duration_ns: u64,
    /// Owner of the page, or issuer of the request.
    pub process: ProcessId,
    /// Number of the device in the ledger; 0 for pages and objects.
    pub device: u32,
    /// Operation of the event.
    pub operation: Operation,
    /// Stage at which the request was recorded.
    pub stage: Stage,
    /// Facts about the page.
    pub flags: EventFlags,
}

impl Record {
    /// A record of `operation` on `address` without stages, everything else unknown.
    pub const fn new(operation: Operation, address: u64) -> Record {
        Record {
            time_ns: 0,
            address,
            bytes: 0,
            duration_ns: 0,
            process: ProcessId(0),
            device: 0,
            operation,
            stage: Stage::Only,
            flags: EventFlags(0),
        }
    }
}

/// The unit of `Record::address`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressUnit {
    /// 512-byte sectors of a device.
    Sector,
    /// Bytes of a device.
    Byte,
    /// Pages of a process or file.
    Page,
    /// Names of objects.
    Id,
}

/// How records become events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mapping {
    /// Pages that leave memory and come back; a block read is a swap-in, a write a dirty swap-out.
    Swap,
    /// Every request is split into the 4 KiB blocks that it touches.
    Block,
    /// Every record is an access to the object that its id names.
    Objects,
}

impl Mapping {
    /// Every mapping with its name on the command line.
    pub const ALL: [(&'static str, Mapping); 3] =
        [("swap", Mapping::Swap), ("block", Mapping::Block), ("objects", Mapping::Objects)];

    /// What the pages of a trace with this mapping are.
    pub const fn kind(self) -> TraceKind {
        match self {
            Mapping::Swap => TraceKind::Swap,
            Mapping::Block => TraceKind::Block,
            Mapping::Objects => TraceKind::Objects,
        }
    }
}

/// Properties of every record of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traits {
    /// Unit of the addresses.
    pub address: AddressUnit,
    /// The mapping by default.
    pub mapping: Mapping,
    /// Whether records carry a time.
    pub has_clock: bool,
    /// Whether records distinguish reads and writes.
    pub has_operations: bool,
    /// Whether records carry a size.
    pub has_sizes: bool,
    /// Whether records carry a duration.
    pub has_durations: bool,
    /// Whether a request may have records at several stages.
    pub has_stages: bool,
}

impl Traits {
    /// Traits of block requests as the kernel traces them.
    pub const BLOCK_EVENTS: Traits = Traits {
        address: AddressUnit::Sector,
        mapping: Mapping::Block,
        has_clock: true,
        has_operations: true,
        has_sizes: true,
        has_durations: false,
        has_stages: true,
    };

    /// Traits of events of pages that leave memory and return.
    pub const PAGE_EVENTS: Traits = Traits {
        address: AddressUnit::Page,
        mapping: Mapping::Swap,
        has_clock: true,
        has_operations: true,
        has_sizes: false,
        has_durations: false,
        has_stages: false,
    };

    /// Traits of object ids without further fields.
    pub const BARE_IDS: Traits = Traits {
        address: AddressUnit::Id,
        mapping: Mapping::Objects,
        has_clock: false,
        has_operations: false,
        has_sizes: false,
        has_durations: false,
        has_stages: false,
    };
}

/// Reads the records of a file in its own order.
pub trait RecordReader: Send {
    /// Appends the next records, a bounded number, and adds names, rejects and losses to `ledger`.
    /// Returns false at the end; a call may append nothing and still return true.
    ///
    /// # Errors
    /// If the file cannot be read, with file and position.
    fn read(&mut self, records: &mut Vec<Record>, ledger: &mut Ledger) -> Result<bool, Error>;

    /// The traits of every record.
    fn traits(&self) -> Traits;

    /// A faster reader of the accesses, if each record is an access to the object it names; `None` if
    /// records must be decoded.
    fn ids(&mut self) -> Option<&mut dyn IdReader> {
        None
    }
}

/// Reads only the object ids of the accesses of a file. Do not mix it with [`RecordReader::read`].
pub trait IdReader {
    /// Appends the ids of the next accesses, a bounded number, and counts them in `ledger`. False
    /// at the end.
    ///
    /// # Errors
    /// Those of [`RecordReader::read`].
    fn read_ids(&mut self, ids: &mut Vec<u64>, ledger: &mut Ledger) -> Result<bool, Error>;
}
