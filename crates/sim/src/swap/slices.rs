//! The counts of a run by slices of its trace, from one replay.

use super::driver::Cell;
use super::tally::{Counts, Tally};
use crate::error::Error;
use trace::Elapsed;
use types::{Events, Progress};

/// Cuts between the slices of a trace, in ascending order: a slice ends before the first event that reaches
/// its mark. With `None` the trace is one slice, and outcomes have no counts by slice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Marks {
    /// No cut.
    #[default]
    None,
    /// Nanoseconds since the first event.
    Times(Vec<i64>),
    /// Numbers of events, from 0.
    Events(Vec<u64>),
}

impl Marks {
    /// Number of slices that end at a mark; the last slice ends with the trace.
    pub fn len(&self) -> usize {
        match self {
            Marks::None => 0,
            Marks::Times(times) => times.len(),
            Marks::Events(numbers) => numbers.len(),
        }
    }

    /// Whether there is no cut.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Finds the marks in a trace that is read batch by batch.
pub(super) struct Cutter<'a> {
    marks: &'a Marks,
    passed: usize,
    done: u64,
    clock: Elapsed,
    /// Time of each event of the batch since the first event; empty unless the marks are times.
    times_ns: Vec<i64>,
}

impl Cutter<'_> {
    pub(super) fn new(marks: &Marks) -> Cutter<'_> {
        Cutter { marks, passed: 0, done: 0, clock: Elapsed::default(), times_ns: Vec::new() }
    }

    /// The batch cut at its marks; empty if it has none.
    pub(super) fn parts(&mut self, events: &Events) -> Vec<Events> {
        if matches!(self.marks, Marks::Times(_)) {
            self.times_ns.clear();
            self.times_ns.extend(events.time_ns.iter().map(|&time_ns| self.clock.at(time_ns)));
        }
        let mut parts = Vec::new();
        let mut from = 0;
        while let Some(index) = self.next_cut(events, from) {
            parts.push(events.slice(from..index));
            (self.passed, from) = (self.passed + 1, index);
        }
        self.done += events.len() as u64;
        if !parts.is_empty() {
            parts.push(events.slice(from..events.len()));
        }
        parts
    }

    fn next_cut(&self, events: &Events, from: usize) -> Option<usize> {
        match self.marks {
            Marks::None => None,
            Marks::Times(times) => {
                let mark = *times.get(self.passed)?;
                let later = self.times_ns.get(from..)?.iter();
                later.copied().position(|time_ns| time_ns >= mark).map(|index| from + index)
            }
            Marks::Events(numbers) => {
                let index = usize::try_from(numbers.get(self.passed)?.checked_sub(self.done)?);
                index.ok().filter(|&index| index >= from && index < events.len())
            }
        }
    }
}

/// A cell, and its counts at each mark so far.
pub(super) struct Sliced {
    cell: Box<dyn Cell>,
    /// Whether the cell replays the trace as the kernel's readahead rewrites it.
    pub(super) is_rewritten: bool,
    noted: Vec<Counts>,
}

impl Sliced {
    pub(super) fn new(cell: Box<dyn Cell>, is_rewritten: bool) -> Sliced {
        Sliced { cell, is_rewritten, noted: Vec::new() }
    }

    /// Makes room for pages numbered below `pages` at once.
    pub(super) fn expect(&mut self, pages: usize) {
        self.cell.expect(pages);
    }

    /// The cell without its marks.
    pub(super) fn into_cell(self) -> Box<dyn Cell> {
        self.cell
    }

    /// Replays the parts of a batch, between which slices end.
    pub(super) fn replay(&mut self, parts: &[Events]) {
        let Some((last, earlier)) = parts.split_last() else { return };
        for part in earlier {
            self.cell.replay(part);
            self.noted.extend(self.cell.tally().map(Tally::total));
        }
        self.cell.replay(last);
    }

    /// Ends the run. Returns its counts, and those of each slice, which are absent without marks or if all
    /// counting comes at the end.
    pub(super) fn finish(
        self,
        marks: &Marks,
        progress: &dyn Progress,
    ) -> Result<(Tally, Vec<Counts>), Error> {
        let counts_on_the_way = self.cell.tally().is_some();
        let tally = self.cell.finish(progress)?;
        if marks.is_empty() || !counts_on_the_way {
            return Ok((tally, Vec::new()));
        }
        let total = tally.total();
        let mut ends = self.noted;
        ends.resize(marks.len() + 1, total);
        let mut before = Counts::default();
        let slices = ends.into_iter().map(|end| end.since(&std::mem::replace(&mut before, end)));
        Ok((tally, slices.collect()))
    }
}
