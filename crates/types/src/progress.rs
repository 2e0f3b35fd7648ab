//! How a long call tells how far it is, and learns that it should stop.

/// The caller asked the call to stop; what was done so far is undone or kept as the call documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancelled;

/// Told now and then how far a long call is. Implementations must be cheap: once per batch.
pub trait Progress: Sync {
    /// `done` of `total` units (bytes or events; 0 where the total is unknown).
    fn advance(&self, done: u64, total: u64) -> Result<(), Cancelled>;
}

/// For callers that neither watch nor stop.
pub struct NoProgress;

impl Progress for NoProgress {
    fn advance(&self, _done: u64, _total: u64) -> Result<(), Cancelled> {
        Ok(())
    }
}
