//! Writes a recording, a block at a time.

use std::io::{self, Write};

use serde::Serialize;

use super::moment::Moment;
use super::packing::{Packer, RECORDS_MAX};
use super::{About, BlockKind, Ending, FileName, MAGIC, Record, Sample};
use crate::framing::FrameWriter;

/// Writes a recording. Every block goes out in one call, so that what is on disk ends with a whole
/// block unless the machine itself stops.
pub struct Writer<W: Write> {
    frames: FrameWriter<W>,
    /// Kept from block to block.
    pending: Packer,
    recorded: u64,
    unwritten: u64,
}

impl<W: Write> Writer<W> {
    /// Begins a recording with what is known about it.
    ///
    /// # Errors
    /// What the operating system refuses.
    pub fn new(output: W, about: &About) -> io::Result<Writer<W>> {
        let frames = FrameWriter::new(output, &MAGIC)?;
        let mut writer = Writer { frames, pending: Packer::default(), recorded: 0, unwritten: 0 };
        writer.write_json(BlockKind::About, about)?;
        Ok(writer)
    }

    /// Appends a record; writes a block when there are enough for one.
    ///
    /// # Errors
    /// What the operating system refuses; the records of the block are lost then.
    pub fn push(&mut self, record: Record) -> io::Result<()> {
        if self.pending.count() == RECORDS_MAX {
            self.flush()?;
        }
        self.pending.push(record);
        Ok(())
    }

    /// Writes the names of files whose pages come after, or are pending.
    ///
    /// # Errors
    /// What the operating system refuses.
    pub fn name_files(&mut self, names: &[FileName]) -> io::Result<()> {
        self.write_json(BlockKind::Files, &names)
    }

    /// Writes what is pending, so that a recorder killed from now on has not lost it.
    ///
    /// # Errors
    /// What the operating system refuses.
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

    /// Writes the counters of an instant behind the records before it.
    ///
    /// # Errors
    /// What the operating system refuses.
    pub fn sample(&mut self, sample: &Sample) -> io::Result<()> {
        self.flush()?;
        self.write_json(BlockKind::Sample, sample)
    }

    /// Writes memory and processes of an instant behind the records before it.
    ///
    /// # Errors
    /// What the operating system refuses.
    pub fn moment(&mut self, moment: &Moment) -> io::Result<()> {
        self.flush()?;
        self.write_json(BlockKind::Moment, moment)
    }

    /// Ends the recording; `ending.recorded` is filled in here.
    ///
    /// # Errors
    /// What the operating system refuses.
    pub fn finish(mut self, ending: Ending) -> io::Result<W> {
        self.flush()?;
        let ending = Ending { recorded: self.recorded, ..ending };
        self.write_json(BlockKind::Ending, &ending)?;
        self.frames.finish()
    }

    /// Records handed over so far.
    pub fn recorded(&self) -> u64 {
        self.recorded + self.pending.count() as u64
    }

    /// Records of blocks that could not be written.
    pub fn unwritten(&self) -> u64 {
        self.unwritten
    }

    /// Bytes of whole blocks written so far; what a failed write left lies behind them.
    pub fn bytes(&self) -> u64 {
        self.frames.bytes()
    }

    fn write_json(&mut self, kind: BlockKind, part: &impl Serialize) -> io::Result<()> {
        self.frames.write_json(kind as u32, part)
    }
}
