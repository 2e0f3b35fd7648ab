//! Goes through what a swap server decided, in the order in which it decided it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use types::Progress;

use super::{About, Reader, Record, RecordingBlock, ServedTiers, kind, read_about};
use crate::input::{Input, Meter};
use crate::{Error, ErrorKind};

/// What happened to a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotEvent {
    /// The kernel wrote the slot.
    Out,
    /// The kernel read the slot.
    In,
    /// The kernel discarded the slot.
    Void,
}

/// An item that [`walk`] reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The policy was asked about a slot.
    Event {
        /// What happened to the slot.
        event: SlotEvent,
        /// The slot.
        slot: u64,
    },
    /// The policy got another number of frames.
    Capacity {
        /// Number of the event before which it took effect, counted from 0.
        event: u64,
        /// The frames.
        frames: u64,
    },
    /// A move ended.
    Ended {
        /// Number of the event that decided it, counted from 0.
        event: u64,
        /// The slot.
        slot: u64,
        /// The step, by its place in `policy::tiers::Step::ALL`.
        step: u32,
        /// Whether the move was done; if not, it failed.
        is_done: bool,
    },
}

impl Found {
    fn of(record: &Record) -> Option<Found> {
        let slot = record.object;
        let event = match record.kind {
            kind::SWAP_WRITE => SlotEvent::Out,
            kind::SWAP_READ => SlotEvent::In,
            kind::SLOT_VOID => SlotEvent::Void,
            kind::CAPACITY => {
                return Some(Found::Capacity { event: record.address, frames: record.object });
            }
            kind::MOVE_DONE | kind::MOVE_FAILED => {
                let (event, step) = (record.address, record.auxiliary);
                return Some(Found::Ended {
                    event,
                    slot,
                    step,
                    is_done: record.kind == kind::MOVE_DONE,
                });
            }
            _ => return None,
        };
        Some(Found::Event { event, slot })
    }
}

/// A recording of a swap server.
pub struct Decisions {
    path: PathBuf,
    about: About,
    reader: Reader,
    meter: Arc<Meter>,
    total: u64,
}

impl Decisions {
    /// Opens the recording at `path` and reads its head.
    ///
    /// # Errors
    /// `UnknownFormat` if the file is no recording of `pagewise-agent swapd --record`; `Io` if the operating
    /// system refuses the read.
    pub fn open(path: &Path) -> Result<Decisions, Error> {
        let input = Input::open(path, false)?;
        let (meter, total) = (input.meter(), input.file_bytes());
        let begun = read_about(input)?.filter(|(about, _)| about.tiers.is_some());
        let (about, reader) = begun.ok_or_else(|| {
            let expected = "expected a recording of `pagewise-agent swapd --record`";
            Error::new(ErrorKind::UnknownFormat, path, expected)
        })?;
        Ok(Decisions { path: path.to_owned(), about, reader, meter, total })
    }

    /// The tiers of the server.
    pub fn tiers(&self) -> &ServedTiers {
        self.about.tiers.as_ref().expect("a recording without tiers is not opened")
    }

    /// Reports every item in the order of the file. Returns whether the end of the recording is missing.
    ///
    /// # Errors
    /// `Corrupt` with the offset if the file violates the format; `Cancelled` if `progress` asks to stop; `Io`
    /// if the operating system refuses the read; errors of `take`.
    pub fn walk<E: From<Error>>(
        mut self,
        progress: &dyn Progress,
        take: &mut dyn FnMut(Found) -> Result<(), E>,
    ) -> Result<bool, E> {
        let mut is_cut = true;
        while let Some(block) = self.reader.read_block()? {
            match block {
                RecordingBlock::Records(records) => {
                    records.iter().filter_map(Found::of).try_for_each(&mut *take)?;
                }
                RecordingBlock::Ending(_) => is_cut = false,
                _ => {}
            }
            let advanced = progress.advance(self.meter.bytes(), self.total);
            advanced.map_err(|_| Error::cancelled(&self.path))?;
        }
        Ok(is_cut)
    }
}
