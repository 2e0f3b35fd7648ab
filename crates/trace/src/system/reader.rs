//! The interface of every reader of system traces.

use super::{Event, Names, Tally};
use crate::{Error, Reject};

/// Reads the events of a system trace.
pub trait SystemReader: Send {
    /// Appends the next events, a bounded number, in the file's order, and counts them and what was lost in
    /// `tally`. Returns false at the end; a call may append nothing and still return true. Only a `Sorted`
    /// reader promises that times do not decrease.
    ///
    /// # Errors
    /// If the file cannot be read, with file and position. A file that is cut gives the events before the
    /// cut, and a loss in `tally`.
    fn read(&mut self, events: &mut Vec<Event>, tally: &mut Tally) -> Result<bool, Error>;

    /// The texts that the events name. Names of earlier events stay valid.
    fn names(&self) -> &Names;

    /// Events read so far, those that the reader did not pass on included; `None` if it passes on all.
    fn events_read(&self) -> Option<u64> {
        None
    }

    /// The number of lines that could not be read so far, and the first of them; binary formats have none.
    fn rejects(&self) -> (u64, &[Reject]) {
        (0, &[])
    }
}

impl<R: SystemReader + ?Sized> SystemReader for Box<R> {
    fn read(&mut self, events: &mut Vec<Event>, tally: &mut Tally) -> Result<bool, Error> {
        (**self).read(events, tally)
    }

    fn names(&self) -> &Names {
        (**self).names()
    }

    fn events_read(&self) -> Option<u64> {
        (**self).events_read()
    }

    fn rejects(&self) -> (u64, &[Reject]) {
        (**self).rejects()
    }
}
