//! How a long call reports its progress and is cancelled.

/// The caller asked the call to stop. Each call documents whether it keeps or undoes its work so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancelled;

/// Receives the progress of a long call, once per batch. Implementations must be cheap.
pub trait Progress: Sync {
    /// Reports that `done` of `total` units (bytes or events) are done; `total` is 0 if unknown.
    fn advance(&self, done: u64, total: u64) -> Result<(), Cancelled>;
}

/// Ignores the progress and never cancels.
pub struct NoProgress;

impl Progress for NoProgress {
    fn advance(&self, _done: u64, _total: u64) -> Result<(), Cancelled> {
        Ok(())
    }
}
