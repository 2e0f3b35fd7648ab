//! A batch of events from the kernel.

use trace::recording::{FileName, Record};

/// Events and names that were in the kernel's buffer.
#[derive(Debug, Default)]
pub struct Batch {
    /// Events in order.
    pub records: Vec<Record>,
    /// Names of files whose pages are among the events, or come later.
    pub files: Vec<FileName>,
}

impl Batch {
    /// Removes everything, and keeps the allocation.
    pub fn clear(&mut self) {
        self.records.clear();
        self.files.clear();
    }
}
