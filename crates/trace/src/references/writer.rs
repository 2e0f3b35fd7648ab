//! Writes steps to a `.pwf` file.

use std::io::{Error, Write};

use serde::Serialize;
use types::ReferenceTotals;
use zstd::bulk::Compressor;
use zstd::zstd_safe::CParameter;

use super::file::{END, Ending, MAGIC, ORIGIN, Origin, VERSION};
use super::frame::{self, STEPS_MAX, Streams};
use super::mappings::{self, CHANGES_MAX, MappingChange};
use super::slots::SlotStep;
use crate::checksum::head_sum;

/// Level of compression, zstd's own default.
const LEVEL: i32 = 3;

/// Writes a trace of references a frame at a time.
pub struct Writer<W> {
    output: W,
    /// Bytes written.
    offset: u64,
    compressor: Compressor<'static>,
    pending: Vec<SlotStep>,
    /// Changes of mappings among the pending steps.
    changes: Vec<MappingChange>,
    streams: Streams,
    frame: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Begins a trace.
    ///
    /// # Errors
    /// If the operating system refuses the write.
    pub fn new(mut output: W, origin: &Origin) -> Result<Writer<W>, Error> {
        let version = VERSION.to_le_bytes();
        output.write_all(MAGIC)?;
        output.write_all(&version)?;
        let mut compressor = Compressor::new(LEVEL)?;
        compressor.set_parameter(CParameter::ChecksumFlag(true))?;
        let mut writer = Writer {
            output,
            offset: (MAGIC.len() + version.len()) as u64,
            compressor,
            pending: Vec::with_capacity(STEPS_MAX),
            changes: Vec::new(),
            streams: Streams::default(),
            frame: Vec::new(),
        };
        writer.put_json(ORIGIN, origin)?;
        Ok(writer)
    }

    /// Appends a change of mappings that follows the steps appended so far and some of the next.
    pub fn change(&mut self, change: MappingChange) {
        self.changes.push(change);
    }

    /// Appends steps; `totals` counts all references up to now.
    ///
    /// # Errors
    /// If the operating system refuses the write.
    pub fn write(&mut self, mut steps: &[SlotStep], totals: ReferenceTotals) -> Result<(), Error> {
        while !steps.is_empty() {
            let room = STEPS_MAX - self.pending.len();
            let (now, later) = steps.split_at(steps.len().min(room));
            self.pending.extend_from_slice(now);
            steps = later;
            if self.pending.len() == STEPS_MAX {
                self.flush(totals)?;
            }
        }
        Ok(())
    }

    /// Ends the trace and returns the output.
    ///
    /// # Errors
    /// If the operating system refuses the write.
    pub fn finish(mut self, ending: &Ending) -> Result<W, Error> {
        if !self.pending.is_empty() || !self.changes.is_empty() {
            self.flush(ending.totals())?;
        }
        self.put_json(END, ending)?;
        self.output.flush()?;
        Ok(self.output)
    }

    fn flush(&mut self, totals: ReferenceTotals) -> Result<(), Error> {
        let mut frame = std::mem::take(&mut self.frame);
        for changes in std::mem::take(&mut self.changes).chunks(CHANGES_MAX) {
            mappings::encode(changes, &mut frame);
            self.put(&frame)?;
        }
        frame::encode(&self.pending, totals, &mut self.streams, &mut frame);
        self.pending.clear();
        self.put(&frame)?;
        self.frame = frame;
        Ok(())
    }

    fn put_json(&mut self, what: u8, part: &impl Serialize) -> Result<(), Error> {
        let mut frame = vec![what];
        serde_json::to_writer(&mut frame, part)?;
        self.put(&frame)
    }

    fn put(&mut self, frame: &[u8]) -> Result<(), Error> {
        let packed = self.compressor.compress(frame)?;
        let length = (packed.len() as u32).to_le_bytes();
        let sum = head_sum(self.offset, &length).to_le_bytes();
        for part in [&length[..], &sum, &packed] {
            self.output.write_all(part)?;
            self.offset += part.len() as u64;
        }
        Ok(())
    }
}
