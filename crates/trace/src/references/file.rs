//! Layout of a `.pwf` file, and its contents besides the steps.
//!
//! | bytes | what |
//! |---|---|
//! | 6 | [`MAGIC`] |
//! | 2 | [`VERSION`] |
//! | 4 | length of the frame that follows |
//! | 4 | checksum of the offset of that length in the file (u64) and of that length (crate::checksum) |
//! | that length | a zstd frame with a checksum; further frames follow, each with length and checksum |
//!
//! All numbers are little endian. The first byte of an unpacked frame is its kind: `ORIGIN`, the first
//! frame, followed by [`Origin`] as JSON; `STEPS` (see `frame`); `MAPPINGS` (see `mappings`), before the
//! steps that follow its changes; or `END`, the last frame, followed by
//! [`Ending`] as JSON. A file without `END` was cut, and is read up to its last complete frame. Files of
//! `VERSION_UNCHECKED` have no checksum of lengths, and their origin as plain JSON after its length.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use types::{BLOCK_BYTES, FILTER_BLOCKS, ReferenceTotals};

/// First bytes of the file.
pub const MAGIC: &[u8; 6] = b"PWREFS";

/// Smallest number of blocks of a filter: an instruction that reads and writes across two blocks must find both.
pub const FILTER_BLOCKS_MIN: usize = 4;

/// Version of the layout.
pub(super) const VERSION: u16 = 2;

/// The version before it, which can still be read.
pub(super) const VERSION_UNCHECKED: u16 = 1;

/// First byte of the first frame.
pub(super) const ORIGIN: u8 = b'O';

/// First byte of a frame with steps.
pub(super) const STEPS: u8 = b'S';

/// First byte of a frame with changes of mappings (see `mappings`).
pub(super) const MAPPINGS: u8 = b'M';

/// First byte of the last frame.
pub(super) const END: u8 = b'E';

/// Largest size of the origin: a command line is shorter.
pub(super) const ORIGIN_BYTES_MAX: usize = 4 << 20;

/// Origin of a trace, known before its first reference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Origin {
    /// Version of pagewise that wrote the trace.
    pub pagewise: String,
    /// `capture`, or the catalog name of the imported format.
    pub format: String,
    /// The captured command, or the imported file.
    pub command: Vec<String>,
    /// Processor architecture of the captured program, as QEMU names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// Whether a capture kept every thread, or only the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follows_threads: Option<bool>,
    /// Bytes of a block of the filter.
    pub block_bytes: u64,
    /// Blocks that the filter holds.
    pub filter_blocks: usize,
}

impl Origin {
    /// Name of the captured program, or of the imported file, without its folder.
    pub fn program(&self) -> &str {
        let first = self.command.first().map_or("", String::as_str);
        first.rsplit('/').find(|part| !part.is_empty()).unwrap_or(&self.format)
    }

    /// An origin with the version of this pagewise.
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

/// Why a trace ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Stop {
    /// The program or the imported file ended.
    End,
    /// The trace reached the requested number of references.
    Limit,
    /// The user stopped the capture.
    Interrupt,
    /// The captured program closed the pipe of the capture.
    Closed,
}

/// Threads and processes that a captured program started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "StartedProcesses")]
pub struct Processes {
    /// Threads, including the first.
    pub threads: u32,
    /// Child processes, which are not captured.
    pub children: u32,
    /// Programs that replaced it (execve), which are not captured.
    pub programs: u32,
}

/// Summary of a complete trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ending {
    /// Instructions fetched.
    pub instructions: u64,
    /// Data read.
    pub reads: u64,
    /// Data written, or modified by one instruction.
    pub writes: u64,
    /// Why the trace ends.
    pub stop: Stop,
    /// Threads and processes of a captured program; `None` in an imported trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<Processes>,
    /// Exit status of a captured program that exited by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_status: Option<i32>,
    /// Number of the signal that ended a captured program, unless the capture sent it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
}

impl Ending {
    /// The ending of a trace with these references.
    pub fn new(totals: ReferenceTotals, stop: Stop, processes: Option<Processes>) -> Ending {
        let ReferenceTotals { instructions, reads, writes } = totals;
        let (exit_status, signal) = (None, None);
        Ending { instructions, reads, writes, stop, processes, exit_status, signal }
    }

    /// Adds the wait status of the program: its exit status, or the negated number of its signal.
    pub fn with_status(self, status: i32) -> Ending {
        if status < 0 {
            Ending { signal: Some(-status), ..self }
        } else {
            Ending { exit_status: Some(status), ..self }
        }
    }

    /// References of the trace by kind.
    pub fn totals(&self) -> ReferenceTotals {
        let Ending { instructions, reads, writes, .. } = *self;
        ReferenceTotals { instructions, reads, writes }
    }
}
