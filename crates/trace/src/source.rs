//! What every trace gives to an analysis, whether it is read from a file of ours or from a recording.

use types::{EventKind, Events, PageId};

use crate::{Error, Header, Rows};

/// Anything that yields the events of a trace in order, a batch at a time.
pub trait Source: Send {
    /// What is known about the trace. Of a trace file everything; of a foreign recording that is
    /// read directly `events`, `pages`, `processes`, `devices` and `losses` grow while it is read,
    /// and are complete once `next_batch` has returned false. Where `pages` is known, all pages
    /// given out so far are numbered below it.
    fn header(&self) -> &Header;
    /// Replaces `events` by the next batch; false at the end of the trace.
    ///
    /// # Errors
    /// What could not be read, with file and offset.
    fn next_batch(&mut self, events: &mut Events) -> Result<bool, Error>;
    /// Replaces `rows` by the next batch with every column that the recording keeps; false at the
    /// end of the trace. Another way to read the whole trace: not to be mixed with `next_batch`.
    ///
    /// # Errors
    /// As `next_batch`.
    fn next_rows(&mut self, rows: &mut Rows) -> Result<bool, Error> {
        rows.clear();
        self.next_batch(&mut rows.events)
    }
    /// Replaces `pages` by the pages of the next accesses, in order and possibly none; false at the
    /// end of the trace. A source that can read pages without the rest does. It is another way to
    /// read the whole trace: not to be mixed with `next_batch`.
    ///
    /// # Errors
    /// As `next_batch`.
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
