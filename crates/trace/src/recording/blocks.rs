//! Parses the blocks of a recording.

use super::moment::Moment;
use super::{About, BlockKind, Ending, FileName, MAGIC, Record, Sample, packing};
use crate::Error;
use crate::framing::{FrameReader, FramedBlock, parse_json};
use crate::input::Input;

/// A block of a recording.
#[derive(Clone, Debug, PartialEq)]
pub enum RecordingBlock {
    /// Description of the recording; always the first block.
    About(About),
    /// Events.
    Records(Vec<Record>),
    /// The kernel's counters.
    Sample(Sample),
    /// Summary of the recording; the last block, unless the recorder was killed.
    Ending(Ending),
    /// Names of files whose pages follow.
    Files(Vec<FileName>),
    /// Memory and processes at an instant.
    Moment(Moment),
    /// A kind of block that this version does not know.
    Unknown(u32),
    /// The file ends within a block, after this number of its bytes.
    CutShort(u64),
}

/// Reads a recording block by block.
pub struct Reader {
    frames: FrameReader,
}

impl Reader {
    /// A reader of `input`, which must be at its beginning; `None` if it is no recording.
    ///
    /// # Errors
    /// If the operating system refuses the read.
    pub fn new(input: Input) -> Result<Option<Reader>, Error> {
        Ok(FrameReader::new(input, &MAGIC)?.map(|frames| Reader { frames }))
    }

    /// The next block; `None` at the end.
    ///
    /// # Errors
    /// `Corrupt` with the offset if a complete block violates the format; `Io` if the operating system
    /// refuses the read.
    pub fn read_block(&mut self) -> Result<Option<RecordingBlock>, Error> {
        let block = match self.frames.read()? {
            None => return Ok(None),
            Some(FramedBlock::CutShort(bytes)) => RecordingBlock::CutShort(bytes),
            Some(FramedBlock::Whole(kind, contents)) => {
                parse(kind, &contents).map_err(|expected| self.frames.corrupt(&expected))?
            }
        };
        if let RecordingBlock::Unknown(kind) = block {
            self.frames.pass_unknown(kind)?;
        }
        Ok(Some(block))
    }
}

/// The description of a recording, and a reader of the following blocks; `None` if `input`, which must be
/// at its beginning, is no recording.
///
/// # Errors
/// Errors of [`Reader::read_block`].
pub fn read_about(input: Input) -> Result<Option<(About, Reader)>, Error> {
    let Some(mut reader) = Reader::new(input)? else { return Ok(None) };
    Ok(match reader.read_block()? {
        Some(RecordingBlock::About(about)) => Some((about, reader)),
        _ => None,
    })
}

fn parse(kind: u32, contents: &[u8]) -> Result<RecordingBlock, String> {
    Ok(match kind {
        kind if kind == BlockKind::About as u32 => RecordingBlock::About(parse_json(contents)?),
        kind if kind == BlockKind::Records as u32 => RecordingBlock::Records(
            packing::unpack(contents).ok_or("expected complete records in a block")?,
        ),
        kind if kind == BlockKind::Sample as u32 => RecordingBlock::Sample(parse_json(contents)?),
        kind if kind == BlockKind::Ending as u32 => RecordingBlock::Ending(parse_json(contents)?),
        kind if kind == BlockKind::Files as u32 => RecordingBlock::Files(parse_json(contents)?),
        kind if kind == BlockKind::Moment as u32 => RecordingBlock::Moment(parse_json(contents)?),
        unknown => RecordingBlock::Unknown(unknown),
    })
}
