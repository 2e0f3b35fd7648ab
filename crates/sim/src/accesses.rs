//! The accesses of a trace, a batch of page numbers at a time.

use crate::Error;
use trace::Source;
use types::{PageId, Progress};

/// Reads the accesses of a source and reports its progress.
pub(crate) struct Accesses<'a> {
    source: &'a mut dyn Source,
    progress: &'a dyn Progress,
    pages: Vec<PageId>,
    done: u64,
}

/// Consecutive accesses.
pub(crate) struct Batch<'a> {
    /// The pages accessed, in order.
    pub pages: &'a [PageId],
    /// All pages have lower numbers than this.
    pub bound: usize,
}

impl<'a> Accesses<'a> {
    pub(crate) fn new(source: &'a mut dyn Source, progress: &'a dyn Progress) -> Accesses<'a> {
        Accesses { source, progress, pages: Vec::new(), done: 0 }
    }

    /// An upper bound on the number of accesses; 0 if the source does not know one beforehand.
    pub(crate) fn expected(&self) -> u64 {
        self.source.header().events
    }

    /// The next batch, which may be empty; none at the end of the trace.
    pub(crate) fn next(&mut self) -> Result<Option<Batch<'_>>, Error> {
        if !self.source.next_accesses(&mut self.pages)? {
            return Ok(None);
        }
        self.done += self.pages.len() as u64;
        let total = self.source.header().events.max(self.done);
        self.progress.advance(self.done, total)?;
        // A search for the greatest number costs a tenth of the fastest policy's work.
        let bound = match self.source.header().pages {
            Some(pages) => pages as usize,
            None if self.pages.is_empty() => 0,
            // A fold of plain numbers, because `max` of pages is not vectorised.
            None => self.pages.iter().fold(0, |greatest, page| page.0.max(greatest)) as usize + 1,
        };
        Ok(Some(Batch { pages: &self.pages, bound }))
    }
}
