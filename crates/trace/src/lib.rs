//! Bytes to events: foreign recordings, and the pagewise trace file.

mod error;
mod header;

pub use error::{Error, ErrorKind, Position};
pub use header::{Header, Loss, Process, TraceKind};

use types::Events;

/// Anything that yields the events of a trace in order, a batch at a time.
pub trait Source {
    /// What is known before the first event: clock, processes, losses, kind.
    fn header(&self) -> &Header;
    /// Replaces `events` by the next batch; false at the end of the trace.
    ///
    /// # Errors
    /// What could not be read, with file and offset.
    fn next_batch(&mut self, events: &mut Events) -> Result<bool, Error>;
}
