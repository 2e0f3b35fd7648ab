//! Bytes to events: foreign recordings, and the pagewise trace file.

pub mod allocations;
mod binary;
mod checksum;
mod error;
mod files;
pub mod formats;
mod framing;
pub mod grouped;
mod header;
pub mod import;
pub mod input;
pub mod kills;
mod ledger;
mod lines;
mod mapping;
mod merge;
mod open;
pub mod pipeline;
mod processes;
mod record;
pub mod recording;
pub mod references;
pub mod renumber;
pub mod replay;
mod rows;
mod runs;
mod seal;
mod shortage;
mod stage;
pub mod store;
pub mod table;
mod text;
mod timeline;
mod varint;
mod zeros;

pub use error::{Error, ErrorKind, Position};
pub use files::{FILE_PAGE_BITS, File};
pub use formats::Role;
pub use header::{Header, Loss, Part, Reject, TraceKind};
pub use ledger::Ledger;
pub use open::{Opened, open, open_any};
pub use processes::{Process, Processes};
pub use record::{AddressUnit, IdReader, Mapping, Operation, Record, RecordReader, Stage, Traits};
pub use rows::{ADDRESS_BITS, Rows, SPACES_MAX, page_key};
pub use shortage::{Killed, Shortage, Stall};
pub use timeline::{Gap, Timeline};
pub use zeros::{ZEROS_UNMARKED, Zeros};

use types::{EventKind, Events, PageId};

/// A source of the events of a trace, in order and in batches.
pub trait Source: Send {
    /// The header of the trace. The header of a trace file is complete. In a foreign recording that is
    /// read directly, `events`, `pages`, `processes`, `devices` and `losses` grow during reading and are
    /// complete after `next_batch` returns false. If `pages` is known, it exceeds the number of every
    /// page returned so far.
    fn header(&self) -> &Header;
    /// Replaces `events` by the next batch; false at the end of the trace.
    ///
    /// # Errors
    /// If the trace cannot be read, with file and offset.
    fn next_batch(&mut self, events: &mut Events) -> Result<bool, Error>;
    /// Replaces `rows` by the next batch with every column of the recording; false at the end of the
    /// trace. Do not mix it with `next_batch`.
    ///
    /// # Errors
    /// Those of `next_batch`.
    fn next_rows(&mut self, rows: &mut Rows) -> Result<bool, Error> {
        rows.clear();
        self.next_batch(&mut rows.events)
    }
    /// Replaces `pages` by the pages of the next accesses, in order and possibly none; false at the end
    /// of the trace. Sources that can read pages without other columns override it. Do not mix it with
    /// `next_batch`.
    ///
    /// # Errors
    /// Those of `next_batch`.
    fn next_accesses(&mut self, pages: &mut Vec<PageId>) -> Result<bool, Error> {
        let mut events = Events { page: std::mem::take(pages), ..Events::default() };
        let is_more = self.next_batch(&mut events)?;
        *pages = events.page;
        if !is_more {
            pages.clear();
        } else if !events.kind.iter().fold(true, |are_all, kind| are_all & kind.is_access()) {
            let mut kinds = events.kind.iter();
            pages.retain(|_| kinds.next().is_some_and(|kind: &EventKind| kind.is_access()));
        }
        Ok(is_more)
    }
}
