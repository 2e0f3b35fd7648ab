//! Several passes over a trace, for work whose state does not fit into memory at once.

use types::{Cancelled, Progress};

/// Reports the progress of one of several passes over the same trace.
pub(crate) struct InPass<'a> {
    pub(crate) progress: &'a dyn Progress,
    /// The number of this pass, from 0.
    pub(crate) pass: usize,
    pub(crate) passes: usize,
}

impl Progress for InPass<'_> {
    fn advance(&self, done: u64, total: u64) -> Result<(), Cancelled> {
        // A damaged header may claim any number of events.
        let before = total.saturating_mul(self.pass as u64);
        self.progress.advance(before.saturating_add(done), total.saturating_mul(self.passes as u64))
    }
}
