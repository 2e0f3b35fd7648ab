//! Blocks from the bytes of a recording.

use super::moments::Moment;
use super::{
    About, BLOCK_BYTES_MAX, BLOCK_HEAD_BYTES, BlockKind, Ending, FileName, Record, Sample, packing,
};
use crate::Error;
use crate::input::Input;

/// One block of a recording.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// What was known at the start; always the first.
    About(About),
    /// Events.
    Records(Vec<Record>),
    /// The kernel's counters.
    Sample(Sample),
    /// What was known at the end; the last, where the recorder came to it.
    Ending(Ending),
    /// Names of files whose pages follow.
    Files(Vec<FileName>),
    /// Memory and processes.
    Moment(Moment),
    /// A kind of block that this version does not know.
    Unknown(u32),
    /// The file ends within a block, of which this many bytes are there.
    CutShort(u64),
}

/// The next block of `input`, which stands behind the magic number or another block; none at the end.
///
/// # Errors
/// `Corrupt` with the offset where a whole block is not what the format demands; what the operating
/// system refuses.
pub fn read_block(input: &mut Input) -> Result<Option<Block>, Error> {
    let mut head = [0; BLOCK_HEAD_BYTES];
    let there = read_into(input, &mut head)?;
    if there == 0 {
        return Ok(None);
    }
    if there < head.len() {
        return Ok(Some(Block::CutShort(there as u64)));
    }
    let field =
        |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("the range has 4 bytes"));
    let (kind, packed_bytes, bytes) = (field(0), field(4) as usize, field(8) as usize);
    if packed_bytes.max(bytes) > BLOCK_BYTES_MAX {
        let found = format!("expected a block of at most {BLOCK_BYTES_MAX} bytes");
        return Err(input.corrupt(&found));
    }
    let mut packed = vec![0; packed_bytes];
    let there = read_into(input, &mut packed)?;
    if there < packed_bytes {
        return Ok(Some(Block::CutShort((BLOCK_HEAD_BYTES + there) as u64)));
    }
    let contents = zstd::bulk::decompress(&packed, bytes)
        .map_err(|error| input.corrupt(&format!("a block does not unpack: {error}")))?;
    parse(kind, &contents).map(Some).map_err(|expected| input.corrupt(&expected))
}

/// Fills `target` from the input; returns how much was left of it.
fn read_into(input: &mut Input, target: &mut [u8]) -> Result<usize, Error> {
    let mut filled = 0;
    while filled < target.len() {
        if input.held().is_empty() && input.fill()?.is_empty() {
            break;
        }
        let held = input.held();
        let count = held.len().min(target.len() - filled);
        target[filled..filled + count].copy_from_slice(&held[..count]);
        input.consume(count);
        filled += count;
    }
    Ok(filled)
}

fn parse(kind: u32, contents: &[u8]) -> Result<Block, String> {
    let text = |error: serde_json::Error| format!("expected the JSON of a block: {error}");
    Ok(match kind {
        kind if kind == BlockKind::About as u32 => {
            Block::About(serde_json::from_slice(contents).map_err(text)?)
        }
        kind if kind == BlockKind::Records as u32 => {
            Block::Records(packing::unpack(contents).ok_or("expected whole records in a block")?)
        }
        kind if kind == BlockKind::Sample as u32 => {
            Block::Sample(serde_json::from_slice(contents).map_err(text)?)
        }
        kind if kind == BlockKind::Ending as u32 => {
            Block::Ending(serde_json::from_slice(contents).map_err(text)?)
        }
        kind if kind == BlockKind::Files as u32 => {
            Block::Files(serde_json::from_slice(contents).map_err(text)?)
        }
        kind if kind == BlockKind::Moment as u32 => {
            Block::Moment(serde_json::from_slice(contents).map_err(text)?)
        }
        unknown => Block::Unknown(unknown),
    })
}
