//! The files that recordings go to.

use std::io::{self, Write};

use linux::Root;
use linux::system::{self, Machine};
use policy::placement::Latencies;
use policy::tiers::{Move, Request as Event, Step};
use trace::recording::{About, Ending, Record, ServedLatencies, ServedTiers, Writer, kind};

use super::entry::Entry;
use super::ring::Sink;
use crate::Error;
use crate::statistics::Serving;

/// The head of a recording of this server.
///
/// # Errors
/// The operating system refuses.
pub fn about(root: &Root, serving: &Serving, latencies: Latencies) -> Result<About, Error> {
    let whole = |time_ns: f64| time_ns.round() as u64;
    let tiers = ServedTiers {
        policy: serving.policy.clone(),
        options: serving.options.clone(),
        size_bytes: serving.size_bytes,
        fast_bytes: serving.fast_bytes,
        frames: serving.frames,
        latencies: ServedLatencies {
            fast_read_ns: whole(latencies.fast_read),
            fast_write_ns: whole(latencies.fast_write),
            slow_read_ns: whole(latencies.slow_read),
            slow_write_ns: whole(latencies.slow_write),
        },
        ..ServedTiers::default()
    };
    let machine = Machine::this(root)?;
    Ok(About {
        pagewise: env!("CARGO_PKG_VERSION").to_owned(),
        kernel: machine.kernel,
        machine: machine.architecture,
        processors: machine.processors,
        memory_bytes: machine.memory_bytes,
        page_bytes: machine.page_bytes,
        realtime_offset_ns: system::realtime_offset_ns(),
        backend: "swapd".to_owned(),
        sources: vec!["swap".to_owned()],
        tiers: Some(Box::new(tiers)),
        ..About::default()
    })
}

/// Events and ended moves, as `pagewise import` reads them.
pub struct RecordingFile<W: Write> {
    /// None once it is complete.
    writer: Option<Writer<W>>,
    last_ns: u64,
}

impl<W: Write + Send> RecordingFile<W> {
    /// Writes the head of the file.
    ///
    /// # Errors
    /// The operating system refuses the write.
    pub fn new(file: W, about: &About) -> io::Result<RecordingFile<W>> {
        Ok(RecordingFile { writer: Some(Writer::new(file, about)?), last_ns: 0 })
    }
}

impl<W: Write + Send> Sink for RecordingFile<W> {
    fn take(&mut self, entry: Entry) -> io::Result<()> {
        let writer = self.writer.as_mut().expect("no entry comes after the last");
        let moved = |kind, number, moved: Move| {
            let step = Step::ALL.iter().position(|step| *step == moved.step);
            Record {
                kind,
                address: number,
                object: u64::from(moved.page.0),
                auxiliary: step.expect("every step is listed") as u32,
                pages: 1,
                ..Record::default()
            }
        };
        let record = match entry {
            Entry::Event { time_ns, event, slot, .. } => {
                self.last_ns = time_ns;
                let kind = match event {
                    Event::Out { .. } => kind::SWAP_WRITE,
                    Event::In => kind::SWAP_READ,
                    Event::Void => kind::SLOT_VOID,
                };
                Record { kind, object: u64::from(slot), pages: 1, ..Record::default() }
            }
            Entry::Ended { number, moved: ended, is_done: true } => {
                moved(kind::MOVE_DONE, number, ended)
            }
            Entry::Ended { number, moved: ended, is_done: false } => {
                moved(kind::MOVE_FAILED, number, ended)
            }
            Entry::Capacity { number, frames } => Record {
                kind: kind::CAPACITY,
                address: number,
                object: u64::from(frames),
                pages: 1,
                ..Record::default()
            },
            // They follow from the events.
            Entry::Decided { .. } => return Ok(()),
        };
        writer.push(Record { time_ns: self.last_ns, ..record })
    }

    fn finish(&mut self) -> io::Result<()> {
        let Some(writer) = self.writer.take() else { return Ok(()) };
        writer.finish(Ending { time_ns: self.last_ns, ..Ending::default() })?.flush()
    }
}

/// The moves decided, as CSV with the columns `event,slot,move`.
pub struct MovesFile<W> {
    file: W,
}

impl<W: Write + Send> MovesFile<W> {
    /// Writes the head of the file.
    ///
    /// # Errors
    /// The operating system refuses the write.
    pub fn new(mut file: W) -> io::Result<MovesFile<W>> {
        file.write_all(b"event,slot,move\n")?;
        Ok(MovesFile { file })
    }
}

impl<W: Write + Send> Sink for MovesFile<W> {
    fn take(&mut self, entry: Entry) -> io::Result<()> {
        match entry {
            Entry::Decided { number, moved } => {
                writeln!(self.file, "{number},{},{}", moved.page.0, moved.step.name())
            }
            Entry::Event { .. } | Entry::Capacity { .. } | Entry::Ended { .. } => Ok(()),
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use types::PageId;

    use super::*;

    #[test]
    fn the_file_of_moves_has_a_row_for_each_move_decided() {
        let mut file = MovesFile::new(Vec::new()).unwrap();
        let moved = |step, slot| Move { step, page: PageId(slot) };
        for entry in [
            Entry::Decided { number: 4, moved: moved(Step::Demote { writes: true }, 9) },
            Entry::Decided { number: 4, moved: moved(Step::WriteFast, 2) },
            Entry::Ended { number: 4, moved: moved(Step::WriteFast, 2), is_done: true },
        ] {
            file.take(entry).unwrap();
        }
        assert_eq!(file.file, b"event,slot,move\n4,9,demote_write\n4,2,write_fast\n");
    }
}
