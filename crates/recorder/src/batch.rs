//! What is handed over from the kernel at a time.

use trace::recording::{FileName, Record};

/// What the kernel's buffer held.
#[derive(Debug, Default)]
pub struct Batch {
    /// Events in order.
    pub records: Vec<Record>,
    /// Names of files whose pages are among the events, or come later.
    pub files: Vec<FileName>,
}

impl Batch {
    /// Empties it and keeps its memory.
    pub fn clear(&mut self) {
        self.records.clear();
        self.files.clear();
    }
}
