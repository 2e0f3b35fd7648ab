//! Bytes to events: foreign recordings, and the pagewise trace file.

mod error;
pub mod formats;
mod header;
pub mod input;
mod ledger;
mod lines;
mod mapping;
mod merge;
pub mod pipeline;
mod record;
pub mod renumber;
mod rows;
mod stage;
pub mod table;
mod text;

pub use error::{Error, ErrorKind, Position};
pub use header::{Header, Loss, Process, TraceKind};
pub use ledger::{Ledger, Reject};
pub use record::{AddressUnit, Mapping, Operation, Record, RecordReader, Stage, Traits};
pub use rows::{ADDRESS_BITS, Rows, SPACES_MAX, page_key};

use types::Events;

/// Anything that yields the events of a trace in order, a batch at a time.
pub trait Source {
    /// What is known about the trace. Of a trace file everything; of a foreign recording that is
    /// read directly `events`, `pages`, `processes`, `devices` and `losses` grow while it is read,
    /// and are complete once `next_batch` has returned false.
    fn header(&self) -> &Header;
    /// Replaces `events` by the next batch; false at the end of the trace.
    ///
    /// # Errors
    /// What could not be read, with file and offset.
    fn next_batch(&mut self, events: &mut Events) -> Result<bool, Error>;
}
