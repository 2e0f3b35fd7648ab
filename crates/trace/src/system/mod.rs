//! System traces: recordings of a whole system by Perfetto, trace-cmd, perf or atrace, as typed events.
//!
//! A reader of [`formats`] turns a file into [`Event`]s, in the file's order; [`Sorted`] puts them into the
//! order of time. [`kernel`] decodes the kernel's events and the markers of userspace, so that every format
//! gives the same [`Kind`] for the same event. [`Tally`] counts everything, also what has no `Kind`.

pub mod android;
mod contents;
mod event;
mod facts;
pub mod formats;
pub mod kernel;
mod names;
mod open;
mod questions;
mod reader;
mod sorted;
mod tally;

pub use contents::{Contents, UnknownField};
pub use event::{
    BlockRequest, BlockStage, CounterSource, Event, Fault, Kind, MemoryPart, Resource, RssMember,
    Switch, TaskState, Wake,
};
pub use facts::Facts;
pub use names::{NAME_BYTES_MAX, Name, Names};
pub use open::{OpenedSystem, open};
pub use questions::{Question, questions};
pub use reader::SystemReader;
pub use sorted::{SORTED_EVENTS, Sorted};
pub use tally::Tally;
