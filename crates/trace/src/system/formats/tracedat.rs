//! `tracedat`: files of `trace-cmd record`, versions 6 and 7 ([`crate::tracedat`]). Events come in the order of
//! time. Times are on the clock of the recording, which is not that of boot unless trace-cmd was started with `-C boot`.

use super::Format;
use super::ftrace::INCOMPLETE;
use crate::Error;
use crate::input::Input;
use crate::sniff::Confidence;
use crate::system::kernel::{Context, Decoder, Fields, decoder, may_have_no_kind};
use crate::system::{Event, Names, SystemReader, Tally};
use crate::tracedat::{self, MAGIC, TraceDat};

/// The row of this format.
pub const FORMAT: Format =
    Format { name: "tracedat", summary: "trace.dat files of trace-cmd", sniff, open };

/// Events of a call of `read`.
const EVENTS_PER_READ: usize = 4096;

/// Recognises a file by its first ten bytes.
pub fn sniff(head: &[u8]) -> Confidence {
    Confidence::Certain.when(head.starts_with(MAGIC))
}

/// Opens a reader.
///
/// # Errors
/// Errors of [`TraceDat::open`].
pub fn open(mut input: Input) -> Result<Box<dyn SystemReader>, Error> {
    let file = TraceDat::open(&mut input)?;
    let mut decoders = Vec::new();
    for format in file.formats() {
        let place = usize::from(format.id);
        decoders.resize(place + 1, None);
        decoders[place] = decoder(&format.name);
    }
    let names = Names::default();
    Ok(Box::new(Reader { input, file, decoders, names, is_finished: false }))
}

struct Reader {
    /// The file as a stream, which follows the reader, so that progress and checksum count all bytes.
    input: Input,
    file: TraceDat,
    /// By the number of the event.
    decoders: Vec<Option<Decoder>>,
    names: Names,
    /// Whether the losses are in the tally.
    is_finished: bool,
}

/// The fields of an event, as the decoders ask for them.
struct EventFields<'file>(tracedat::Event<'file>);

impl Fields for EventFields<'_> {
    fn number(&self, name: &str) -> Option<i64> {
        // A device is the kernel's own number, major << 20 | minor, as the decoders expect it.
        self.0.number(name).map(|number| number as i64)
    }

    fn text(&self, name: &str) -> Option<&[u8]> {
        self.0.text(name)
    }
}

impl SystemReader for Reader {
    fn read(&mut self, events: &mut Vec<Event>, tally: &mut Tally) -> Result<bool, Error> {
        for _ in 0..EVENTS_PER_READ {
            let Some(event) = self.file.next_event()? else {
                self.finish(tally)?;
                return Ok(false);
            };
            tally.count(event.format.name.as_bytes(), 1);
            let decode = self.decoders.get(usize::from(event.format.id)).copied().flatten();
            let Some(decode) = decode else { continue };
            let (time_ns, cpu, tid) = (event.time_ns, event.cpu, event.pid as u32);
            let format = event.format;
            let fields = EventFields(event);
            match decode(&fields, Context { tid }, &mut self.names) {
                Some(kind) => events.push(Event { time_ns, cpu: Some(cpu), tid, kind }),
                None if may_have_no_kind(format.name.as_bytes(), &fields) => {}
                None => tally.lose(INCOMPLETE, 1),
            }
        }
        // Keep pace with the data of the CPUs, so that progress advances.
        let behind = self.file.bytes_read().saturating_sub(self.input.offset());
        self.skip(behind)?;
        Ok(true)
    }

    fn names(&self) -> &Names {
        &self.names
    }
}

impl Reader {
    /// Passes over at most `count` bytes of the stream.
    fn skip(&mut self, count: u64) -> Result<(), Error> {
        let end = self.input.offset().saturating_add(count);
        while self.input.offset() < end && !self.input.fill()?.is_empty() {
            let left = end - self.input.offset();
            self.input.consume(usize::try_from(left).unwrap_or(usize::MAX));
        }
        Ok(())
    }

    /// Counts what was lost, and reads the stream to its end. A second call does nothing.
    fn finish(&mut self, tally: &mut Tally) -> Result<(), Error> {
        if std::mem::replace(&mut self.is_finished, true) {
            return Ok(());
        }
        let lost = self.file.lost();
        tally.lose("events that the kernel lost", lost.events);
        tally.lose("gaps with an unknown number of lost events", lost.uncounted);
        tally.lose("events of an unknown kind", self.file.take_unknown());
        if !self.file.has_nanoseconds() {
            tally.clock_problem("times are ticks of a counter, not nanoseconds", 1);
        }
        if self.file.is_guest() {
            tally.clock_problem("times are those of a virtual machine", 1);
        }
        self.skip(u64::MAX)
    }
}

#[cfg(test)]
mod tests;
