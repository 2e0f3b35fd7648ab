//! What readers of foreign formats yield: one record per event of the recording, before requests
//! are split into pages and pages are numbered.

use serde::{Deserialize, Serialize};
use types::{EventFlags, ProcessId};

use crate::ledger::Ledger;
use crate::{Error, TraceKind};

/// What a record says was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A block-layer or cache read.
    Read,
    /// A block-layer or cache write.
    Write,
    /// The device was told that data is no longer needed.
    Discard,
    /// The device was told to make writes durable, or something else without data.
    Flush,
    /// A command that is neither read nor write, such as an ioctl's.
    Passthrough,
    /// An anonymous page left memory.
    SwapOut,
    /// A fault brought an anonymous page back.
    SwapIn,
    /// A file page left memory.
    Evict,
    /// A file page was asked for.
    Request,
    /// A process ended.
    Exit,
    /// The device read a page ahead of its fault.
    DeviceRead,
    /// The device wrote a page.
    DeviceWrite,
}

/// Where in its way through the block layer a request was recorded. One request usually appears at
/// several stages, and must be counted at one.
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
    /// Nanoseconds on the recording's clock; 0 where it has none.
    pub time_ns: i64,
    /// Where: in the unit that the reader's `Traits` name.
    pub address: u64,
    /// Bytes asked for; 0 where the recording has no sizes.
    pub bytes: u64,
    /// How long it took, in nanoseconds; 0 where unknown.
    pub duration_ns: u64,
    /// Owner of the page, or issuer of the request.
    pub process: ProcessId,
    /// Number of the device in the ledger; 0 for pages and objects.
    pub device: u32,
    /// What was done.
    pub operation: Operation,
    /// Where it was recorded.
    pub stage: Stage,
    /// What is known about the page.
    pub flags: EventFlags,
}

impl Record {
    /// A record of `operation` on `address`, of the only stage, everything else unknown.
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

/// What `Record::address` counts.
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
    /// Every record is one access to the object that its id names.
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

/// What holds for every record of one recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traits {
    /// What addresses count.
    pub address: AddressUnit,
    /// How records become events unless the caller says otherwise.
    pub mapping: Mapping,
    /// Whether records carry a time.
    pub has_clock: bool,
    /// Whether records tell reads from writes.
    pub has_operations: bool,
    /// Whether records carry a size.
    pub has_sizes: bool,
    /// Whether records carry a duration.
    pub has_durations: bool,
    /// Whether one request may have a record at each of several stages.
    pub has_stages: bool,
}

impl Traits {
    /// Of recordings of block requests as the kernel traces them.
    pub const BLOCK_EVENTS: Traits = Traits {
        address: AddressUnit::Sector,
        mapping: Mapping::Block,
        has_clock: true,
        has_operations: true,
        has_sizes: true,
        has_durations: false,
        has_stages: true,
    };

    /// Of pages that leave memory and come back.
    pub const PAGE_EVENTS: Traits = Traits {
        address: AddressUnit::Page,
        mapping: Mapping::Swap,
        has_clock: true,
        has_operations: true,
        has_sizes: false,
        has_durations: false,
        has_stages: false,
    };

    /// Of bare names of objects.
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

/// Yields the records of one file in its own order.
pub trait RecordReader: Send {
    /// Appends the next records, a bounded number, and books names, rejects and losses in `ledger`.
    /// False at the end; true may come with nothing appended.
    ///
    /// # Errors
    /// What could not be read, with file and position.
    fn read(&mut self, records: &mut Vec<Record>, ledger: &mut Ledger) -> Result<bool, Error>;

    /// What holds for every record.
    fn traits(&self) -> Traits;

    /// The short way to its accesses, where each record is one access to the object it names. None
    /// where records have to be looked at.
    fn ids(&mut self) -> Option<&mut dyn IdReader> {
        None
    }
}

/// Yields what the accesses of one file go to and nothing else; not to be mixed with
/// [`RecordReader::read`].
pub trait IdReader {
    /// Appends the ids of the next accesses, a bounded number, and counts them in `ledger`. False
    /// at the end.
    ///
    /// # Errors
    /// As [`RecordReader::read`].
    fn read_ids(&mut self, ids: &mut Vec<u64>, ledger: &mut Ledger) -> Result<bool, Error>;
}
