//! What signals ask of a daemon.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The switches that signals set.
#[derive(Clone, Debug, Default)]
pub struct Control {
    /// Whether to end.
    pub is_over: Arc<AtomicBool>,
    /// Whether to read the settings again.
    pub is_reload: Arc<AtomicBool>,
}
