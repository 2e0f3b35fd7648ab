//! What every trace gives to an analysis, whether it is read from a file of ours or from a recording.

use types::{EventKind, Events, PageId};

use crate::{Error, Header, Rows};

/// A source of the events of a trace, in order and in batches.
pub trait Source: Send {
    /// The header of the trace. The header of a trace file is complete. In a foreign recording that is
    /// read directly, `events`, `pages`, `processes`, `devices` and `losses` grow during reading and are
    /// complete after `next_batch` returns false. If `pages` is known, it exceeds the number of every
    /// page returned so far.
    fn header(&self) -> &Header;
    /// Announces that the caller does not need page numbers. A source that would have to make them, which
    /// takes memory for each page, leaves `page` empty.
    fn omit_numbering(&mut self) {}
    /// Announces that the caller needs neither page numbers nor the number of pages. A recording that is read
    /// directly counts its pages by numbering them, and then does not.
    fn omit_numbering_and_count(&mut self) {
        self.omit_numbering();
    }
    /// Replaces `events` by the next batch; false at the end of the trace.
    ///
    /// # Errors
    /// If the trace cannot be read, with file and offset.
    fn next_batch(&mut self, events: &mut Events) -> Result<bool, Error>;
    /// Replaces `rows` by the next batch with every column of the recording; false at the end of the
    /// trace. Do not mix it with `next_batch`.
    ///
    /// # Errors
    /// Errors of [`Self::next_batch`].
    fn next_rows(&mut self, rows: &mut Rows) -> Result<bool, Error> {
        rows.clear();
        self.next_batch(&mut rows.events)
    }
    /// Replaces `pages` by the pages of the next accesses, in order and possibly none; false at the end
    /// of the trace. Sources that can read pages without other columns override it. Do not mix it with
    /// `next_batch`.
    ///
    /// # Errors
    /// Errors of [`Self::next_batch`].
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

/// [`Source::next_batch`] of a source that reads whole rows: the next batch of [`Source::next_rows`] without
/// the columns that only rows have. It reuses the buffers of `events`.
///
/// # Errors
/// Errors of [`Source::next_rows`].
pub fn batch_of_rows(source: &mut impl Source, events: &mut Events) -> Result<bool, Error> {
    let mut rows = Rows { events: std::mem::take(events), ..Rows::default() };
    let result = source.next_rows(&mut rows);
    *events = rows.events;
    result
}
