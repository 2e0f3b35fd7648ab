//! Units and nouns shared by every crate. No logic, no dependencies.

mod event;
mod progress;
mod units;

pub use event::{Event, EventFlags, EventKind, Events, PageClass};
pub use progress::{Cancelled, NoProgress, Progress};
pub use units::{Bytes, Nanos, PAGE_BYTES, PageId, ProcessId};
