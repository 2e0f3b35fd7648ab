//! A saved recording of kills: the kernel's raw events, so that the analysis can be repeated.
//!
//! Layout: 8 bytes of `MAGIC`, then independent blocks (crate::framing). The first is the `About`.
//! docs/killtrace.md describes the layout for other readers.

use std::io::{self, Write};
use std::path::Path;

use super::analysis::{Analysis, KillsOutcome};
use super::block::KillsBlock;
use super::typed;
use crate::framing::{FrameReader, FrameWriter, FramedBlock, Magic, parse_json};
use crate::input::Input;
use crate::{Error, ErrorKind};

/// The first bytes of a recording of kills, with its version in the last byte.
const MAGIC: Magic = Magic { checked: *b"pgwkil\x00\x02", unchecked: *b"pgwkil\x00\x01" };

/// Longest page of events. Kernels have pages of 4 to 64 KiB.
const PAGE_BYTES_MAX: usize = 64 << 10;

/// The kinds of blocks, by their number in the file.
#[repr(u32)]
enum BlockKind {
    About = 1,
    Tasks = 2,
    Page = 3,
    Events = 4,
    Until = 5,
    Ending = 6,
}

/// Writes a recording.
pub struct Writer<W: Write> {
    frames: FrameWriter<W>,
}

impl<W: Write> Writer<W> {
    /// Begins a recording.
    ///
    /// # Errors
    /// If the operating system refuses the write.
    pub fn new(output: W) -> io::Result<Writer<W>> {
        Ok(Writer { frames: FrameWriter::new(output, &MAGIC)? })
    }

    /// Appends a block.
    ///
    /// # Errors
    /// If the operating system refuses the write.
    pub fn write(&mut self, block: &KillsBlock) -> io::Result<()> {
        match block {
            KillsBlock::About(about) => self.frames.write_json(BlockKind::About as u32, about),
            KillsBlock::Tasks(tasks) => self.frames.write_json(BlockKind::Tasks as u32, tasks),
            KillsBlock::Page(page) => self.frames.write(BlockKind::Page as u32, page),
            KillsBlock::Events(events) => {
                self.frames.write(BlockKind::Events as u32, &typed::pack(events))
            }
            KillsBlock::Until(time_ns) => {
                self.frames.write(BlockKind::Until as u32, &time_ns.to_le_bytes())
            }
            KillsBlock::Ending(ending) => self.frames.write_json(BlockKind::Ending as u32, ending),
            KillsBlock::Unknown(_) => Ok(()),
        }
    }

    /// Bytes of complete blocks written so far; a failed write may leave more bytes after them.
    pub fn bytes(&self) -> u64 {
        self.frames.bytes()
    }

    /// Flushes the recording and returns the output.
    ///
    /// # Errors
    /// If the operating system refuses the write.
    pub fn finish(self) -> io::Result<W> {
        self.frames.finish()
    }
}

/// Reads a saved recording and analyses its kills.
///
/// # Errors
/// If the file is no recording of kills, is damaged (with the offset), or cannot be read.
pub fn read(path: &Path) -> Result<KillsOutcome, Error> {
    read_input(Input::open(path, false)?, path)
}

/// Analyses the kills of a recording in memory; `name` replaces its path.
///
/// # Errors
/// Errors of [`read`].
pub fn read_bytes(name: &str, bytes: &[u8]) -> Result<KillsOutcome, Error> {
    read_input(Input::from_bytes(name, bytes)?, Path::new(name))
}

fn read_input(input: Input, path: &Path) -> Result<KillsOutcome, Error> {
    let mut frames = FrameReader::new(input, &MAGIC)?.ok_or_else(|| {
        let message = "is no recording of kills; make one: pagewise-agent killtrace --all -o FILE";
        Error::new(ErrorKind::UnknownFormat, path, message)
    })?;
    let mut analysis = None;
    while let Some(FramedBlock::Whole(kind, contents)) = frames.read()? {
        let block = parse(kind, contents).map_err(|expected| frames.corrupt(&expected))?;
        match (&mut analysis, block) {
            (_, KillsBlock::Unknown(kind)) => frames.pass_unknown(kind)?,
            (None, KillsBlock::About(about)) => {
                let begun = Analysis::new(*about).map_err(|expected| frames.corrupt(&expected))?;
                analysis = Some(begun);
            }
            (None, _) => return Err(frames.corrupt("expected the description of the recording")),
            (Some(analysis), block) => {
                analysis.take(&block).map_err(|expected| frames.corrupt(&expected))?;
            }
        }
    }
    let analysis =
        analysis.ok_or_else(|| frames.corrupt("expected the description of the recording"))?;
    Ok(analysis.finish())
}

fn parse(kind: u32, contents: Vec<u8>) -> Result<KillsBlock, String> {
    Ok(match kind {
        kind if kind == BlockKind::About as u32 => KillsBlock::About(parse_json(&contents)?),
        kind if kind == BlockKind::Tasks as u32 => KillsBlock::Tasks(parse_json(&contents)?),
        kind if kind == BlockKind::Page as u32 && contents.len() > PAGE_BYTES_MAX => {
            return Err(format!("expected a page of at most {PAGE_BYTES_MAX} bytes"));
        }
        kind if kind == BlockKind::Page as u32 => KillsBlock::Page(contents),
        kind if kind == BlockKind::Events as u32 => KillsBlock::Events(
            typed::unpack(&contents).ok_or("expected complete events in a block")?,
        ),
        kind if kind == BlockKind::Until as u32 => {
            let bytes = contents.as_slice().try_into();
            KillsBlock::Until(u64::from_le_bytes(bytes.map_err(|_| "expected a time of 8 bytes")?))
        }
        kind if kind == BlockKind::Ending as u32 => KillsBlock::Ending(parse_json(&contents)?),
        unknown => KillsBlock::Unknown(unknown),
    })
}
