//! Writes the references of a running program, which come from capture/plugin.c, to a trace.
//!
//! Full chunks come through a pipe, which ends with the program. The current chunk is in shared
//! memory: it shows the progress of the capture, and after the end of the pipe it holds the rest, even
//! if the program was killed. capture/stream.h declares the layout.

use std::fs::{self, File};
use std::io::{BufWriter, ErrorKind as IoKind, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use types::{Progress, ReferenceKind, ReferenceTotals};

use super::ended::cut;
use super::mappings::{Change, MappingChange};
use super::slots::SlotStep;
use super::{Ending, Origin, Processes, Reader, Stop, Writer};
use crate::store::refuse_existing;
use crate::{Error, ErrorKind, Position};

/// Largest number of steps in a chunk.
const CHUNK_STEPS: usize = 8192;

/// Bytes of a chunk before its steps.
const HEAD_BYTES: usize = 56;

/// Kind of a record that is a change of mappings, not a step.
const MAPPING: u64 = 3;

/// Bytes of a step.
const STEP_BYTES: usize = 16;

/// Size of the shared memory, which holds one chunk.
pub const CHUNK_BYTES: usize = HEAD_BYTES + CHUNK_STEPS * STEP_BYTES;

/// Interval of progress reports while no chunk arrives.
const REPORT_EVERY: Duration = Duration::from_millis(100);

/// Largest number of chunks waiting for compression.
const CHUNKS_WAITING: usize = 16;

/// Head of a chunk: totals of the capture so far, and the number of steps that follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Head {
    sequence: u64,
    totals: ReferenceTotals,
    processes: Processes,
    state: u32,
    steps: usize,
}

impl Head {
    /// Decodes a head; `None` if it is invalid.
    fn decode(bytes: &[u8; HEAD_BYTES]) -> Option<Head> {
        let (words, _) = bytes.as_chunks::<8>();
        let word = |index: usize| words.get(index).map_or(0, |&word| u64::from_le_bytes(word));
        let halves = |index: usize| (word(index) as u32, (word(index) >> 32) as u32);
        let (reads, writes) = (word(2), word(3));
        let instructions = word(1).checked_sub(reads)?.checked_sub(writes)?;
        let (threads, children) = halves(4);
        let (programs, state) = halves(5);
        let steps = usize::try_from(word(6)).ok().filter(|&steps| steps <= CHUNK_STEPS)?;
        Some(Head {
            sequence: word(0),
            totals: ReferenceTotals { instructions, reads, writes },
            processes: Processes { threads, children, programs },
            state,
            steps,
        })
    }

    /// Why the capture of a finished program stopped.
    fn stop(self) -> Stop {
        match self.state {
            1 => Stop::Limit,
            2 => Stop::Closed,
            _ => Stop::End,
        }
    }
}

/// A chunk: its head, and its steps as bytes.
struct Chunk {
    head: Head,
    bytes: Vec<u8>,
}

impl Chunk {
    /// Appends the steps, and the changes of mappings between them; `None` if a record is invalid. `before` is
    /// the number of steps before this chunk.
    fn decode(
        &self,
        before: u64,
        steps: &mut Vec<SlotStep>,
        changes: &mut Vec<MappingChange>,
    ) -> Option<()> {
        let (records, _) = self.bytes.as_chunks::<STEP_BYTES>();
        for record in records {
            let [r0, r1, r2, r3, r4, r5, r6, r7, place @ ..] = *record;
            let place = u64::from_le_bytes(place);
            let references = u64::from_le_bytes([r0, r1, r2, r3, r4, r5, r6, r7]);
            if place & 3 == MAPPING {
                let change = MappingChange {
                    steps: before + steps.len() as u64,
                    change: *Change::ALL.get((place >> 3 & 63) as usize)?,
                    first: references,
                    pages: place >> 9,
                };
                // A reader would refuse the whole trace for it.
                if change.is_in_memory() {
                    changes.push(change);
                }
                continue;
            }
            steps.push(SlotStep {
                references,
                kind: *ReferenceKind::ALL.get((place & 3) as usize)?,
                block: place >> 9,
                slot: (place >> 3 & 63) as u8,
                is_left_written: place >> 2 & 1 == 1,
            });
        }
        Some(())
    }
}

/// Paths of a capture.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a> {
    /// The pipe.
    pub stream: &'a Path,
    /// The shared memory, of [`CHUNK_BYTES`].
    pub shared: &'a Path,
    /// The trace to write.
    pub output: &'a Path,
}

/// The result of a capture.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CaptureReport {
    /// All references.
    pub references: u64,
    /// Steps: references that the filter did not absorb.
    pub steps: u64,
    /// Bytes of the trace.
    pub file_bytes: u64,
    /// How the capture ended, and the references by kind.
    #[serde(flatten)]
    pub ending: Ending,
    /// Why there is less than the whole run; null if there is not.
    pub cut: Option<String>,
}

/// Writes the references of a program until it ends. Progress is reported as (references, 0). If
/// `progress` asks to stop, the caller must end the program; the trace keeps the references so far.
/// `status` waits for the program and returns its exit status or the negated number of its signal; `None`
/// if the capture was interrupted.
///
/// # Errors
/// If the stream cannot be read or the trace cannot be written, as on a full disk. The trace then ends
/// with its last complete frame; without any frame it is removed.
pub fn capture(
    places: Places<'_>,
    origin: &Origin,
    replaces: bool,
    progress: &dyn Progress,
    status: impl FnOnce() -> Option<i32>,
) -> Result<CaptureReport, Error> {
    let opened = |path: &Path| File::open(path).map_err(refused(path));
    refuse_existing(places.output, replaces)?;
    let (pipe, memory) = (opened(places.stream)?, opened(places.shared)?);
    let sink = Sink::create(places, origin)?;
    fill(sink, pipe, &memory, progress, status).inspect_err(|_| {
        if !has_a_frame(places.output) {
            let _ = fs::remove_file(places.output);
        }
    })
}

/// Whether a cut trace has a complete frame of steps.
fn has_a_frame(path: &Path) -> bool {
    let Ok(mut reader) = Reader::open(path) else { return false };
    let mut steps = Vec::new();
    while let Ok(true) = reader.next_steps(&mut steps) {
        if !steps.is_empty() {
            return true;
        }
    }
    false
}

fn fill(
    mut sink: Sink<'_>,
    pipe: File,
    memory: &File,
    progress: &dyn Progress,
    status: impl FnOnce() -> Option<i32>,
) -> Result<CaptureReport, Error> {
    let chunks = chunks_of(pipe);
    let mut sequence = None;
    let mut is_interrupted = false;
    while let Some(chunk) = wait(&chunks, || {
        let references = head_of(memory).map_or(0, |head| head.totals.all().unwrap_or(0));
        is_interrupted |= progress.advance(references, 0).is_err();
    }) {
        sequence = Some(chunk.head.sequence);
        sink.take(&chunk)?;
    }
    let rest = last_chunk(memory).ok_or_else(|| sink.corrupt())?;
    // If the plugin sent the chunk but did not begin the next one, the chunk came through the pipe.
    if sequence != Some(rest.head.sequence) {
        sink.take(&rest)?;
    }
    let references = rest.head.totals.all().ok_or_else(|| sink.corrupt())?;
    let status = if is_interrupted { None } else { status() };
    let stop = if status.is_none() { Stop::Interrupt } else { rest.head.stop() };
    let ending = Ending::new(rest.head.totals, stop, Some(rest.head.processes));
    // If the capture ended the program or stopped early, the status has no meaning.
    let ending = match status {
        Some(status) if stop == Stop::End => ending.with_status(status),
        _ => ending,
    };
    let steps = sink.count;
    let file_bytes = sink.finish(&ending)?;
    let cut = cut(Some(&ending));
    Ok(CaptureReport { references, steps, file_bytes, ending, cut })
}

fn refused(path: &Path) -> impl Fn(std::io::Error) -> Error {
    move |error| Error::new(ErrorKind::Io, path, error.to_string())
}

/// Decodes chunks and writes their steps to the trace.
struct Sink<'a> {
    places: Places<'a>,
    writer: Writer<BufWriter<File>>,
    /// Steps of the last chunk.
    steps: Vec<SlotStep>,
    /// Changes of mappings of the last chunk.
    changes: Vec<MappingChange>,
    count: u64,
}

impl<'a> Sink<'a> {
    fn create(places: Places<'a>, origin: &Origin) -> Result<Sink<'a>, Error> {
        let file = File::create_new(places.output).map_err(refused(places.output))?;
        let writer = Writer::new(BufWriter::new(file), origin).map_err(refused(places.output))?;
        Ok(Sink { places, writer, steps: Vec::new(), changes: Vec::new(), count: 0 })
    }

    fn take(&mut self, chunk: &Chunk) -> Result<(), Error> {
        self.steps.clear();
        self.changes.clear();
        chunk
            .decode(self.count, &mut self.steps, &mut self.changes)
            .ok_or_else(|| self.corrupt())?;
        self.changes.iter().for_each(|&change| self.writer.change(change));
        self.count += self.steps.len() as u64;
        let written = self.writer.write(&self.steps, chunk.head.totals);
        written.map_err(refused(self.places.output))
    }

    /// Ends the trace and returns its size in bytes.
    fn finish(self, ending: &Ending) -> Result<u64, Error> {
        let refused = refused(self.places.output);
        let buffer = self.writer.finish(ending).map_err(&refused)?;
        Ok(buffer.get_ref().metadata().map_err(&refused)?.len())
    }

    fn corrupt(&self) -> Error {
        Error::new(ErrorKind::Corrupt, self.places.stream, "is not what the capture plugin writes")
            .at(Position::Byte(0))
    }
}

/// Receives the chunks of the pipe, which the program's end closes.
fn chunks_of(mut pipe: File) -> Receiver<Chunk> {
    let (sender, chunks) = sync_channel(CHUNKS_WAITING);
    std::thread::spawn(move || {
        while let Some(chunk) = next_chunk(&mut pipe) {
            if sender.send(chunk).is_err() {
                break;
            }
        }
    });
    chunks
}

/// Waits for the next chunk and calls `report` at intervals; `None` at the end.
fn wait(chunks: &Receiver<Chunk>, mut report: impl FnMut()) -> Option<Chunk> {
    loop {
        report();
        match chunks.recv_timeout(REPORT_EVERY) {
            Ok(chunk) => return Some(chunk),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return None,
        }
    }
}

/// Reads the next chunk of the pipe. A truncated chunk is still complete in shared memory.
fn next_chunk(pipe: &mut File) -> Option<Chunk> {
    let mut head = [0; HEAD_BYTES];
    read_whole(pipe, &mut head)?;
    let head = Head::decode(&head)?;
    let mut bytes = vec![0; head.steps * STEP_BYTES];
    read_whole(pipe, &mut bytes)?;
    Some(Chunk { head, bytes })
}

fn read_whole(pipe: &mut File, buffer: &mut [u8]) -> Option<()> {
    let mut count = 0;
    while count < buffer.len() {
        match pipe.read(&mut buffer[count..]) {
            Ok(0) => return None,
            Ok(more) => count += more,
            Err(error) if error.kind() == IoKind::Interrupted => {}
            Err(_) => return None,
        }
    }
    Some(())
}

fn head_of(memory: &File) -> Option<Head> {
    let mut head = [0; HEAD_BYTES];
    memory.read_exact_at(&mut head, 0).ok()?;
    Head::decode(&head)
}

fn last_chunk(memory: &File) -> Option<Chunk> {
    let head = head_of(memory)?;
    let mut bytes = vec![0; head.steps * STEP_BYTES];
    memory.read_exact_at(&mut bytes, HEAD_BYTES as u64).ok()?;
    Some(Chunk { head, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::references::{Ended, info};
    use types::NoProgress;

    /// A chunk in the plugin's layout: `references` so far, and a step for each of `blocks`.
    fn chunk(sequence: u64, references: u64, blocks: std::ops::Range<u64>) -> Vec<u8> {
        let steps = blocks.end - blocks.start;
        let words = [sequence, references, 1, 2, 3 | 4 << 32, 5 | 1 << 32, steps];
        let head = words.iter().flat_map(|word| word.to_le_bytes());
        let step = |block: u64| [1, block << 9 | block << 3].map(u64::to_le_bytes).concat();
        head.chain(blocks.flat_map(step)).collect()
    }

    fn captured(stream: &[u8], shared: &[u8]) -> Result<CaptureReport, Error> {
        ended(stream, shared, Some(0))
    }

    fn ended(stream: &[u8], shared: &[u8], status: Option<i32>) -> Result<CaptureReport, Error> {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("stream"), stream).unwrap();
        std::fs::write(path("shared"), shared).unwrap();
        let (stream, shared, output) = (path("stream"), path("shared"), path("out"));
        let places = Places { stream: &stream, shared: &shared, output: &output };
        let origin = Origin::new("capture", vec!["true".to_owned()]);
        let report = capture(places, &origin, false, &NoProgress, || status)?;
        let info = info(&mut Reader::open(&output).unwrap(), &NoProgress).unwrap();
        assert_eq!((info.references, info.steps), (report.references, report.steps));
        assert_eq!(info.ending, Some(Ended::new(&report.ending)));
        Ok(report)
    }

    #[test]
    fn the_rest_is_read_from_shared_memory() {
        let sent = chunk(0, 50, 0..4);
        let report = captured(&sent, &chunk(1, 90, 4..7)).unwrap();
        assert_eq!((report.references, report.steps), (90, 7));
        assert_eq!(report.ending.instructions, 87);
        let expected = Processes { threads: 3, children: 4, programs: 5 };
        assert_eq!((report.ending.stop, report.ending.processes), (Stop::Limit, Some(expected)));
        // Killed after a chunk was sent, while a chunk was being sent, and before the first chunk.
        assert_eq!(captured(&sent, &chunk(0, 50, 0..4)).unwrap().steps, 4);
        let torn = [sent, chunk(1, 80, 4..9)[..70].to_vec()].concat();
        assert_eq!(captured(&torn, &chunk(1, 80, 4..9)).unwrap().steps, 9);
        assert_eq!(captured(b"", &chunk(0, 50, 0..4)).unwrap().steps, 4);
    }

    #[test]
    fn the_ending_has_the_status_of_the_program() {
        let mut running = chunk(0, 50, 0..4);
        running[44..48].fill(0);
        let ending = |shared: &[u8], status| {
            let ending = ended(b"", shared, status).unwrap().ending;
            (ending.stop, ending.exit_status, ending.signal)
        };
        assert_eq!(ending(&running, Some(7)), (Stop::End, Some(7), None));
        assert_eq!(ending(&running, Some(-11)), (Stop::End, None, Some(11)));
        assert_eq!(ending(&running, None), (Stop::Interrupt, None, None));
        // The capture ended the program, so the status is not the program's own.
        assert_eq!(ending(&chunk(0, 50, 0..4), Some(0)), (Stop::Limit, None, None));
    }

    #[test]
    fn a_change_of_mappings_is_no_step() {
        let mut shared = chunk(0, 50, 0..4);
        let last = HEAD_BYTES + 3 * STEP_BYTES;
        let place = 5 << 9 | (Change::Removed as u64) << 3 | MAPPING;
        shared[last + 8..last + 16].copy_from_slice(&place.to_le_bytes());
        assert_eq!(captured(b"", &shared).unwrap().steps, 3);
    }

    #[test]
    fn a_change_beyond_the_end_of_memory_is_dropped() {
        let mut shared = chunk(0, 50, 0..4);
        let last = HEAD_BYTES + 3 * STEP_BYTES;
        let place = 5 << 9 | (Change::Removed as u64) << 3 | MAPPING;
        shared[last..last + 8].copy_from_slice(&(u64::MAX >> 12).to_le_bytes());
        shared[last + 8..last + 16].copy_from_slice(&place.to_le_bytes());
        // `captured` reads the trace back.
        assert_eq!(captured(b"", &shared).unwrap().steps, 3);
    }

    #[test]
    fn invalid_chunks_are_refused() {
        let mut kind = chunk(0, 50, 0..4);
        // A change of mappings that does not exist.
        kind[HEAD_BYTES + 8] |= 0xfb;
        for shared in [chunk(0, 2, 0..0), kind, vec![0; 10]] {
            assert_eq!(captured(b"", &shared).unwrap_err().kind(), ErrorKind::Corrupt);
        }
    }
}
