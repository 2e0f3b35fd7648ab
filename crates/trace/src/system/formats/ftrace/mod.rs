//! `ftrace`: the text of tracefs, of `trace-cmd report`, of `perf script`, and of systrace HTML, with every event
//! that has a [`Kind`]. Lines come in the file's order. Times are on the clock of the trace.

mod decode;
mod fields;
mod header;
mod keys;
mod page;
mod request;

pub(crate) use decode::{Decoded, LineDecoder};
pub(crate) use header::{LineHeader, split_header};
pub(crate) use page::{DROPPED, Note, OVERWRITTEN, Place, note};
pub(crate) use request::Request;

use super::Format;
use super::processes::Columns;
use crate::input::Input;
use crate::ledger::Ledger;
use crate::lines::{Expected, Lines};
use crate::sniff::{Confidence, head_lines};
use crate::system::{Event, Kind, Names, SystemReader, Tally};
use crate::{Error, Reject};

/// The row of this format.
pub const FORMAT: Format = Format {
    name: "ftrace",
    summary: "text of tracefs, trace-cmd report and perf script, systrace HTML",
    sniff,
    open,
};

/// What a line is that can be read.
pub(crate) const EXPECTED_LINE: Expected = Expected("`COMM-PID [CPU] FLAGS TIME: EVENT: ...`");

/// The loss of an event that is typed, but not this one.
pub(crate) const INCOMPLETE: &str = "events that lack a field or have an impossible one";

/// Processes of a list that is before the first event.
const LISTED_MAX: usize = 1 << 16;

/// Recognises HTML of systrace by its marks, and text by its first lines.
pub fn sniff(head: &[u8]) -> Confidence {
    if page::is_html(head) {
        return Confidence::Likely.when(page::is_systrace(head));
    }
    if head.starts_with(b"# tracer:") {
        return Confidence::Certain;
    }
    let lines = head_lines(head, 100);
    let good = lines.iter().filter(|line| split_header(line).is_some()).count();
    Confidence::Likely.when(good > 0 && good * 2 >= lines.len())
}

/// Opens a reader.
///
/// # Errors
/// None; the file is read by [`SystemReader::read`].
pub fn open(input: Input) -> Result<Box<dyn SystemReader>, Error> {
    let place = Place::of(input.held());
    let state = State {
        place,
        decoder: LineDecoder::default(),
        columns: Columns::default(),
        listed: Vec::new(),
        time_ns: None,
    };
    Ok(Box::new(Reader { lines: Lines::new(input), ledger: Ledger::new(false), state }))
}

struct Reader {
    lines: Lines,
    /// Holds the lines that cannot be read.
    ledger: Ledger,
    state: State,
}

/// What is known between lines.
struct State {
    place: Place,
    decoder: LineDecoder,
    columns: Columns,
    /// Processes and threads of the list, until the first event gives their time.
    listed: Vec<Kind>,
    /// Time of the last event.
    time_ns: Option<i64>,
}

impl SystemReader for Reader {
    fn read(&mut self, events: &mut Vec<Event>, tally: &mut Tally) -> Result<bool, Error> {
        let state = &mut self.state;
        self.lines.read_block(&mut self.ledger, |line| state.line(line, events, tally))
    }

    fn names(&self) -> &Names {
        self.state.decoder.names()
    }

    fn rejects(&self) -> (u64, &[Reject]) {
        self.ledger.rejects()
    }
}

impl State {
    fn line(
        &mut self,
        line: &[u8],
        events: &mut Vec<Event>,
        tally: &mut Tally,
    ) -> Result<(), Expected> {
        match self.place.follow(line) {
            None => return Ok(()),
            Some(Place::ProcessList) => {
                self.list(line, events);
                return Ok(());
            }
            Some(_) => {}
        }
        let Some(header) = split_header(line) else {
            match note(line).ok_or(EXPECTED_LINE)? {
                Note::Comment => {}
                Note::Overwritten(count) => tally.lose(OVERWRITTEN, count),
                Note::Dropped(count) => tally.lose(DROPPED, count),
            }
            return Ok(());
        };
        tally.count(header.event, 1);
        self.time_ns = Some(header.time_ns);
        for kind in self.listed.drain(..) {
            events.push(Event { time_ns: header.time_ns, cpu: None, tid: 0, kind });
        }
        match self.decoder.decode(&header, events) {
            Decoded::Event | Decoded::Other => {}
            Decoded::Incomplete => {
                tally.lose(INCOMPLETE, 1);
            }
        }
        Ok(())
    }

    /// A line of the list of processes.
    fn list(&mut self, line: &[u8], events: &mut Vec<Event>) {
        let Some(kind) = self.columns.read(line, self.decoder.names_mut()) else { return };
        match self.time_ns {
            Some(time_ns) => events.push(Event { time_ns, cpu: None, tid: 0, kind }),
            None if self.listed.len() < LISTED_MAX => self.listed.push(kind),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests;
