//! The last minutes of a recording, in memory: the output of a [`Writer`](super::Writer) that forgets its oldest blocks,
//! and copies the rest to a file on request.
//!
//! Blocks are in segments, and each segment begins with a snapshot of the processes that run at that time, so every
//! segment can be the first of a file. The ring forgets whole segments, once they are too old or need too much room. It
//! keeps the names of files in forgotten segments, since the recorder names a file only once. A copy continues while
//! new blocks come: a segment that is not copied yet is copied before it is forgotten.

use std::collections::VecDeque;
use std::io::{self, Write};

use super::ring_names::RingNames;
use super::{About, BlockKind, Ending, FileName, MAGIC};
use crate::framing::{FrameWriter, first_packed, packed_contents, packed_kind, parse_json};

/// A full ring has at least this number of segments, so it holds at most a sixteenth more time, or a sixteenth fewer
/// bytes, than its limits say.
const SEGMENTS: usize = 16;

/// The part of the bytes that names of files may take.
const NAMES_PART: usize = 8;

/// Bounds of the bytes that are allocated at once for blocks.
const PIECE_BYTES_MIN: usize = 1 << 12;
const PIECE_BYTES_MAX: usize = 128 << 10;

/// The state of a recording at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// CLOCK_MONOTONIC, in nanoseconds.
    pub time_ns: u64,
    /// Records appended so far.
    pub recorded: u64,
    /// Records lost so far.
    pub lost: u64,
}

/// The blocks of the last minutes. `W` is the output of copies.
///
/// bytes = allocated bytes of all segments <= bytes_max
pub struct Ring<W: Write> {
    bytes_max: usize,
    age_max_ns: u64,
    piece_bytes: usize,
    segments: VecDeque<Segment>,
    /// Number of forgotten segments, which is also the number of the first segment that is left.
    forgotten: u64,
    bytes: usize,
    names: RingNames,
    /// Whether blocks belong to the snapshot of the last segment.
    is_in_snapshot: bool,
    /// Records in snapshots so far.
    in_snapshots: u64,
    /// Records in blocks that found no room so far.
    refused: u64,
    copy: Option<PartCopy<W>>,
}

struct Segment {
    begins: Mark,
    /// The processes that run when the segment begins, in blocks, and the number of their records. A file has only the
    /// snapshot of its first segment.
    snapshot: Vec<u8>,
    snapshot_records: u64,
    /// Whole blocks. Pieces of the same size leave no holes in memory when they are freed.
    pieces: Vec<Vec<u8>>,
}

/// A copy of the ring to a file, which is complete up to a place.
struct PartCopy<W: Write> {
    frames: FrameWriter<W>,
    begins: Mark,
    snapshot_records: u64,
    segment: u64,
    piece: usize,
    at: usize,
    /// The first failure. Nothing is written after it.
    failure: Option<io::Error>,
}

impl<W: Write> Ring<W> {
    /// A ring that holds at least the last `age_max_ns` nanoseconds, if they fit into `bytes_max` bytes.
    pub fn new(bytes_max: usize, age_max_ns: u64) -> Ring<W> {
        let names_bytes = bytes_max / NAMES_PART;
        let bytes_max = bytes_max - names_bytes;
        Ring {
            bytes_max,
            age_max_ns,
            piece_bytes: (bytes_max / 256).clamp(PIECE_BYTES_MIN, PIECE_BYTES_MAX),
            segments: VecDeque::new(),
            forgotten: 0,
            bytes: 0,
            names: RingNames::new(names_bytes),
            is_in_snapshot: false,
            in_snapshots: 0,
            refused: 0,
            copy: None,
        }
    }

    /// Whether the last segment is old or large enough, so that the next should begin.
    pub fn is_due(&self, time_ns: u64) -> bool {
        self.segments.back().is_none_or(|segment| {
            let age_ns = time_ns.saturating_sub(segment.begins.time_ns);
            age_ns >= self.age_max_ns / SEGMENTS as u64
                || segment.bytes() >= self.bytes_max / SEGMENTS
        })
    }

    /// Begins a segment. `now` has the records of the writer, all of which must be flushed; the blocks that follow, until
    /// `end_snapshot`, are the processes that run.
    pub fn begin(&mut self, now: Mark) {
        let begins = self.counted(now);
        let (snapshot, pieces) = (Vec::new(), Vec::new());
        self.segments.push_back(Segment { begins, snapshot, snapshot_records: 0, pieces });
        self.is_in_snapshot = true;
    }

    /// Ends the snapshot of the segment, which has this number of records.
    pub fn end_snapshot(&mut self, records: u64) {
        self.is_in_snapshot = false;
        self.in_snapshots += records;
        if let Some(segment) = self.segments.back_mut() {
            segment.snapshot_records = records;
        }
    }

    /// Forgets the segments whose last event is too old.
    pub fn expire(&mut self, time_ns: u64) {
        let oldest_ns = time_ns.saturating_sub(self.age_max_ns);
        while self.segments.get(1).is_some_and(|second| second.begins.time_ns <= oldest_ns) {
            self.forget_first();
        }
    }

    /// Forgets all segments but the last.
    pub fn forget(&mut self) {
        while self.segments.len() > 1 {
            self.forget_first();
        }
    }

    /// When the first event was recorded that the ring still has (CLOCK_MONOTONIC, in nanoseconds).
    pub fn begins_ns(&self) -> Option<u64> {
        self.segments.front().map(|segment| segment.begins.time_ns)
    }

    /// Allocated bytes of all blocks.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Names of files that were forgotten because the table was full.
    pub fn names_forgotten(&self) -> u64 {
        self.names.forgotten()
    }

    /// Begins a copy with a description, the names of files and the processes at its beginning. `copy` writes the rest.
    ///
    /// # Errors
    /// If the operating system refuses the write.
    pub fn begin_copy(&mut self, output: W, about: &About) -> io::Result<()> {
        let mut frames = FrameWriter::new(output, &MAGIC)?;
        frames.write_json(BlockKind::About as u32, about)?;
        let names = self.names.list();
        if !names.is_empty() {
            frames.write_json(BlockKind::Files as u32, &names)?;
        }
        let Some(first) = self.segments.front() else {
            return Err(io::Error::other("the ring has no segment yet"));
        };
        blocks(&first.snapshot).try_for_each(|block| frames.write_packed(block))?;
        self.copy = Some(PartCopy {
            frames,
            begins: first.begins,
            snapshot_records: first.snapshot_records,
            segment: self.forgotten,
            piece: 0,
            at: 0,
            failure: None,
        });
        Ok(())
    }

    /// Copies about `bytes` further bytes, in whole blocks; true if the copy has all blocks so far, or if there is none.
    ///
    /// # Errors
    /// If the operating system refuses a write. `end_copy` then ends the copy as it is.
    pub fn copy(&mut self, bytes: usize) -> io::Result<bool> {
        let Some(copy) = &mut self.copy else { return Ok(true) };
        copy.advance(&self.segments, self.forgotten, self.segments.len(), bytes)
    }

    /// Bytes of complete blocks in the copy.
    pub fn copied_bytes(&self) -> u64 {
        self.copy.as_ref().map_or(0, |copy| copy.frames.bytes())
    }

    /// Copies all other blocks and ends the copy; `now` has the records of the writer, all of which must be flushed.
    /// Returns what the copy says about its end, and its bytes. After a failure, there may be more bytes in the
    /// output, which belong to no complete block.
    pub fn end_copy(
        &mut self,
        now: Mark,
        exit_status: Option<i32>,
    ) -> (Ending, u64, io::Result<()>) {
        let now = self.counted(now);
        let Some(mut copy) = self.copy.take() else { return (Ending::default(), 0, Ok(())) };
        let recorded = now.recorded.saturating_sub(copy.begins.recorded) + copy.snapshot_records;
        let lost = now.lost.saturating_sub(copy.begins.lost);
        let ending = Ending { time_ns: now.time_ns, recorded, lost, exit_status };
        let count = self.segments.len();
        let copied = copy
            .advance(&self.segments, self.forgotten, count, usize::MAX)
            .and_then(|_| copy.frames.write_json(BlockKind::Ending as u32, &ending));
        let bytes = copy.frames.bytes();
        let ended = copied.and_then(|()| copy.frames.finish().map(drop));
        (ending, bytes, ended)
    }

    /// The counts at `now` without snapshots, with refused records as lost.
    fn counted(&self, now: Mark) -> Mark {
        Mark {
            recorded: now.recorded.saturating_sub(self.in_snapshots + self.refused),
            lost: now.lost + self.refused,
            ..now
        }
    }

    fn forget_first(&mut self) {
        if let Some(copy) = &mut self.copy
            && copy.segment == self.forgotten
        {
            // A failure is reported by the next call of `copy` or `end_copy`.
            let _ = copy.advance(&self.segments, self.forgotten, 1, usize::MAX);
            (copy.segment, copy.piece, copy.at) = (self.forgotten + 1, 0, 0);
        }
        let Some(segment) = self.segments.pop_front() else { return };
        self.forgotten += 1;
        self.bytes -= segment.bytes();
        for block in segment.pieces.iter().flat_map(|piece| blocks(piece)) {
            names_of(block).into_iter().for_each(|name| self.names.add(name));
        }
    }

    /// Appends a block to the last segment.
    fn add(&mut self, block: &[u8]) {
        let growth = self.growth(block.len());
        while self.bytes + growth > self.bytes_max && self.segments.len() > 1 {
            self.forget_first();
        }
        if self.bytes + growth > self.bytes_max {
            self.refused += records_of(block);
            return;
        }
        let Some(segment) = self.segments.back_mut() else { return };
        if self.is_in_snapshot {
            segment.snapshot.reserve_exact(block.len());
            segment.snapshot.extend_from_slice(block);
        } else {
            let has_room = |piece: &Vec<u8>| piece.capacity() - piece.len() >= block.len();
            if !segment.pieces.last().is_some_and(has_room) {
                segment.pieces.push(Vec::with_capacity(growth));
            }
            if let Some(piece) = segment.pieces.last_mut() {
                piece.extend_from_slice(block);
            }
        }
        self.bytes += growth;
    }

    /// Bytes to allocate for a block of this length.
    fn growth(&self, length: usize) -> usize {
        let last = self.segments.back().and_then(|segment| segment.pieces.last());
        let room = last.map_or(0, |piece| piece.capacity() - piece.len());
        match self.is_in_snapshot {
            true => length,
            false if length <= room => 0,
            false => length.max(self.piece_bytes),
        }
    }
}

impl<W: Write> Write for Ring<W> {
    /// Takes a block, which the writer writes in one call. Blocks before the first segment are not kept: each copy has a
    /// description of its own.
    fn write(&mut self, block: &[u8]) -> io::Result<usize> {
        if !self.segments.is_empty() {
            self.add(block);
        }
        Ok(block.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Segment {
    /// Allocated bytes.
    fn bytes(&self) -> usize {
        self.snapshot.len() + self.pieces.iter().map(Vec::capacity).sum::<usize>()
    }
}

impl<W: Write> PartCopy<W> {
    /// Copies about `bytes` bytes of the first `count` segments, of which the first has the number `first`; true if all
    /// of their blocks were copied.
    fn advance(
        &mut self,
        segments: &VecDeque<Segment>,
        first: u64,
        count: usize,
        bytes: usize,
    ) -> io::Result<bool> {
        if let Some(failure) = &self.failure {
            return Err(io::Error::new(failure.kind(), failure.to_string()));
        }
        let mut left = bytes;
        while left > 0 {
            let index = (self.segment - first) as usize;
            let Some(segment) = segments.get(index).filter(|_| index < count) else {
                return Ok(true);
            };
            let rest = segment.pieces.get(self.piece).map_or(&[][..], |piece| &piece[self.at..]);
            match first_packed(rest) {
                Some(block) => {
                    if let Err(error) = self.frames.write_packed(block) {
                        self.failure = Some(io::Error::new(error.kind(), error.to_string()));
                        return Err(error);
                    }
                    self.at += block.len();
                    left = left.saturating_sub(block.len());
                }
                None if self.piece + 1 < segment.pieces.len() => {
                    (self.piece, self.at) = (self.piece + 1, 0);
                }
                None if index + 1 < count => {
                    (self.segment, self.piece, self.at) = (self.segment + 1, 0, 0);
                }
                None => return Ok(true),
            }
        }
        Ok(false)
    }
}

/// The blocks in bytes that consist of whole blocks.
fn blocks(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let block = first_packed(bytes)?;
        bytes = &bytes[block.len()..];
        Some(block)
    })
}

/// The names of files in a block; none if it is of another kind.
fn names_of(block: &[u8]) -> Vec<FileName> {
    let is_of_names = packed_kind(block) == Some(BlockKind::Files as u32);
    let contents = is_of_names.then(|| packed_contents(block)).flatten();
    contents.and_then(|contents| parse_json(&contents).ok()).unwrap_or_default()
}

/// The number of records in a block; 0 if it is of another kind.
fn records_of(block: &[u8]) -> u64 {
    let is_of_records = packed_kind(block) == Some(BlockKind::Records as u32);
    let contents = is_of_records.then(|| packed_contents(block)).flatten().unwrap_or_default();
    contents.first_chunk().map_or(0, |&count| u64::from(u32::from_le_bytes(count)))
}

#[cfg(test)]
mod tests;
