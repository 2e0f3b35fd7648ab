//! Layout of a `.pwf` file, and what it says beside its steps.
//!
//! | bytes | what |
//! |---|---|
//! | 6 | [`MAGIC`] |
//! | 2 | [`VERSION`] |
//! | 4 | length of the frame that follows |
//! | 4 | checksum of the offset of that length in the file (u64) and of that length (crate::checksum) |
//! | as many, and so on to the end | a zstd frame with a checksum |
//!
//! All numbers are little endian. The first byte of an unpacked frame says what it is: `ORIGIN`, the
//! first, followed by [`Origin`] as JSON; `STEPS` (see `frame`); or `END`, followed by [`Ending`] as
//! JSON, after which nothing comes. A file without `END` was cut, and is read up to its last whole
//! frame. Files of `VERSION_UNCHECKED` have no checksum of lengths, and their origin as bare JSON behind its length.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use types::{BLOCK_BYTES, FILTER_BLOCKS, ReferenceTotals};

/// First bytes of the file.
pub const MAGIC: &[u8; 6] = b"PWREFS";

/// Version of the layout.
pub(super) const VERSION: u16 = 2;

/// The version before it, which is read.
pub(super) const VERSION_UNCHECKED: u16 = 1;

/// First byte of the first frame.
pub(super) const ORIGIN: u8 = b'O';

/// First byte of a frame with steps.
pub(super) const STEPS: u8 = b'S';

/// First byte of the last frame.
pub(super) const END: u8 = b'E';

/// Most bytes of the origin: a command line is shorter.
pub(super) const ORIGIN_BYTES_MAX: usize = 4 << 20;

/// Where a trace comes from, known before its first reference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Origin {
    /// The pagewise that wrote it.
    pub pagewise: String,
    /// `capture`, or the catalog name of the format that it was imported from.
    pub format: String,
    /// The captured command, or the imported file.
    pub command: Vec<String>,
    /// The processor that the captured program is made for, as QEMU names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// Whether a capture kept every thread, or the first alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follows_threads: Option<bool>,
    /// Bytes of a block of the filter.
    pub block_bytes: u64,
    /// Blocks that the filter holds.
    pub filter_blocks: usize,
}

impl Origin {
    /// An origin of this pagewise.
    pub fn new(format: &str, command: Vec<String>) -> Origin {
        Origin {
            pagewise: env!("CARGO_PKG_VERSION").to_owned(),
            format: format.to_owned(),
            command,
            architecture: None,
            follows_threads: None,
            block_bytes: BLOCK_BYTES,
            filter_blocks: FILTER_BLOCKS,
        }
    }
}

/// Why a trace ends where it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Stop {
    /// There was no more.
    End,
    /// It has as many references as were asked for.
    Limit,
    /// Whoever captured it stopped it.
    Interrupt,
    /// The captured program closed what its references went through.
    Closed,
}

/// What a captured program started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "StartedProcesses")]
pub struct Processes {
    /// Threads, the first one included.
    pub threads: u32,
    /// Child processes; none of them is followed.
    pub children: u32,
    /// Other programs in its own place (execve); none of them is followed.
    pub programs: u32,
}

/// What is known once a trace is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ending {
    /// Instructions fetched.
    pub instructions: u64,
    /// Data read.
    pub reads: u64,
    /// Data written, or read and written by one instruction.
    pub writes: u64,
    /// Why it ends.
    pub stop: Stop,
    /// What a captured program started; none of an imported trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<Processes>,
    /// Exit status of a captured program that came to its end by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_status: Option<i32>,
    /// Number of the signal that ended a captured program, where the capture did not end it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
}

impl Ending {
    /// The end of a trace with so many references.
    pub fn new(totals: ReferenceTotals, stop: Stop, processes: Option<Processes>) -> Ending {
        let ReferenceTotals { instructions, reads, writes } = totals;
        let (exit_status, signal) = (None, None);
        Ending { instructions, reads, writes, stop, processes, exit_status, signal }
    }

    /// The same of a program whose parent was told this status: a signal's is its number below 0.
    pub fn with_status(self, status: i32) -> Ending {
        if status < 0 {
            Ending { signal: Some(-status), ..self }
        } else {
            Ending { exit_status: Some(status), ..self }
        }
    }

    /// How many references there are.
    pub fn totals(&self) -> ReferenceTotals {
        let Ending { instructions, reads, writes, .. } = *self;
        ReferenceTotals { instructions, reads, writes }
    }
}
