//! Goes through the moments of a recording: memory and processes at instants, as a low-memory killer
//! sees them.

use std::path::Path;

use types::Progress;

use super::{About, RecordingBlock, flag, kind, read_about};
use crate::input::Input;
use crate::{Error, ErrorKind};

pub use super::moment::{Liveness, MemoryState, Moment, ProcessState, STUCK_AFTER_NS, Weight};

/// Name of the source whose recordings have moments.
pub const SOURCE: &str = "kills";

/// An item that [`walk`] reports.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    /// Memory and processes at an instant.
    Moment(Box<Moment>),
    /// A process got SIGKILL.
    Kill {
        /// CLOCK_MONOTONIC, in nanoseconds.
        time_ns: u64,
        /// Pid of the process.
        process: u32,
        /// Process or thread that sent the signal.
        sender: u32,
        /// Whether the kernel's OOM killer chose the process.
        is_of_kernel: bool,
    },
}

/// Reports the moments and kills of the recording at `path` in the order of the file: kills come
/// before the moment that follows them. Returns the description of the recording, and whether its end
/// is missing.
///
/// # Errors
/// `UnknownFormat` if the file is no recording of `pagewise-agent record --kills`; `Cancelled` if
/// `progress` asks to stop; `Io` if the operating system refuses the read.
pub fn walk(
    path: &Path,
    progress: &dyn Progress,
    take: &mut dyn FnMut(Found),
) -> Result<(About, bool), Error> {
    let input = Input::open(path, false)?;
    let (meter, total) = (input.meter(), input.file_bytes());
    let begun = read_about(input)?;
    let begun = begun.filter(|(about, _)| about.sources.iter().any(|name| name == SOURCE));
    let (about, mut reader) = begun.ok_or_else(|| {
        let expected =
            "expected a recording with kills, as `pagewise-agent record --kills` writes it; for a system trace, such as Perfetto's: pagewise kills FILE";
        Error::new(ErrorKind::UnknownFormat, path, expected)
    })?;
    let mut is_cut = true;
    while let Some(block) = reader.read_block()? {
        match block {
            RecordingBlock::Moment(moment) => take(Found::Moment(Box::new(moment))),
            RecordingBlock::Records(records) => {
                records.iter().filter(|record| record.kind == kind::KILL).for_each(|record| {
                    take(Found::Kill {
                        time_ns: record.time_ns,
                        process: record.process,
                        sender: record.auxiliary,
                        is_of_kernel: record.flags & flag::OOM_KILL != 0,
                    });
                });
            }
            RecordingBlock::Ending(_) => is_cut = false,
            _ => {}
        }
        progress.advance(meter.bytes(), total).map_err(|_| Error::cancelled(path))?;
    }
    Ok((about, is_cut))
}
