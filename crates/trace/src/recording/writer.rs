//! Writes a recording, a block at a time.

use std::io::{self, Write};

use serde::Serialize;

use super::moment::Moment;
use super::packing::{Packer, RECORDS_MAX};
use super::{About, BlockKind, Ending, FileName, MAGIC, Record, Sample};
use crate::framing::FrameWriter;

/// Writes a recording, each block in a single call, so that the file ends with a complete block unless
/// the machine itself stops.
pub struct Writer<W: Write> {
    frames: FrameWriter<W>,
    /// Buffer, reused for every block.
    pending: Packer,
    recorded: u64,
    unwritten: u64,
}

impl<W: Write> Writer<W> {
    /// Begins a recording with its description.
    ///
    /// # Errors
    /// If the operating system refuses the write.
    pub fn new(output: W, about: &About) -> io::Result<Writer<W>> {
        Writer::begin(FrameWriter::new(output, &MAGIC)?, about)
    }

    /// Begins a recording that is packed with a level of zstd, for files that are written once and kept.
    ///
    /// # Errors
    /// If the operating system refuses the write.
    pub fn with_level(output: W, about: &About, level: i32) -> io::Result<Writer<W>> {
        Writer::begin(FrameWriter::with_level(output, &MAGIC, level)?, about)
    }

    fn begin(frames: FrameWriter<W>, about: &About) -> io::Result<Writer<W>> {
        let mut writer = Writer { frames, pending: Packer::default(), recorded: 0, unwritten: 0 };
        writer.write_json(BlockKind::About, about)?;
        Ok(writer)
    }

    /// Appends a record; writes a block when enough records are pending.
    ///
    /// # Errors
    /// If the operating system refuses the write; the records of the block are then lost.
    pub fn push(&mut self, record: Record) -> io::Result<()> {
        if self.pending.count() == RECORDS_MAX {
            self.flush()?;
        }
        self.pending.push(record);
        Ok(())
    }

    /// Writes the names of files whose pages are pending or follow.
    ///
    /// # Errors
    /// If the operating system refuses the write.
    pub fn name_files(&mut self, names: &[FileName]) -> io::Result<()> {
        self.write_json(BlockKind::Files, &names)
    }

    /// Writes the pending records, so that they survive a kill of the recorder.
    ///
    /// # Errors
    /// If the operating system refuses the write.
    pub fn flush(&mut self) -> io::Result<()> {
        let count = self.pending.count() as u64;
        if count == 0 {
            return Ok(());
        }
        let mut pending = std::mem::take(&mut self.pending);
        let written = self.frames.write(BlockKind::Records as u32, pending.bytes());
        pending.clear();
        self.pending = pending;
        let counted = if written.is_ok() { &mut self.recorded } else { &mut self.unwritten };
        *counted += count;
        written
    }

    /// Writes the counters of an instant after the records before it.
    ///
    /// # Errors
    /// If the operating system refuses the write.
    pub fn sample(&mut self, sample: &Sample) -> io::Result<()> {
        self.flush()?;
        self.write_json(BlockKind::Sample, sample)
    }

    /// Writes memory and processes of an instant after the records before it.
    ///
    /// # Errors
    /// If the operating system refuses the write.
    pub fn moment(&mut self, moment: &Moment) -> io::Result<()> {
        self.flush()?;
        self.write_json(BlockKind::Moment, moment)
    }

    /// Ends the recording and fills in `ending.recorded`.
    ///
    /// # Errors
    /// If the operating system refuses the write.
    pub fn finish(mut self, ending: Ending) -> io::Result<W> {
        self.flush()?;
        let ending = Ending { recorded: self.recorded, ..ending };
        self.write_json(BlockKind::Ending, &ending)?;
        self.frames.finish()
    }

    /// Records appended so far.
    pub fn recorded(&self) -> u64 {
        self.recorded + self.pending.count() as u64
    }

    /// Records of blocks that could not be written.
    pub fn unwritten(&self) -> u64 {
        self.unwritten
    }

    /// Bytes of complete blocks written so far; a failed write may leave more bytes after them.
    pub fn bytes(&self) -> u64 {
        self.frames.bytes()
    }

    /// The output, which gets each block in one call of `write_all`.
    pub fn output_mut(&mut self) -> &mut W {
        self.frames.output_mut()
    }

    fn write_json(&mut self, kind: BlockKind, part: &impl Serialize) -> io::Result<()> {
        self.frames.write_json(kind as u32, part)
    }
}
