//! `recording`: what `pagewise-agent record` writes on the device (crate::recording has its layout).
//! `swap_events` says what its events mean.

use super::swap_events::SwapEvents;
use super::{Confidence, Format, ReadOptions};
use crate::Error;
use crate::input::Input;
use crate::ledger::Ledger;
use crate::record::{Record, RecordReader, Traits};
use crate::recording::{Block, MAGIC, read_block};

/// The row of this format.
pub const FORMAT: Format = Format {
    name: "recording",
    summary: "what pagewise-agent records on a device, by owner and address",
    has_columns: false,
    has_parts: false,
    sniff,
    open,
};

fn sniff(head: &[u8]) -> Confidence {
    Confidence::Certain.when(head.starts_with(&MAGIC))
}

fn open(mut input: Input, _options: &ReadOptions) -> Result<Box<dyn RecordReader>, Error> {
    input.skip(MAGIC.len() as u64)?;
    Ok(Box::new(Recording { input, meaning: SwapEvents::default(), has_ended: false }))
}

struct Recording {
    input: Input,
    meaning: SwapEvents,
    has_ended: bool,
}

impl RecordReader for Recording {
    fn read(&mut self, records: &mut Vec<Record>, ledger: &mut Ledger) -> Result<bool, Error> {
        let Some(block) = read_block(&mut self.input)? else {
            if !self.has_ended {
                ledger.lose("the end of the recording: the recorder was stopped before it", 1);
            }
            return Ok(false);
        };
        match block {
            Block::Records(raws) => {
                for raw in &raws {
                    self.meaning.take(raw.time_ns as i64, raw, records, ledger);
                }
            }
            Block::Ending(ending) => {
                self.has_ended = true;
                if ending.lost > 0 {
                    ledger.lose("events that found the recorder's buffer full", ending.lost);
                }
            }
            Block::CutShort(bytes) => ledger.lose("bytes of a block that was cut short", bytes),
            Block::About(_) | Block::Sample(_) | Block::Unknown(_) => {}
        }
        Ok(true)
    }

    fn traits(&self) -> Traits {
        SwapEvents::TRAITS
    }
}
